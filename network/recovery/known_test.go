package recovery

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ours returns what a switch contains of package protect.
func (s *fakeSwitch) ours() map[string]string {
	entries := map[string]string{}
	for k, f := range s.flows {
		if f.Cookie == protect.Cookie {
			entries[k] = string(f.Instructions)
		}
	}
	return entries
}

// uses reports whether the plan has the cable at a port.
func (w *world) uses(p app.PortOf) bool {
	w.t.Helper()
	for _, l := range w.view().Graph.Links() {
		if app.PortOf(l.From) == p {
			return true
		}
	}
	return false
}

// A switch that has lost its controllers forwards as before: nothing changes, then or when it is back.
func TestASwitchThatIsNotHeardStaysInThePlan(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	hosts := len(w.view().Hosts)
	before := w.switches[2].ours()
	w.after = func() {
		if !maps.Equal(w.switches[2].ours(), before) {
			t.Error("what it holds has changed")
		}
	}
	w.stop(2)
	w.advance(2 * time.Minute)
	v := w.view()
	if i := slices.IndexFunc(v.Switches, func(s SwitchView) bool { return !s.Up }); i < 0 || v.Switches[i].ID != 2 ||
		len(v.Unheard) != 2 || len(v.Hosts) != hosts || !v.Stable() {
		t.Errorf("while it is down: %+v", v)
	}
	w.start(2, 0, false)
	w.advance(2 * time.Minute)
	if len(w.view().Unheard) > 0 {
		t.Errorf("it is back, and unheard is %v", w.view().Unheard)
	}
	w.check()
	silent := macAt(at(2, edgePort)) // its host has sent nothing since
	if got := w.view().Addresses; len(got) != hosts || len(got[silent]) != 1 {
		t.Errorf("addresses %v", got)
	}
	// without an address
	w.packetIn(at(2, edgePort), slices.Concat([]byte{255, 255, 255, 255, 255, 255}, silent[:], []byte{8, 0},
		make([]byte, 46)))
	if got := w.view().Addresses[silent]; len(got) != 1 {
		t.Errorf("it has said something else, and has %v", got)
	}
	w.after = func() {}
	w.setPort(at(2, edgePort), false)
	w.advance(time.Second)
	if got, there := w.view().Addresses[silent]; there {
		t.Errorf("it is gone, and has %v", got)
	}
}

// While a switch is not connected, its neighbours report its links.
func TestNeighboursOfASwitchThatIsNotHeardTell(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	w.stop(2)
	var links []app.PortOf // as its neighbours see them
	for _, l := range g.Links() {
		if l.To.Switch == 2 {
			links = append(links, app.PortOf(l.From))
		}
	}
	w.setPort(links[0], false)
	w.advance(time.Second)
	if w.uses(links[0]) || !w.uses(links[1]) {
		t.Fatalf("the plan is %v", w.view().Graph.Links())
	}
	w.setPort(links[1], false)
	w.advance(time.Second)
	v := w.view()
	if _, there := slices.BinarySearch(v.Graph.Switches(), 2); there || len(v.Hosts) != len(g.Switches())-1 ||
		len(v.Switches) != len(g.Switches())-1 {
		t.Fatalf("cut off, it is still in %v, with hosts %v", v.Graph.Switches(), v.Hosts)
	}
	w.setPort(links[0], true)
	w.setPort(links[1], true)
	w.start(2, 0, true)
	w.advance(2 * topology.Interval)
	w.host(macAt(at(2, edgePort)), at(2, edgePort))
	w.advance(time.Second)
	w.check()
}

// Links and hosts that a returned switch does not find again are dead; those at ports that are down now are
// removed.
func TestWhatIsNotFoundAgainIsDead(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.stop(2)
	dead := at(2, 1)
	delete(w.wires, w.wires[dead])
	delete(w.wires, dead)
	w.switches[2].ports[edgePort] = false
	w.start(2, 0, false)
	w.advance(foundIn - time.Second)
	if !w.uses(dead) {
		t.Error("it is given up before its time")
	}
	w.advance(2 * time.Second)
	if w.uses(dead) {
		t.Error("it is still used")
	}
	w.check()
}

// A repaired link is used when it has been stable, for longer each time that it fails again soon. It is used at
// once if it is the only path.
func TestHoldDown(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	e := cables(g)[0]
	// returns tells how long after its discovery a link joined the plan.
	returns := func() (after time.Duration) {
		w.setCable(e, false)
		w.advance(time.Second)
		if w.uses(e) {
			t.Fatal("a dead link is used")
		}
		w.setCable(e, true)
		w.settle()
		for ; !w.uses(e); after += 500 * time.Millisecond {
			if h := w.view().Held; after > 0 && len(h) != 1 {
				t.Fatalf("held: %v", h)
			}
			if after > 2*time.Minute {
				t.Fatal("it is not used any more")
			}
			w.advance(500 * time.Millisecond)
		}
		return after
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		if got := returns(); got < want*time.Second || got > want*time.Second+time.Second {
			t.Errorf("it held %v, want %d s", got, want)
		}
	}
	w.advance(2 * steady)
	if got := returns(); got > 6*time.Second {
		t.Errorf("after it was steady it held %v", got)
	}
	w.check()
}

func TestTheOnlyWayIsNotHeld(t *testing.T) {
	w := newWorld(t, 1, defaults)
	w.wire(at(1, 1), at(2, 1))
	w.start(1, 2, true)
	w.start(2, 2, true)
	w.advance(2 * topology.Interval)
	w.host(macAt(at(2, 2)), at(2, 2))
	w.setCable(at(1, 1), false)
	w.advance(time.Second)
	w.setCable(at(1, 1), true)
	w.advance(time.Second)
	if !w.uses(at(1, 1)) {
		t.Errorf("held: %v", w.view().Held)
	}
	w.check()
}

func TestALinkThatIsRewired(t *testing.T) {
	g := graphs.Ring()
	w := build(t, 1, g, defaults)
	w.setCable(at(1, 1), false)
	old := w.wires[at(1, 1)]
	delete(w.wires, old)
	w.wire(at(1, 1), at(3, 7))
	w.setCable(at(1, 1), true)
	w.setPort(old, true)
	w.advance(defaults.HoldDown + 2*topology.Interval)
	w.check()
	if !w.uses(at(3, 7)) || w.uses(old) {
		t.Errorf("the plan is %v", w.view().Graph.Links())
	}
}

// A host moves, its port goes down, and it appears again.
func TestHostsComeAndGo(t *testing.T) {
	w := build(t, 1, graphs.Triangle(), defaults)
	mac := macAt(at(1, edgePort))
	w.advance(time.Minute)
	w.host(mac, at(2, 7))
	w.advance(time.Second)
	w.check()
	w.setPort(at(2, 7), false)
	w.advance(time.Second)
	if n := len(w.view().Hosts); n != 2 {
		t.Errorf("%d hosts are left", n)
	}
	w.check()
	w.setPort(at(2, 7), true)
	w.advance(2 * time.Second)
	w.host(mac, at(2, 7))
	w.advance(time.Second)
	w.check()
}

// Many switches that come up together cause one plan.
func TestOnePlanForManySwitches(t *testing.T) {
	g := graphs.USNET()
	w := newWorld(t, 1, defaults)
	for _, l := range g.Links() {
		w.wires[app.PortOf(l.From)] = app.PortOf(l.To)
	}
	for _, s := range g.Switches() {
		w.start(s, int(edgePort), true)
	}
	plans := map[uint64]bool{}
	for range 20 {
		w.advance(500 * time.Millisecond)
		st := w.state()
		plans[st.Installed.ID], plans[st.Target.ID] = true, true
	}
	if len(plans) > 4 { // the empty one and a few more: links are found in the first round of probes
		t.Errorf("%d plans", len(plans))
	}
	w.check()
}

func (w *world) state() (st state) {
	w.t.Helper()
	tb, err := read(slices.Values(w.Rows(Name)))
	w.must(err)
	return tb.st
}

// What does not fit into a plan is left out and reported. The rest is protected.
func TestWhatDoesNotFitIsLeftOut(t *testing.T) {
	w := newWorld(t, 1, defaults)
	w.start(0, 2, true)
	w.start(1, 2, true)
	w.start(2, 2, true)
	for _, id := range []app.Switch{1, 2} {
		w.switches[id].ports[0x8000] = true
		w.portStatus(at(id, 0x8000))
	}
	w.wire(at(1, 1), at(2, 1))
	w.wire(at(1, 0x8000), at(2, 0x8000))
	w.advance(3 * topology.Interval)
	w.host(macAt(at(1, 2)), at(1, 2))
	w.host(macAt(at(0, 2)), at(0, 2))
	w.advance(2 * time.Second)
	v := w.view()
	if !v.Stable() || len(v.LeftOut) != 2 || len(v.Hosts) != 1 || len(v.Graph.Links()) != 2 {
		t.Errorf("%+v", v)
	}
	if p := w.switches[2].program(); len(p.Entries) == 0 {
		t.Error("nothing is installed")
	}
}

func (w *world) portStatus(p app.PortOf) {
	w.t.Helper()
	m := of13.PortStatus{Reason: of13.PortAdd, Port: portDesc(p.Port, true)}
	w.event(p.Switch, m.Append(nil, 0))
}

// A plan that does not fit into the switches is not installed, so a new host waits. The death of a link is handled
// all the same.
func TestAPlanThatDoesNotFit(t *testing.T) {
	w := build(t, 1, graphs.Triangle(), defaults)
	c := defaults
	c.MaxEntries = 0
	p, err := w.view().Plan()
	w.must(err)
	for id := range w.switches {
		entries, _ := p.Size(id)
		c.MaxEntries = max(c.MaxEntries, entries)
	}
	w.upgrade(c)
	before := maps.Clone(w.switches[1].flows)
	for i := range byte(5) {
		w.host(app.MAC{2, 7, i}, at(1, 7))
	}
	w.advance(time.Second)
	if v := w.view(); v.Problem == "" || v.Changing {
		t.Errorf("%+v", v)
	}
	if !maps.EqualFunc(before, w.switches[1].flows, func(a, b of13.FlowMod) bool { return flowKey(a) == flowKey(b) }) {
		t.Error("something was installed")
	}
	w.setCable(at(1, 1), false)
	w.advance(time.Second)
	if w.uses(at(1, 1)) || w.view().Problem == "" {
		t.Errorf("a link is dead: %+v", w.view())
	}
	w.setCable(at(1, 1), true)
	w.upgrade(defaults)
	w.advance(2 * topology.Interval)
	w.advance(defaults.Reconcile)
	w.check()
}

// A part that is larger than one transaction is split.
func TestLargeChangesAreSplit(t *testing.T) {
	w := build(t, 1, graphs.Triangle(), defaults)
	most, run := 0, 0
	w.after = func() {}
	for i := range 3 * maxPart {
		w.host(app.MAC{2, 1, byte(i >> 8), byte(i)}, at(1+app.Switch(i%3), app.Port(4+i%4)))
	}
	w.Now += int64(time.Second)
	for w.tick(); ; {
		for _, s := range w.switches {
			run = 0
			for _, m := range s.queue {
				if m[1] == of13.TypeFlowMod && openflow.XID(m) != 0 {
					run++
				}
			}
			most = max(most, run)
		}
		if !w.step() {
			break
		}
	}
	if most > maxPart || most < maxPart/2 {
		t.Errorf("%d flow-mods in one go, at most %d are to be", most, maxPart)
	}
	w.advance(time.Second)
	w.check()
}
