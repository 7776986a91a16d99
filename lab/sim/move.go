package sim

import (
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// moveOne asks a controller to move an actor to a group, as controller.Controller does: the request may be lost, and
// the controller may know an older group of the actor. If the actor lives in the group, a move that has begun is called
// off.
func (s *simulation) moveOne(a ledger.Actor) {
	n := s.controllers[s.w.rand.IntN(len(s.controllers))]
	to := uint64(1 + s.w.rand.IntN(len(s.groups)-1))
	if !n.p.up {
		return
	}
	if at, known := s.groups[to].lives(n.assigned.view.Of)(a); known {
		s.w.note(n.p, "asks group %d to move %v to group %d", at.Group, a, to)
		n.p.after(0, func() { n.sendPayload(at.Group, controller.MovePayload(a, to, n.id, 1)) })
	}
}

// anActor draws one of an application that can move.
func (s *simulation) anActor() ledger.Actor {
	for _, t := range s.trials {
		if s.w.rand.IntN(2) == 0 {
			return t.actor()
		}
	}
	apps := s.applications(s.groups[1])
	a := ledger.Actor{App: apps[s.w.rand.IntN(len(apps))].Name()}
	switch a.App {
	case census.Name:
		a.Key.A = uint64(s.w.rand.IntN(census.Keys + 1)) // 0: that of no key
	case store.Name:
		a = store.ActorOf(namespaces[s.w.rand.IntN(len(namespaces))])
	}
	return a
}

// aSwitch draws a switch, which moves with what applications have there.
func (s *simulation) aSwitch() ledger.Actor {
	return ledger.Actor{Shard: ledger.AtSwitch(s.switches[s.w.rand.IntN(len(s.switches))].id)}
}
