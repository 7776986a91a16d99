package history

import (
	"reflect"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// logForget checks that a switch is forgotten that is here, and down.
func (g *Group) logForget(r *ledger.Record) error {
	sw, here := g.shadow.model.switches[r.Switch]
	switch {
	case !here || sw.epoch != r.Epoch:
		return violated("switch %s: epoch %d is forgotten, and the log has epoch %d", r.Switch, r.Epoch, sw.epoch)
	case sw.live && sw.reachable:
		return violated("switch %s is forgotten, and is up", r.Switch)
	}
	g.forgotten = theSwitch(r.Switch)
	g.h.floor = max(g.h.floor, r.Epoch)
	g.h.forgets++
	return g.h.ofAny(r.Switch).logForget(r.Epoch)
}

// nothingLeft checks, at the end of the transaction, that nothing of a switch that is forgotten is left but the numbers
// of streams.
func (g *Group) nothingLeft() error {
	a := g.forgotten
	if a == (ledger.Actor{}) {
		return nil
	}
	g.forgotten = ledger.Actor{}
	left, nothing := g.contents(a), newModel()
	left.senders, left.inboxes = nothing.senders, nothing.inboxes
	if !reflect.DeepEqual(left, nothing) {
		return violated("%v is forgotten, and there is still something of it: %s", a,
			differenceOf(left.lines(), nothing.lines()))
	}
	return nil
}

// logForget ends an epoch, whose events that are not logged nobody takes any more.
func (s *loggedSwitch) logForget(epoch uint64) error {
	if s.epoch == nil || s.epoch.epoch != epoch {
		return violated("switch %s: epoch %d is forgotten, which is not the newest in the log", s.id, epoch)
	}
	s.epoch.ended, s.epoch.refused = true, true
	return nil
}

// Forgotten returns how often switches were forgotten.
func (h *History) Forgotten() uint64 { return h.forgets }

// Known reports whether a log has, or had, an epoch of a switch.
func (h *History) Known(id openflow.DatapathID) bool { return h.ofAny(id).newest() != nil }
