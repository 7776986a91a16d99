package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// settleTime is how long the network may take, after the last fault, until everything is done. A message that no host
// of applications survives takes up to poisonTime more, because hosts die of it several times until it is skipped.
const (
	settleTime = 60 * time.Second
	poisonTime = 6 * time.Second
)

// maxCensus bounds the rows of census that are looked at, in bytes.
const maxCensus = 4 << 20

// Result is what a run was like.
type Result struct {
	Simulated time.Duration `json:"simulated_ns"`
	Steps     uint64        `json:"steps"`
	Events    uint64        `json:"events"` // in the log
	Commands  uint64        `json:"commands"`
	Items     uint64        `json:"items"` // of streams between groups, received
	Moves     uint64        `json:"moves"` // of actors from group to group
	// of switches, with the actors at them
	SwitchMoves uint64 `json:"switch_moves"`
	Requests    uint64 `json:"requests"`  // over HTTP, that were answered
	Store       uint64 `json:"store"`     // requests to the store that were answered
	Looks       uint64 `json:"looks"`     // at what switches forward, for applications of the suite
	Rebuilt     int    `json:"rebuilt"`   // controllers that began anew because their state differed
	Forgotten   uint64 `json:"forgotten"` // switches
	Degraded    uint64 `json:"degraded"`  // commands of leaders without a majority
	Terms       uint64 `json:"terms"`     // that had a leader
	Epochs      uint64 `json:"epochs"`    // of switches without agent
	Lost        uint64 `json:"lost"`      // events that these told between two epochs
	// what the source of randomness says next: equal for equal runs, and hardly for others
	Digest    uint64     `json:"digest,string"`
	Violation *Violation `json:"violation,omitempty"` // nil if everything holds
	Timeline  []string   `json:"timeline,omitempty"`  // what happened before a violation, oldest first
}

// Run simulates a scenario. It uses one goroutine, and equal scenarios have equal results.
func Run(sc Scenario) Result {
	s := newSimulation(sc)
	defer s.close()
	s.start()
	if s.w.run(sc.Duration+time.Second) == nil {
		s.heal()
		s.traffic = false
		s.settle()
	}
	r := Result{Simulated: s.w.now, Steps: s.w.scheduled, Digest: s.w.rand.Uint64()}
	r.Events, r.Commands, r.Terms = s.h.Counts()
	r.Epochs, r.Lost = s.h.StockCounts()
	r.Items, r.Degraded = s.h.Received(), s.h.BestEffort()
	r.Moves, r.SwitchMoves = s.h.Moves()
	r.Forgotten, r.Looks = s.h.Forgotten(), s.looks
	r.Requests, r.Store = s.answered(), s.store.answered
	for _, n := range s.damages.rebuilt {
		r.Rebuilt += n
	}
	if r.Violation = s.w.violation; r.Violation != nil {
		r.Timeline = s.w.timeline()
	}
	return r
}

// settle lets the network come to rest, and looks at the whole of it.
func (s *simulation) settle() {
	begin := s.w.now
	clear(s.poisons)
	late := time.Duration(0) // deadlines of a controller, because its clock was set back
	for _, c := range s.controllers {
		late = max(late, c.p.late)
	}
	late += s.waiting()
	limit := func() time.Duration { return settleTime + late + time.Duration(len(s.poisons))*poisonTime }
	unsettled := "nothing"
	for s.w.now < begin+limit() {
		if s.w.run(s.w.now+50*time.Millisecond) != nil {
			return
		}
		if unsettled = s.unsettled(); unsettled == "" {
			s.finish()
			return
		}
	}
	s.w.fail("%v after the last fault, %s", limit(), unsettled)
}

// waiting is how long the actor that forwards at a switch may need until it has handled, at its rate, every frame that
// hosts have sent: if the network floods, each comes to each switch once.
func (s *simulation) waiting() time.Duration {
	limit := time.Duration(s.scenario.RateLimit)
	if limit == 0 {
		return 0
	}
	sent := time.Duration(0)
	for _, h := range s.hosts {
		sent += time.Duration(h.sent)
	}
	return sent * time.Second / limit
}

// unsettled says what is still to be done; "" is nothing.
func (s *simulation) unsettled() string {
	known := map[openflow.DatapathID]ledger.SwitchStatus{}
	for _, g := range s.groups {
		if text := g.unsettled(); text != "" {
			return fmt.Sprintf("group %d: %s", g.number, text)
		}
		for _, st := range g.leader().core.Ledger().Switches() {
			known[st.Switch] = st
		}
	}
	if len(known) != len(s.switches) {
		return fmt.Sprintf("%d switches are known of %d", len(known), len(s.switches))
	}
	for _, n := range s.switches {
		if text := s.unsettledSwitch(n, known[n.id]); text != "" {
			return text
		}
	}
	if text := s.store.unsettled(); text != "" {
		return text
	}
	for _, t := range s.trials {
		if text := t.unsettled(); text != "" {
			return text
		}
	}
	return s.h.Moving()
}

func (g *group) unsettled() string {
	leader := g.leader()
	if leader == nil {
		return "there is no leader"
	}
	if !leader.core.Ledger().Quiet() {
		return fmt.Sprintf("controller %d has uncommitted transactions", leader.n.id)
	}
	for _, out := range leader.core.Ledger().Streams() {
		if out.Items > 0 {
			return fmt.Sprintf("%d items wait for group %d", out.Items, out.Group)
		}
	}
	rows, err := leader.core.Ledger().Rows(census.Name, maxCensus)
	if err != nil {
		return err.Error()
	}
	if text := census.OpenCalls(rows); text != "" {
		return text
	}
	for _, r := range g.replicas {
		switch {
		case r.n.lost:
		case !r.n.p.up || r.applied != leader.applied:
			return fmt.Sprintf("controller %d has applied entry %d, the leader %d", r.n.id, r.applied, leader.applied)
		case r.unsettledHost() != "":
			return r.unsettledHost()
		case r.encodes:
			return fmt.Sprintf("controller %d takes a snapshot", r.n.id)
		}
	}
	return ""
}

func (s *simulation) unsettledSwitch(n *switchNode, st ledger.SwitchStatus) string {
	if n.agent == nil {
		return s.unsettledDirect(n, st)
	}
	switch d := s.device(n.id); {
	case d == nil || !d.session.Status().Connected || n.epoch != d.session.Epoch():
		return fmt.Sprintf("switch %s is not connected to its agent", n.id)
	case d.session.Held() > 0:
		return fmt.Sprintf("the agent of switch %s holds %d events", n.id, d.session.Held())
	case st.Epoch != n.epoch || !st.Live || !st.Reachable:
		return fmt.Sprintf("switch %s is in epoch %d, and for the controllers in %d, live %t, reachable %t", n.id,
			n.epoch, st.Epoch, st.Live, st.Reachable)
	case st.Done != st.Commands:
		return fmt.Sprintf("switch %s has done %d commands of %d", n.id, st.Done, st.Commands)
	}
	return ""
}

// unsettledDirect is unsettled for a switch without agent: every controller is in sync with it in the end.
func (s *simulation) unsettledDirect(n *switchNode, st ledger.SwitchStatus) string {
	live, unlogged := s.h.Live(n.id), s.h.Unlogged(n.id)
	switch {
	case st.Epoch != live || !st.Live || !st.Reachable:
		return fmt.Sprintf("switch %s is in epoch %d, and for the controllers in %d, live %t, reachable %t", n.id,
			live, st.Epoch, st.Live, st.Reachable)
	case !s.h.Quiet():
		return "commands are not executed"
	case st.Done != st.Commands:
		return fmt.Sprintf("switch %s has done %d commands of %d", n.id, st.Done, st.Commands)
	case unlogged > 0:
		return fmt.Sprintf("%d events of switch %s are not logged", unlogged, n.id)
	}
	for _, c := range s.controllers {
		if r, _ := c.assigned.of(n.id); c.lost || !n.knows(c) || r == nil {
			continue
		}
		i := slices.IndexFunc(c.sessions, func(x *session) bool { return x.state == attached && x.Switch() == n.id })
		switch {
		case i < 0:
			return fmt.Sprintf("switch %s is not connected to controller %d", n.id, c.id)
		case !c.sessions[i].State().InSync:
			return fmt.Sprintf("controller %d is not in sync with switch %s", c.id, n.id)
		case c.sessions[i].Held() > 0:
			return fmt.Sprintf("controller %d holds %d events of switch %s", c.id, c.sessions[i].Held(), n.id)
		}
	}
	return ""
}

func (s *simulation) device(id openflow.DatapathID) *device {
	for _, n := range s.agents {
		for _, d := range n.devices {
			if d.id == id {
				return d
			}
		}
	}
	return nil
}

// finish gives the checkers what is left.
func (s *simulation) finish() {
	live := map[openflow.DatapathID]uint64{}
	for _, n := range s.switches {
		if n.agent != nil {
			live[n.id] = n.epoch
		}
	}
	s.h.Finish(live)
	for _, g := range s.groups {
		replicas := map[uint64]history.Replica{}
		for _, r := range g.replicas {
			if r.n.lost {
				continue
			}
			state, err := r.core.Ledger().Snapshot()
			if err != nil {
				s.w.fail("controller %d at the end: %v", r.n.id, err)
				return
			}
			replicas[r.n.id] = history.Replica{Applied: r.applied, Snapshot: state, Host: r.program()}
		}
		g.h.Finish(replicas)
	}
	s.checkRequests()
	s.store.check()
	if name := s.damages.unnamed(); name != "" {
		s.w.fail("%s has begun anew because it differs, and no other controller has named it", name)
	}
	if epochs, lost := s.h.StockCounts(); s.scenario.Keeps && epochs > uint64(len(s.switches)) {
		s.w.fail("%d switches had %d epochs, and %d events between them were lost, although a controller held them",
			len(s.switches), epochs, lost)
	}
}
