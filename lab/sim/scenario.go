package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Scenario is what a run is: a network, its traffic, and what goes wrong. NewScenario draws one from a seed.
type Scenario struct {
	Seed        uint64
	Controllers int
	// each controller has a group of its own, for a share of the switches, and there is a system group; else one group
	PerController bool
	Replication   int // replicas of such a group; 0: one at each controller
	Switches      int
	PerAgent      int // switches behind one agent
	Peers
	Duration      time.Duration
	SwitchTimeout time.Duration
	SnapshotEvery int  // entries
	Learning      bool // the application that forwards learns; else it floods
	Fsync         bool // logs are durable; else they survive processes, not machines
	// logs are said to be durable and are not: nothing survives that, and no seed draws it. The checkers must see it
	LyingDisks bool
	RealDisk   bool // logs are files
	Hosted     bool // there are applications that hosts execute
	HostDeaths int  // of a thousand frames of inputs, that a host does not survive
	// bound of the commands of a switch that are not done, low so that epochs are closed for it; 0: as in production
	QueueCommands int
	AgentEvents   int // bound of the events that an agent holds of a switch; 0 is 512
	// bytes that a stock switch keeps for a controller before it drops packet-ins; 0 is as much as it takes
	SwitchQueue     int
	FramesPerSecond int     // of each host
	FrameLoss       float64 // of a frame on a cable; as likely it comes twice
	// how much later than Raft's messages of the same connection payloads arrive, as when many wait; no seed draws it
	LatePayloads time.Duration
	// of a frame between groups that it is lost, comes twice, or late
	StreamFaults float64
	OutboxItems  int // bound of what waits for another group, low so that events are held; 0: as in production
	// With several groups, actors move about this often, and there are actors with a key, too; 0: none moves.
	MoveEvery time.Duration
	// With several groups, switches move about this often; 0: none moves.
	MoveSwitchEvery time.Duration
	CallEvery       time.Duration // clients call handlers over HTTP about this often; 0: there are none
	StoreEvery      time.Duration // a client of the store pauses about so long between requests; 0: there are none
	ForgetEvery     time.Duration // operators ask to forget a switch about this often; 0: never
	Suite           string        // an application of the network suite that clients use; "": none
	PieceBytes      int           // of an actor that moves, low so that it has many; 0: as in production
	Minorities      bool          // leaders stay alone, and an application has a handler that writes then
	RateLimit       int           // messages a second of each actor of the application that forwards; 0: no bound
	// Keeps: of each switch without an agent one controller is always in sync, so no epoch ends; no seed draws it
	Keeps  bool
	Faults []Fault // by time
}

// Peers says which switches have no agent, and which know few controllers. LegacyEvery goes before StockEvery. Both
// tiers of simulation use it.
type Peers struct {
	StockEvery  int // one of so many switches has no agent: it is connected to all controllers; 0 is none
	LegacyEvery int // one of so many switches has neither an agent nor bundles; 0 is none
	// of so many switches without an agent, and of so many agents, one knows only Few of the controllers; 0 is none
	FewEvery, Few int
}

// Peer returns what the controllers see of the switch with this number, which is 1 or more.
func (p Peers) Peer(id int) southbound.Peer {
	switch {
	case p.LegacyEvery > 0 && id%p.LegacyEvery == 0:
		return southbound.Legacy
	case p.StockEvery > 0 && (id-1)%p.StockEvery == 0:
		return southbound.Bundles
	}
	return southbound.Agent
}

// Known returns the addresses, of those of all controllers, that the n-th agent, or switch without an agent, connects
// to.
func (p Peers) Known(n int, all []string) (known []string) {
	if p.FewEvery == 0 || n%p.FewEvery != 0 {
		return all
	}
	for i := range min(p.Few, len(all)) {
		known = append(known, all[(n+i)%len(all)])
	}
	return known
}

// limits are those of the ledger.
func (s *simulation) limits() ledger.Limits {
	return ledger.Limits{BatchInputs: 64, QueueCommands: s.scenario.QueueCommands,
		OutboxItems: s.scenario.OutboxItems, PieceBytes: s.scenario.PieceBytes}
}

// NewScenario draws the scenario of a seed.
func NewScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	s := Scenario{
		Seed:            seed,
		Controllers:     []int{1, 3, 3, 3, 3, 3, 5, 5}[r.IntN(8)],
		Switches:        1 + r.IntN(5),
		PerAgent:        1 + r.IntN(4)/3,
		Duration:        between(3*time.Second, 20*time.Second),
		SwitchTimeout:   between(100*time.Millisecond, 3*time.Second),
		SnapshotEvery:   []int{20, 50, 200, 5000}[r.IntN(4)],
		Learning:        r.IntN(2) == 0,
		Fsync:           r.IntN(2) == 0,
		RealDisk:        r.IntN(12) == 0,
		QueueCommands:   []int{0, 0, 0, 256, 64, 24}[r.IntN(6)],
		AgentEvents:     []int{0, 64, 16}[r.IntN(3)],
		FramesPerSecond: []int{2, 10, 50}[r.IntN(3)],
	}
	if r.IntN(2) == 0 {
		s.FrameLoss = r.Float64() / 10
	}
	if s.PerController = seed%4 == 3; s.PerController && s.FramesPerSecond == 50 {
		s.Duration = min(s.Duration, 4*time.Second) // each frame is several items: two such seeds were most of 60
	}
	s.Faults = drawFaults(r, &s)
	if seed%3 == 0 {
		s.StockEvery = 1 + r.IntN(3)/2
		s.SwitchQueue = []int{0, 0, 0, 2048}[r.IntN(4)]
	}
	if s.Hosted = seed%4 == 1; s.Hosted {
		s.HostDeaths = []int{0, 2, 20}[r.IntN(3)]
	}
	if seed%5 == 2 {
		s.LegacyEvery = 1 + r.IntN(2)
		s.SwitchQueue = []int{0, 0, 0, 2048}[r.IntN(4)]
	}
	if seed%7 == 3 && s.Controllers > 1 {
		s.FewEvery, s.Few = 1+r.IntN(3)/2, 1+r.IntN(2)
	}
	if s.PerController {
		s.StreamFaults = []float64{0, 0.02, 0.2}[r.IntN(3)]
		s.OutboxItems = []int{0, 0, 0, 256}[r.IntN(4)]
		if s.Hosted = r.IntN(4) == 0; s.Hosted {
			s.HostDeaths = []int{0, 2, 20}[r.IntN(3)]
		}
		if s.FewEvery == 0 && s.Controllers > 1 && r.IntN(2) == 0 {
			s.Replication = 1 + 2*r.IntN(s.Controllers/2)
		}
		s.MoveEvery = []time.Duration{20, 100, 500}[r.IntN(3)] * time.Millisecond
		s.PieceBytes = []int{0, 0, 64, 512}[r.IntN(4)]
		s.MoveSwitchEvery = []time.Duration{50, 200, 1000}[r.IntN(3)] * time.Millisecond
	}
	if seed%16 == 2 || seed%16 == 11 { // the second one has several groups
		s.RateLimit = max(s.FramesPerSecond, []int{10, 100}[r.IntN(2)]) // else a minute is too short for what waits
	}
	if seed%18 == 11 || seed%36 == 31 { // two thirds of them have several groups
		r := rand.New(rand.NewPCG(seed, 3)) // so that nothing else of the scenario changes
		s.CallEvery = []time.Duration{20, 50, 200}[r.IntN(3)] * time.Millisecond
	}
	if seed%9 == 4 || seed%36 == 19 { // a part of them has several groups
		r := rand.New(rand.NewPCG(seed, 4)) // likewise
		s.StoreEvery = []time.Duration{1, 10, 50}[r.IntN(3)] * time.Millisecond
	}
	switch {
	case seed%40 == 12 || seed%40 == 23: // the second one has several groups
		s.Suite = suite[(seed/40*2+seed%40/23)%uint64(len(suite))].name
		s.Switches = max(s.Switches, 3)
		if suite[s.tried()].agents {
			s.StockEvery, s.LegacyEvery = 0, 0
		}
		s.Hosted = s.Hosted && !s.follows()
		if s.QueueCommands > 0 { // what a router sends to a new switch is one transaction, and may have 40 commands
			s.QueueCommands = max(s.QueueCommands, 64)
		}
	case seed%15 == 8 || seed%60 == 43: // likewise
		drawForgets(seed, &s)
	}
	if s.Minorities = seed%16 == 14 || seed%32 == 23; s.Minorities { // the second one has several groups
		drawMinorities(seed, &s)
	}
	return s
}

// String describes the scenario, one fault in a line.
func (s Scenario) String() string {
	var b strings.Builder
	yes := func(what string, on bool) {
		if on {
			b.WriteString(", " + what)
		}
	}
	fmt.Fprintf(&b, "seed %d: %d controllers, %d switches, %d of them an agent, %v, %d frames/s a host, a snapshot "+
		"every %d entries, switch timeout %v",
		s.Seed, s.Controllers, s.Switches, s.PerAgent, s.Duration.Round(time.Millisecond), s.FramesPerSecond,
		s.SnapshotEvery, s.SwitchTimeout.Round(time.Millisecond))
	yes("a group for each controller", s.PerController)
	yes(fmt.Sprintf("%d replicas of each", s.Replication), s.Replication > 0)
	yes("learning", s.Learning)
	yes("fsync", s.Fsync)
	yes("logs in files", s.RealDisk)
	yes("disks that lie", s.LyingDisks)
	yes(fmt.Sprintf("%d commands queued for a switch", s.QueueCommands), s.QueueCommands > 0)
	yes(fmt.Sprintf("%d events held by an agent", s.AgentEvents), s.AgentEvents > 0)
	yes(fmt.Sprintf("%.1f %% of frames lost", 100*s.FrameLoss), s.FrameLoss > 0)
	yes(fmt.Sprintf("1 of %d switches without an agent", s.StockEvery), s.StockEvery > 0)
	yes(fmt.Sprintf("1 of %d switches with neither agent nor bundles", s.LegacyEvery), s.LegacyEvery > 0)
	yes(fmt.Sprintf("1 of %d connected to %d controllers only", s.FewEvery, s.Few), s.FewEvery > 0)
	yes(fmt.Sprintf("hosted applications, whose hosts die at %d of 1,000 frames", s.HostDeaths), s.Hosted)
	yes(fmt.Sprintf("payloads %v late", s.LatePayloads), s.LatePayloads > 0)
	yes(fmt.Sprintf("%.0f %% of frames between groups lost", 100*s.StreamFaults), s.StreamFaults > 0)
	yes(fmt.Sprintf("%d items wait for a group", s.OutboxItems), s.OutboxItems > 0)
	yes(fmt.Sprintf("actors move every %v", s.MoveEvery), s.MoveEvery > 0)
	yes(fmt.Sprintf("switches move every %v", s.MoveSwitchEvery), s.MoveSwitchEvery > 0)
	yes(fmt.Sprintf("clients call every %v", s.CallEvery), s.CallEvery > 0)
	yes(fmt.Sprintf("clients of the store pause for %v", s.StoreEvery), s.StoreEvery > 0)
	yes(fmt.Sprintf("operators forget switches every %v", s.ForgetEvery), s.ForgetEvery > 0)
	yes(fmt.Sprintf("clients of %s", s.Suite), s.Suite != "")
	yes(fmt.Sprintf("in pieces of %d bytes", s.PieceBytes), s.PieceBytes > 0)
	yes("leaders alone", s.Minorities)
	yes("no epoch ends", s.Keeps)
	yes(fmt.Sprintf("%d messages a second of an actor", s.RateLimit), s.RateLimit > 0)
	yes(fmt.Sprintf("%d bytes wait at one for a controller", s.SwitchQueue), s.SwitchQueue > 0)
	b.WriteByte('\n')
	for i, f := range s.Faults {
		fmt.Fprintf(&b, "  fault %-2d %v\n", i, f)
	}
	return b.String()
}

// Validate says what makes a scenario impossible.
func (s Scenario) Validate() error {
	switch {
	case s.Controllers < 1 || s.Controllers > 9 || s.Controllers%2 == 0:
		return fmt.Errorf("%d controllers: choose an odd number up to 9", s.Controllers)
	case s.Replication < 0 || s.Replication > s.Controllers || s.Replication > 0 && (s.Replication%2 == 0 ||
		!s.PerController || s.FewEvery > 0):
		return fmt.Errorf("%d replicas of a group: choose an odd number up to that of the controllers, or 0 for one "+
			"at each; only with a group for each controller, and switches that know all", s.Replication)
	case s.Switches < 1 || s.Switches > 64:
		return fmt.Errorf("%d switches: choose 1 to 64", s.Switches)
	case s.PerAgent < 1:
		return fmt.Errorf("%d switches for each agent: choose 1 or more", s.PerAgent)
	case s.FramesPerSecond < 1 || s.FramesPerSecond > 10_000:
		return fmt.Errorf("%d frames in a second: choose 1 to 10,000", s.FramesPerSecond)
	case s.StockEvery < 0 || s.LegacyEvery < 0:
		return fmt.Errorf("1 of %d switches without an agent, and 1 of %d without bundles too: choose 1 or more, or 0 "+
			"for none", s.StockEvery, s.LegacyEvery)
	case s.FewEvery < 0 || s.FewEvery > 0 && (s.Few < 1 || s.Few > s.Controllers):
		return fmt.Errorf("1 of %d connected to %d controllers: choose 1 or more, or 0 for none", s.FewEvery, s.Few)
	case s.SwitchQueue < 0:
		return fmt.Errorf("%d bytes wait at a switch: choose 1 or more, or 0 for the usual", s.SwitchQueue)
	case s.HostDeaths < 0 || s.HostDeaths > 1000:
		return fmt.Errorf("hosts die at %d of 1,000 frames: choose 0 to 1,000", s.HostDeaths)
	case s.QueueCommands < 0 || s.AgentEvents < 0:
		return fmt.Errorf("bounds of %d commands and %d events: choose 1 or more, or 0 for the usual", s.QueueCommands,
			s.AgentEvents)
	case s.StreamFaults < 0 || s.StreamFaults > 0.5 || s.OutboxItems < 0:
		return fmt.Errorf("%g of frames are lost, %d items wait for a group: choose 0 to 0.5, and 1 or more, or 0 for "+
			"the usual", s.StreamFaults, s.OutboxItems)
	case min(s.MoveEvery, s.MoveSwitchEvery) < 0 || s.PieceBytes < 0 ||
		max(s.MoveEvery, s.MoveSwitchEvery) > 0 && !s.PerController:
		return fmt.Errorf("actors move every %v, switches every %v, in pieces of %d bytes: choose 0 for none, and for "+
			"the usual; only with a group for each controller", s.MoveEvery, s.MoveSwitchEvery, s.PieceBytes)
	case s.CallEvery < 0 || s.StoreEvery < 0 || s.ForgetEvery < 0:
		return fmt.Errorf("clients call every %v, those of the store pause for %v, and operators forget switches "+
			"every %v: choose 0 for none", s.CallEvery, s.StoreEvery, s.ForgetEvery)
	case s.Suite != "" && (s.tried() < 0 || s.Switches < 3 || s.ForgetEvery > 0):
		return fmt.Errorf("clients of %q in a network of %d switches, which are forgotten every %v: choose one of %v, "+
			"3 switches or more, and that none is forgotten", s.Suite, s.Switches, s.ForgetEvery, suiteNames())
	case s.Hosted && s.follows():
		return fmt.Errorf("clients of %q beside hosted applications: choose one of them, since the checkers execute "+
			"the inputs of hosts again", s.Suite)
	case s.tried() >= 0 && suite[s.tried()].agents && (s.StockEvery > 0 || s.LegacyEvery > 0):
		return fmt.Errorf("clients of %q with switches without an agent: choose agents for all", s.Suite)
	case s.RateLimit < 0:
		return fmt.Errorf("%d messages a second of an actor: choose 1 or more, or 0 for no bound", s.RateLimit)
	case s.LatePayloads < 0 || s.LatePayloads > time.Second:
		return fmt.Errorf("payloads come %v late: choose up to a second", s.LatePayloads)
	case s.Duration <= 0 || s.Duration > time.Hour:
		return fmt.Errorf("it lasts %v: choose up to an hour", s.Duration)
	}
	for i, f := range s.Faults {
		if f.Kind >= faultKinds || f.At < 0 || f.For < 0 || f.A < 0 || f.B < 0 {
			return fmt.Errorf("fault %d is none: kind %d at %v for %v", i, f.Kind, f.At, f.For)
		}
	}
	return nil
}
