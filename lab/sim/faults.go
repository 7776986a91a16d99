package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one thing that goes wrong at a time, and for how long.
type Fault struct {
	At, For time.Duration
	Kind    FaultKind
	A, B    int // what it concerns: the A-th controller, agent, switch, pair of processes, or group of a leader
}

// FaultKind says what goes wrong.
type FaultKind uint8

// The kinds. Of controllers first, then of the network, then of agents and switches.
const (
	KillController  FaultKind = iota // SIGKILL, restarted after For
	PowerOff                         // of a controller's machine
	KillLeader                       // the controller that leads the group then
	PauseController                  // it hangs: a stop signal, a collection of garbage, a machine that is moved
	PauseLeader
	CutOffLeader   // from the other controllers; the switches reach it, and connect anew
	HandOver       // the leader gives the leadership of the group away
	StopController // as SIGTERM does: a leader hands over first; then it ends, and is started again
	ClockJump
	ClockSkew
	SlowDisk
	FullDisk
	CorruptDisk

	Partition // two processes, both ways
	OneWay    // from A to B only
	Isolate   // a controller from all others
	Delay
	Reset // all connections between two

	KillAgent
	PowerOffAgent // its connections vanish without a word, and its clock may go back
	IsolateAgent  // from all controllers
	PauseAgent
	KillSwitch
	PauseSwitch
	CutSwitch     // the connection of a switch breaks
	SilenceSwitch // nothing gets through between it and its agent
	CutCable

	drawnKinds // those that each seed may draw

	KillOthers  = drawnKinds     // all controllers but the leader of a group
	DamageState = drawnKinds + 1 // a row in the memory of one that follows
	faultKinds  = drawnKinds + 2
)

var faultNames = [...]string{"kill controller", "power off", "kill the leader", "pause controller", "pause the leader",
	"cut off the leader", "hand over", "stop controller", "clock jump", "clock skew",
	"slow disk", "full disk", "corrupt disk", "partition", "one-way partition", "isolate controller", "delay",
	"reset connections",
	"kill agent", "power off the agent", "isolate agent", "pause agent", "kill switch", "pause switch",
	"cut the switch's connection", "silence the switch", "cut a cable", "kill all but the leader", "damage the state"}

func (k FaultKind) String() string { return faultNames[k] }

// MarshalText writes the name, so that a stored scenario does not depend on the order of the kinds.
func (k FaultKind) MarshalText() ([]byte, error) { return []byte(faultNames[k]), nil }

// UnmarshalText reads a name.
func (k *FaultKind) UnmarshalText(text []byte) error {
	i := slices.Index(faultNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("no kind of fault is called %q; one is %q", text, faultNames[0])
	}
	*k = FaultKind(i)
	return nil
}

func (f Fault) String() string {
	return fmt.Sprintf("at %8v for %8v: %s %d %d", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Kind,
		f.A, f.B)
}

// drawFaults makes a schedule: a few kinds, so that one does not hide the other, and mostly
// short intervals, since what is rare happens between two faults that are close.
func drawFaults(r *rand.Rand, s *Scenario) []Fault {
	var kinds []FaultKind
	for range 1 + r.IntN(5) {
		kinds = append(kinds, FaultKind(r.IntN(int(drawnKinds))))
	}
	if r.IntN(2) == 0 {
		kinds = append(kinds, KillLeader)
	}
	var faults []Fault
	for range r.IntN(4 + int(s.Duration/time.Second)) {
		f := Fault{
			At: 500*time.Millisecond + time.Duration(r.Int64N(int64(s.Duration))),
			For: time.Duration(r.ExpFloat64() * float64([]time.Duration{20 * time.Millisecond, 200 * time.Millisecond,
				2 * time.Second, 8 * time.Second}[r.IntN(7)/2])),
			Kind: kinds[r.IntN(len(kinds))], A: r.IntN(1 << 16), B: r.IntN(1 << 16),
		}
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return faults
}

// drawMinorities adds times in which a leader is alone.
func drawMinorities(seed uint64, s *Scenario) {
	r := rand.New(rand.NewPCG(seed, 2)) // so that nothing else of the scenario changes
	for range 1 + r.IntN(3) {
		s.Faults = append(s.Faults, Fault{Kind: KillOthers, A: r.IntN(1 << 16),
			At:  time.Second + time.Duration(r.Int64N(int64(s.Duration))),
			For: 300*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second)))})
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// inflict lets a fault happen.
func (s *simulation) inflict(f Fault) {
	s.w.note(nil, "%s for %v: %s", f.Kind, f.For.Round(time.Millisecond), s.concerned(f))
	c := s.controllers[f.A%len(s.controllers)]
	switch f.Kind {
	case KillLeader, PauseLeader, CutOffLeader, HandOver, KillOthers:
		leader := s.led(f).leader()
		if leader == nil {
			return
		}
		c = leader.n
	}
	edge, sw := s.edges[f.A%len(s.edges)], s.switches[f.A%len(s.switches)]
	switch f.Kind {
	case KillController, KillLeader, PowerOff:
		s.killController(c, f.Kind == PowerOff, f.For)
	case PauseController, PauseLeader:
		c.p.pause(f.For)
	case CutOffLeader:
		s.cutOff(c, f)
	case KillOthers:
		for _, other := range s.controllers {
			if other != c {
				s.killController(other, false, f.For)
			}
		}
	case HandOver:
		s.led(f).leader().handOver()
	case StopController:
		s.stopController(c, f)
	case ClockJump:
		c.p.jump(f.For * time.Duration(f.B%3-1) * 10)
		edge.jump(f.For * time.Duration(f.B/3%3-1) * 10)
	case ClockSkew:
		c.p.skew(1 + float64(f.B%200-100)/1000)
	case SlowDisk:
		c.disk.slow(f.For)
	case FullDisk:
		c.disk.full(f.For)
	case CorruptDisk:
		s.corrupt(c, f)
	case DamageState:
		s.damage(f)
	case KillAgent, PowerOffAgent:
		s.killEdge(f)
	case PauseAgent:
		edge.pause(f.For)
	case KillSwitch:
		if sw.p.up {
			sw.kill()
			s.w.after(f.For, nil, sw.start)
		}
	case PauseSwitch:
		sw.p.pause(f.For)
	case CutSwitch:
		if c := sw.uplinks[f.B%len(sw.uplinks)].c; c != nil {
			c.reset()
		}
	case CutCable:
		w := s.cables[f.A%len(s.cables)]
		w.set(false)
		s.w.after(f.For, nil, func() { w.set(true) })
	default:
		s.disturb(f)
	}
}

// led returns the group whose leader a fault concerns.
func (s *simulation) led(f Fault) *group { return s.groups[f.A%len(s.groups)] }

// concerned names whom a fault concerns.
func (s *simulation) concerned(f Fault) string {
	switch f.Kind {
	case KillLeader, PauseLeader, CutOffLeader, HandOver, KillOthers:
		if r := s.led(f).leader(); r != nil {
			return fmt.Sprintf("%s, which leads group %d", r.n.p.name, r.g.number)
		}
		return "nobody leads"
	case Partition, OneWay, Delay, Reset:
		a, b := s.pair(f)
		return a.name + " and " + b.name
	case KillAgent, PowerOffAgent, IsolateAgent, PauseAgent:
		return s.edges[f.A%len(s.edges)].name
	case KillSwitch, PauseSwitch, CutSwitch, SilenceSwitch:
		return s.switches[f.A%len(s.switches)].p.name
	case CutCable:
		return fmt.Sprintf("cable %d", f.A%len(s.cables))
	case ClockJump:
		return s.controllers[f.A%len(s.controllers)].p.name + " and " + s.edges[f.A%len(s.edges)].name
	}
	return s.controllers[f.A%len(s.controllers)].p.name
}

// killEdge ends an agent, or a stock switch.
func (s *simulation) killEdge(f Fault) {
	p, power := s.edges[f.A%len(s.edges)], f.Kind == PowerOffAgent
	if !p.up {
		return
	}
	var start func()
	for _, a := range s.agents {
		if a.p == p {
			start = a.start
			a.kill(power)
		}
	}
	for _, sw := range s.switches {
		if sw.p == p {
			start = sw.start
			p.end(power)
		}
	}
	if power { // a machine without a battery for its clock
		p.jump(-time.Duration(f.B%4) * settleTime / 2)
	}
	s.w.after(f.For, nil, start)
}

// killController ends one and starts it again later, unless its machine fails and its log is
// not durable: then it may not come back, so that happens to a minority at most.
func (s *simulation) killController(c *controllerNode, power bool, d time.Duration) {
	if !c.p.up || power && !s.scenario.Fsync && !c.spare() {
		return
	}
	c.kill(power)
	if power && !s.scenario.Fsync {
		c.lost = true
	}
	s.restart(c, d)
}

// stopController ends one as its operator does.
func (s *simulation) stopController(c *controllerNode, f Fault) {
	if !c.p.up {
		return
	}
	for _, r := range c.replicas {
		if r == r.g.leader() {
			r.handOver()
		}
	}
	c.p.after(time.Duration(f.B%500)*time.Millisecond, func() { s.killController(c, false, f.For) })
}

// spare reports whether the controller may be lost for ever, too: each of its groups keeps a majority.
func (n *controllerNode) spare() bool {
	for _, r := range n.replicas {
		lost := 0
		for _, other := range r.g.replicas {
			if other.n.lost {
				lost++
			}
		}
		if lost+1 > (len(r.g.replicas)-1)/2 {
			return false
		}
	}
	return true
}

// restart starts a controller that is down. A log that lost its end is refused at the start.
func (s *simulation) restart(c *controllerNode, d time.Duration) {
	s.w.after(d, nil, c.start)
}

func (s *simulation) corrupt(c *controllerNode, f Fault) {
	if c.lost || !c.spare() {
		return
	}
	c.kill(false)
	c.disk.corrupt()
	c.lost = true
	s.restart(c, f.For)
}

// disturb lets something happen to the network.
func (s *simulation) disturb(f Fault) {
	a, b := s.pair(f)
	switch f.Kind {
	case Partition, OneWay:
		s.part(a, b, f.Kind == OneWay, f.For)
	case Isolate:
		for _, p := range s.processes() {
			if c := s.controllers[f.A%len(s.controllers)]; p != c.p {
				s.part(c.p, p, false, f.For)
			}
		}
	case IsolateAgent:
		for _, c := range s.controllers {
			s.part(s.edges[f.A%len(s.edges)], c.p, false, f.For)
		}
	case SilenceSwitch:
		sw := s.switches[f.A%len(s.switches)]
		if sw.agent != nil {
			s.part(sw.p, sw.agent.p, false, f.For)
			return
		}
		s.part(sw.p, s.controllers[f.B%len(s.controllers)].p, false, f.For)
	case Delay:
		s.net.delaySpike(a, b, time.Duration(1+f.B%50)*time.Millisecond, f.For)
	case Reset:
		s.net.resetAll(a, b)
	}
}

// part lets nothing through between two processes for a while.
func (s *simulation) part(a, b *process, oneWay bool, d time.Duration) {
	s.net.block(a, b, oneWay)
	s.w.after(d, nil, func() { s.net.unblock(a, b, oneWay) })
}

// cutOff makes a leader one that is deposed and does not know, while switches come to it.
func (s *simulation) cutOff(c *controllerNode, f Fault) {
	for _, other := range s.controllers {
		if other != c {
			s.part(c.p, other.p, false, f.For)
		}
	}
	for i, p := range s.edges {
		s.w.after(time.Duration(20+(f.B+37*i)%120)*time.Millisecond, nil, func() { s.net.resetAll(p, c.p) })
	}
}

// pair chooses two processes that speak with each other: two controllers, or a controller and an agent or a stock
// switch.
func (s *simulation) pair(f Fault) (a, b *process) {
	c := s.controllers[f.A%len(s.controllers)]
	i := f.B % (len(s.controllers) + len(s.edges))
	switch {
	case i >= len(s.controllers):
		return c.p, s.edges[i-len(s.controllers)]
	case s.controllers[i] == c:
		return c.p, s.edges[f.B%len(s.edges)]
	}
	return c.p, s.controllers[i].p
}
