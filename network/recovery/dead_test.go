package recovery

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// measured is the time that liveness needs to learn that the ends of links return frames.
const measured = 15 * time.Second

// A switch that returns nothing for a minute is dead, even if its neighbours see a carrier. When it returns, it is
// treated as a new one.
func TestASwitchThatIsDeadLeavesThePlan(t *testing.T) {
	for _, unreachable := range []bool{false, true} { // true: as if its agent was dead, too
		g := graphs.Ring()
		w := build(t, 1, g, defaults)
		w.advance(measured)
		w.die(2)
		if unreachable {
			w.start(2, 0, true)
			w.advance(measured)
			w.unreachable(2)
		}
		w.advance(50 * time.Second)
		if v := w.view(); len(v.Graph.Switches()) != len(g.Switches()) || len(v.Unheard) != 2 {
			t.Errorf("it is given up before its time: %+v", v)
		}
		w.Failover()
		w.advance(30 * time.Second)
		v := w.view()
		if _, there := slices.BinarySearch(v.Graph.Switches(), 2); there || len(v.Switches) != len(g.Switches())-1 ||
			len(v.Hosts) != len(g.Switches())-1 || len(v.Unheard) > 0 || !v.Stable() {
			t.Fatalf("unreachable %v: it is dead, and known are %+v", unreachable, v)
		}
		w.advance(time.Minute)
		w.switches[2].epoch++ // as in a later epoch
		w.start(2, 0, true)
		w.advance(2 * topology.Interval)
		w.host(macAt(at(2, edgePort)), at(2, edgePort))
		w.advance(time.Second)
		w.check()
	}
}

// unreachable disconnects a switch, which does not forward any more, from the controllers without ending its epoch.
func (w *world) unreachable(id app.Switch) {
	w.t.Helper()
	w.input(func(c *ledger.Core) { c.Unreachable(id) })
	s := w.switches[id]
	s.up, s.queue, s.frames = false, nil, nil
	clear(s.flows)
	clear(s.groups)
}

// A link to a switch that is down leaves the plan when nothing returns over it, and joins again when something
// does. The switch stays.
func TestASilentLinkOfASwitchThatIsNotHeard(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.advance(measured)
	hosts := len(w.view().Hosts)
	w.stop(2)
	near := at(2, 1)
	far := w.wires[near]
	delete(w.wires, near)
	delete(w.wires, far)
	w.advance(90 * time.Second)
	if w.uses(near) || len(w.view().Hosts) != hosts {
		t.Errorf("a silent link is used: %v; hosts %v", w.uses(near), w.view().Hosts)
	}
	w.wire(near, far)
	w.advance(30 * time.Second)
	if v := w.view(); !w.uses(near) || len(v.Hosts) != hosts || len(v.Unheard) != 2 {
		t.Errorf("it is mended: %+v", v)
	}
	w.start(2, 0, false)
	w.advance(2 * topology.Interval)
	w.check()
}

// If a switch has never returned a frame, it is not known whether it is dead. It stays.
func TestWhoMayBeAliveStays(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.die(2) // before it was measured
	w.advance(5 * time.Minute)
	if v := w.view(); len(v.Graph.Switches()) != len(w.switches) || len(v.Unheard) != 2 {
		t.Errorf("it was not asked before: %+v", v)
	}
}
