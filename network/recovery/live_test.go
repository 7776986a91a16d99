package recovery

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
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
	w.setLive(e, false)
	w.advance(falseFor - time.Second)
	uses("not live for a moment", true)
	w.setLive(e, true)
	w.advance(falseFor)
	uses("that was a false alarm", true)
	hold := defaults.HoldDown
	for range 2 { // longer the second time
		w.setLive(e, false)
		w.setLive(far, false)
		w.advance(falseFor + time.Second)
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
	w.advance(falseFor + time.Second)
	uses("not live again", false)
	w.stop(far.Switch) // its reports do not count any more
	w.advance(2 * maxHold)
	uses("without the switch that said so", true)
	w.start(far.Switch, 0, false)
	w.advance(falseFor + time.Second)
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
		w.wire(at(1, 2), at(2, 2)) // another path
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

// False alarms at all links: the plan keeps a tree of them, which needs no backups, and all of them when the alarms are
// over. A link that was dark before is not in the tree.
func TestFalseAlarmsAtAllLinks(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	ends := cables(g)
	each := func(of []app.PortOf, live bool) {
		for _, e := range of {
			w.setLive(e, live)
			w.setLive(w.wires[e], live)
		}
	}
	each(ends, true)
	w.advance(setUp)
	w.check()
	each(ends[2:3], false)
	w.advance(falseFor + time.Second)
	each(ends, false)
	w.advance(falseFor + time.Second)
	v := w.view()
	if n := len(v.Graph.Links()) / 2; n != len(g.Switches())-1 || w.uses(ends[2]) || len(v.Hosts) != len(g.Switches()) {
		t.Fatalf("with false alarms everywhere the plan has %d links: %+v", n, v)
	}
	if len(v.Dark) != len(ends)-1 {
		t.Errorf("the dark links in use are %v", v.Dark)
	}
	n := w.network(g)
	for from := range w.hosts {
		for to, at := range w.hosts {
			j := n.Follow(to, paths.End(w.hosts[from]), protect.Failures{Alarms: alarmed(g)})
			if from != to && (j.Fate != protect.Delivered || j.At != paths.End(at)) {
				t.Errorf("from %v to %v: %v", from, to, j.Fate)
			}
		}
	}
	w.Failover()
	each(ends, true)
	w.advance(maxHold)
	w.check()
}

// network is what the switches hold.
func (w *world) network(g *paths.Graph) *protect.Network {
	n := protect.NewNetwork(g)
	for id, s := range w.switches {
		n.Install(id, s.program())
	}
	return n
}

func alarmed(g *paths.Graph) map[paths.End]bool {
	ends := map[paths.End]bool{}
	for _, l := range g.Links() {
		ends[l.From] = true
	}
	return ends
}

// A switch that is dead although its neighbours have their carrier stays in the plan, by one link. So packets for it
// have one way, and do not loop.
func TestADarkSwitchHasOneLink(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	for e, far := range w.wires {
		w.setLive(e, true)
		w.setLive(far, true)
	}
	w.advance(setUp)
	w.die(3)
	for e, far := range w.wires {
		if far.Switch == 3 {
			w.setLive(e, false)
		}
	}
	w.advance(time.Second)
	n := w.network(g)
	dead := protect.Failures{Switches: map[app.Switch]bool{3: true}}
	for mac, at := range w.hosts {
		for _, from := range w.hosts {
			j := n.Follow(mac, paths.End(from), dead)
			if j.Fate == protect.Looping || j.Fate == protect.Dropped && at.Switch != 3 && from.Switch != 3 &&
				from != at {
				t.Errorf("from %v to %v: %v", from, at, j.Fate)
			}
		}
	}
	used := 0
	for _, l := range w.view().Graph.Links() {
		if l.From.Switch == 3 {
			used++
		}
	}
	if used != 1 {
		t.Errorf("the dead switch has %d links in the plan", used)
	}
}
