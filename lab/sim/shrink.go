package sim

import (
	"context"
	"slices"
	"time"
)

// Shrink looks for a smaller scenario that fails as well, until ctx ends or nothing smaller
// fails: fewer faults first, then a shorter run, fewer processes, less traffic. tried, which may be nil, is
// called after each run. The result of the smallest is returned with it.
func Shrink(ctx context.Context, failing Scenario, tried func(smallest Scenario, runs int)) (Scenario, Result) {
	s := shrinking{ctx: ctx, smallest: failing, result: Run(failing), tried: tried}
	if s.result.Violation == nil {
		return failing, s.result
	}
	for before := -1; s.shrunk != before && ctx.Err() == nil; {
		before = s.shrunk
		s.dropFaults()
		s.shorten()
		s.reduce()
	}
	return s.smallest, s.result
}

type shrinking struct {
	ctx      context.Context
	smallest Scenario
	result   Result
	tried    func(Scenario, int)
	runs     int
	shrunk   int // how often something smaller failed too
}

// try keeps a scenario if it fails.
func (s *shrinking) try(sc Scenario) bool {
	if s.ctx.Err() != nil {
		return false
	}
	r := Run(sc)
	s.runs++
	fails := r.Violation != nil
	if fails {
		s.smallest, s.result = sc, r
		s.shrunk++
	}
	if s.tried != nil {
		s.tried(s.smallest, s.runs)
	}
	return fails
}

// dropFaults leaves out runs of faults, long ones first.
func (s *shrinking) dropFaults() {
	for size := len(s.smallest.Faults); size > 0; size /= 2 {
		for at := 0; at < len(s.smallest.Faults); {
			sc := s.smallest
			sc.Faults = slices.Delete(slices.Clone(sc.Faults), at, min(at+size, len(sc.Faults)))
			if !s.try(sc) {
				at += size
			}
		}
	}
}

// shortest is a run that is not made shorter.
const shortest = 100 * time.Millisecond

// shorten ends the run soon after what went wrong, or halves it.
func (s *shrinking) shorten() {
	for _, d := range []time.Duration{s.result.Violation.At, s.smallest.Duration / 2, s.smallest.Duration * 3 / 4} {
		if sc := s.smallest; d < sc.Duration && d >= shortest {
			sc.Duration = d
			s.try(sc)
		}
	}
}

// reduce takes what is simpler, one thing after the other.
func (s *shrinking) reduce() {
	for _, simpler := range []func(*Scenario){
		func(sc *Scenario) { sc.PerController, sc.MoveEvery, sc.MoveSwitchEvery = false, 0, 0 },
		func(sc *Scenario) { sc.MoveEvery = 0 },
		func(sc *Scenario) { sc.MoveSwitchEvery = 0 },
		func(sc *Scenario) { sc.CallEvery = 0 },
		func(sc *Scenario) { sc.StoreEvery = 0 },
		func(sc *Scenario) { sc.Switches = max(1, sc.Switches-1) },
		func(sc *Scenario) { sc.PerAgent = 1 },
		func(sc *Scenario) { sc.StockEvery, sc.SwitchQueue = 0, 0 },
		func(sc *Scenario) { sc.LegacyEvery = 0 },
		func(sc *Scenario) { sc.SwitchQueue = 0 },
		func(sc *Scenario) { sc.Hosted, sc.HostDeaths = false, 0 },
		func(sc *Scenario) { sc.HostDeaths = 0 },
		func(sc *Scenario) { sc.Controllers = max(1, sc.Controllers-2) },
		func(sc *Scenario) { sc.FramesPerSecond = max(1, sc.FramesPerSecond/2) },
		func(sc *Scenario) { sc.FrameLoss = 0 },
		func(sc *Scenario) { sc.StreamFaults = 0 },
		func(sc *Scenario) { sc.OutboxItems = 0 },
		func(sc *Scenario) { sc.RateLimit = 0 },
		func(sc *Scenario) { sc.QueueCommands = 0 },
		func(sc *Scenario) { sc.AgentEvents = 0 },
		func(sc *Scenario) { sc.Learning = false },
		func(sc *Scenario) { sc.RealDisk = false },
		func(sc *Scenario) { sc.Fsync = true },
		func(sc *Scenario) { sc.SnapshotEvery = max(sc.SnapshotEvery, 5000) },
	} {
		sc := s.smallest
		simpler(&sc)
		if !sc.equal(s.smallest) {
			s.try(sc)
		}
	}
}

// equal compares all but the faults.
func (s Scenario) equal(o Scenario) bool {
	s.Faults, o.Faults = nil, nil
	return s.String() == o.String()
}
