package shells

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/sim"
)

// Scenario is what a run is: a network, its traffic, and what goes wrong. NewScenario draws one from a seed.
type Scenario struct {
	Seed        uint64
	Controllers int
	// each controller has a group of its own, for a share of the switches, and there is a system group; else one group
	PerController bool
	Switches      int
	sim.Peers
	Duration        time.Duration
	SwitchTimeout   time.Duration
	SnapshotEvery   int  // entries
	Learning        bool // the application that forwards learns; else it floods
	QueueCommands   int  // bound of the commands of a switch that are not done; 0 is that of production
	AgentEvents     int  // bound of the events that an agent holds; 0 is that of production
	CommandBytes    int  // bound of what an agent has for its switch; 0 is that of production
	FramesPerSecond int  // of each host
	// With several groups, actors and switches move about this often; 0: none moves.
	MoveEvery time.Duration
	Faults    []Fault
}

// Fault is one thing that goes wrong at a time, and for how long.
type Fault struct {
	At, For time.Duration
	Kind    Kind
	A, B    int // what it concerns: the A-th controller, agent, switch, or pair
}

// Kind says what goes wrong.
type Kind uint8

// The kinds.
const (
	KillController Kind = iota
	KillLeader
	VanishLeader   // the machine dies, and says nothing to anybody
	StopController // as SIGTERM does
	PauseLeader    // nothing that it reads or writes goes on
	SlowDisk
	FullDisk // of a controller, which ends by itself

	Partition // two places, both ways
	OneWay
	Isolate // a controller from all others
	Delay
	Reset // the connections between two places

	KillAgent
	VanishAgent
	PauseAgent
	KillSwitch
	VanishSwitch
	PauseSwitch
	CutSwitch     // its connections break
	SilenceSwitch // nothing gets through between it and its agent, or a controller

	kinds
)

var kindNames = [...]string{"kill controller", "kill the leader", "the leader vanishes", "stop controller",
	"pause the leader", "slow disk", "full disk", "partition", "one-way partition", "isolate controller", "delay",
	"reset connections", "kill agent", "the agent vanishes", "pause agent", "kill switch", "the switch vanishes",
	"pause switch", "cut the switch's connections", "silence the switch"}

func (k Kind) String() string { return kindNames[k] }

func (f Fault) String() string {
	return fmt.Sprintf("at %8v for %8v: %s %d %d", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Kind,
		f.A, f.B)
}

// NewScenario draws the scenario of a seed.
func NewScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	s := Scenario{
		Seed:            seed,
		Controllers:     []int{1, 3, 3, 3, 3, 5}[r.IntN(6)],
		Switches:        1 + r.IntN(4),
		Duration:        between(2*time.Second, 8*time.Second),
		SwitchTimeout:   between(100*time.Millisecond, 3*time.Second),
		SnapshotEvery:   []int{20, 50, 200, 5000}[r.IntN(4)],
		Learning:        r.IntN(2) == 0,
		QueueCommands:   []int{0, 0, 0, 256, 64}[r.IntN(5)],
		AgentEvents:     []int{0, 64, 16}[r.IntN(3)],
		CommandBytes:    []int{0, 2048}[r.IntN(2)],
		FramesPerSecond: []int{2, 10, 50}[r.IntN(3)],
	}
	if seed%3 == 0 {
		s.StockEvery = 1 + r.IntN(3)/2
	}
	if seed%5 == 2 {
		s.LegacyEvery = 1 + r.IntN(2)
	}
	if seed%7 == 3 {
		s.FewEvery, s.Few = 1+r.IntN(3)/2, 1+r.IntN(2)
	}
	s.PerController = seed%4 == 3
	var some []Kind
	for range 1 + r.IntN(5) {
		some = append(some, Kind(r.IntN(int(kinds))))
	}
	if r.IntN(2) == 0 {
		some = append(some, KillLeader)
	}
	for range r.IntN(4 + int(s.Duration/time.Second)) {
		s.Faults = append(s.Faults, Fault{
			At: 500*time.Millisecond + time.Duration(r.Int64N(int64(s.Duration))),
			For: time.Duration(r.ExpFloat64() * float64([]time.Duration{20 * time.Millisecond, 200 * time.Millisecond,
				2 * time.Second, 8 * time.Second}[r.IntN(7)/2])),
			Kind: some[r.IntN(len(some))], A: r.IntN(1 << 16), B: r.IntN(1 << 16),
		})
	}
	if s.PerController {
		s.MoveEvery = []time.Duration{50, 200, 1000}[r.IntN(3)] * time.Millisecond
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

// String describes the scenario, one fault in a line.
func (s Scenario) String() string {
	var b strings.Builder
	faults := s.Faults
	s.Faults = nil
	type plain Scenario // without this method
	fmt.Fprintf(&b, "%+v\n", plain(s))
	for i, f := range faults {
		fmt.Fprintf(&b, "  fault %-2d %v\n", i, f)
	}
	return b.String()
}
