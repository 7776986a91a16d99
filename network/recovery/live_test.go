package recovery

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// setLive makes a switch report whether a port that is up is live.
func (w *world) setLive(at app.PortOf, live bool) {
	w.t.Helper()
	status := of13.PortStatus{Reason: of13.PortModify, Port: portDesc(at.Port, true)}
	if live {
		status.Port.State |= of13.PortStateLive
	}
	w.event(at.Switch, status.Append(nil, 0))
}

// A port that is up and not live any more, for example because BFD is down, means that the link is lost. When both
// its ends are live the link is back, and must stay so for a while.
func TestALinkThatIsNotLive(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	e := cables(g)[0]
	far := w.wires[e]
	uses := func(when string, want bool) {
		t.Helper()
		if w.uses(e) != want {
			t.Fatalf("%s: the plan uses it: %v", when, !want)
		}
	}
	w.setLive(e, false)
	w.advance(2 * setUp)
	uses("a switch that never sets the bit", true)
	for _, p := range []app.PortOf{e, far} {
		w.setLive(p, true)
	}
	w.advance(time.Second)
	uses("live", true)
	hold := defaults.HoldDown
	for range 2 { // longer the second time
		w.setLive(e, false)
		w.setLive(far, false)
		w.advance(time.Second)
		uses("not live", false)
		if !w.view().Stable() {
			t.Errorf("there is nothing to wait for: %+v", w.view())
		}
		w.setLive(e, true)
		w.advance(2 * time.Second)
		uses("live at one end", false)
		w.setLive(far, true)
		w.advance(hold - time.Second)
		uses("before it has held", false)
		w.advance(2 * time.Second)
		uses("after that", true)
		w.check()
		hold *= 2
	}

	w.setLive(far, false)
	w.advance(time.Second)
	uses("not live again", false)
	w.stop(far.Switch) // its reports do not count any more
	w.advance(2 * maxHold)
	uses("without the switch that said so", true)
	w.start(far.Switch, 0, false)
	w.advance(time.Second)
	uses("the switch is back, and says it again", false)
	w.setLive(far, true)
	w.advance(2 * maxHold)
	w.check()
}

// While BFD is being set up on a new link, its ports are not live. That counts as a loss only if it lasts.
func TestANewLinkIsBeingSetUp(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		w := newWorld(t, 1, defaults)
		e := at(1, 1)
		w.wire(e, at(2, 1))
		w.start(1, 2, true)
		w.start(2, 2, true)
		w.setLive(e, true)
		w.advance(2 * topology.Interval)
		w.setLive(e, false)
		w.advance(setUp / 4)
		if !w.uses(e) {
			t.Error("it is not used while BFD is being set up")
		}
		w.setLive(e, !lasts)
		w.advance(setUp)
		if w.uses(e) == lasts {
			t.Errorf("not live for long is %v, and the plan uses it: %v", lasts, lasts)
		}
	}
}

// A port that lost its carrier is not live for a while after it is back. That counts as one failure.
func TestBFDComesUpAfterTheCarrier(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	e := cables(g)[0]
	w.setLive(e, true)
	w.advance(setUp)
	w.setCable(e, false)
	w.advance(time.Second)
	w.setCable(e, true) // up, and not live
	w.advance(2 * time.Second)
	w.setLive(e, true)
	w.advance(defaults.HoldDown - time.Second)
	if w.uses(e) {
		t.Error("it has not held since it is live")
	}
	w.advance(2 * time.Second)
	if !w.uses(e) {
		t.Errorf("it is held for longer than once: %v", w.view().Held)
	}
	w.check()
}
