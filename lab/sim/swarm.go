package sim

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Swarm runs many seeds, as many at a time as there are processors.
type Swarm struct {
	From  uint64        // the first seed
	Seeds int           // how many
	Time  time.Duration // at most; 0 is no bound
	// Scenario is run with each seed; nil: each seed draws one.
	Scenario *Scenario
	// Progress is called after each run, one call at a time. It may be nil.
	Progress func(Summary)
}

// Summary is what a swarm has done.
type Summary struct {
	Seeds     int           `json:"seeds"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	Simulated time.Duration `json:"simulated_ns"`
	Steps     uint64        `json:"steps"`
	Events    uint64        `json:"events"`
	Commands  uint64        `json:"commands"`
	Items     uint64        `json:"items"` // of streams between groups, received
	Moves     uint64        `json:"moves"` // of actors from group to group
	// of switches, with the actors at them
	SwitchMoves uint64    `json:"switch_moves"`
	Requests    uint64    `json:"requests"`  // over HTTP, that were answered
	Store       uint64    `json:"store"`     // requests to the store, that were answered
	Looks       uint64    `json:"looks"`     // at what switches forward, for applications of the suite
	Forgotten   uint64    `json:"forgotten"` // switches
	Degraded    uint64    `json:"degraded"`  // commands of leaders without a majority
	Terms       uint64    `json:"terms"`     // leaders that came to office
	Epochs      uint64    `json:"epochs"`    // of switches without agent
	Lost        uint64    `json:"lost"`      // events that these told between two epochs
	Faults      int       `json:"faults"`
	Failed      []Failure `json:"failed"` // by the time of finding; the swarm ends with the first, so few
}

// Failure is a run that broke something.
type Failure struct {
	Scenario  Scenario   `json:"scenario"`
	Violation *Violation `json:"violation"`
	Timeline  []string   `json:"timeline"`
}

// Run runs seeds until all are done, the time is over, ctx ends, or one fails.
func (sw Swarm) Run(ctx context.Context) Summary {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	var (
		mu   sync.Mutex // guards next and sum
		next int
		sum  Summary
		runs sync.WaitGroup
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		over := sw.Time > 0 && time.Since(start) >= sw.Time
		if next >= sw.Seeds || over || ctx.Err() != nil {
			return 0, false
		}
		next++
		return sw.From + uint64(next-1), true
	}
	for range runtime.GOMAXPROCS(0) {
		runs.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				sc := sw.scenario(seed)
				r := Run(sc)
				mu.Lock()
				sum.add(sc, r)
				sum.Elapsed = time.Since(start)
				if r.Violation != nil {
					cancel()
				}
				if sw.Progress != nil {
					sw.Progress(sum)
				}
				mu.Unlock()
			}
		})
	}
	runs.Wait()
	return sum
}

func (sw Swarm) scenario(seed uint64) Scenario {
	if sw.Scenario == nil {
		return NewScenario(seed)
	}
	sc := *sw.Scenario
	sc.Seed = seed
	return sc
}

func (s *Summary) add(sc Scenario, r Result) {
	s.Seeds++
	s.Simulated += r.Simulated
	s.Steps += r.Steps
	s.Events += r.Events
	s.Commands += r.Commands
	s.Items += r.Items
	s.Moves += r.Moves
	s.SwitchMoves += r.SwitchMoves
	s.Requests += r.Requests
	s.Store += r.Store
	s.Looks += r.Looks
	s.Degraded += r.Degraded
	s.Forgotten += r.Forgotten
	s.Terms += r.Terms
	s.Epochs += r.Epochs
	s.Lost += r.Lost
	s.Faults += len(sc.Faults)
	if r.Violation != nil {
		s.Failed = append(s.Failed, Failure{sc, r.Violation, r.Timeline})
	}
}
