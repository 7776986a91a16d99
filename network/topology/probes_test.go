package topology

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func at(sw app.Switch, port app.Port) app.PortOf { return app.PortOf{Switch: sw, Port: port} }

// line is switches 1, 2, … in a row: port 2 of each leads to port 1 of the next. Each has three ports.
func line(t apptest.Tester, n int) *world {
	t.Helper()
	w := newWorld(t)
	for id := range app.Switch(n - 1) {
		w.wire(at(id+1, 2), at(id+2, 1))
	}
	for id := range app.Switch(n) {
		w.start(id+1, 3)
	}
	w.advance(2 * Settle)
	w.told = nil
	return w
}

func (w *world) wantLinks(t *testing.T, want ...Link) *Snapshot {
	t.Helper()
	s := w.check()
	if got := s.linksUp(); !slices.Equal(got, want) {
		t.Errorf("links %v, want %v", got, want)
	}
	return s
}

func TestLinksAreFoundAtOnce(t *testing.T) {
	w := newWorld(t)
	w.wire(at(1, 2), at(2, 1))
	w.start(1, 3)
	w.advance(Interval)
	w.start(2, 3)
	// a probe finds both directions: the first one of switch 2 or, if one is just due, one of switch 1
	w.advance(eagerGap)
	s := w.wantLinks(t, Link{at(1, 2), at(2, 1)}, Link{at(2, 1), at(1, 2)})
	for _, l := range s.Links {
		if !l.Bidirectional {
			t.Errorf("%+v is not bidirectional", l)
		}
	}
	first, second := Link{at(2, 1), at(1, 2)}, Link{at(1, 2), at(2, 1)}
	if slices.ContainsFunc(w.told, func(m any) bool { return m == LinkUp{second, false} }) {
		first, second = second, first
	}
	want := []any{SwitchUp{1, []app.Port{1, 2, 3}}, SwitchUp{2, []app.Port{1, 2, 3}}, LinkUp{first, false},
		LinkUp{second, true}}
	if diff := difference(want, w.told); diff != "" {
		t.Errorf("told (-want +got)\n%s", diff)
	}
	if n := s.Rejected(); n != 0 {
		t.Errorf("%d probes were rejected: %+v", n, s.Switches)
	}
}

func TestInstalls(t *testing.T) {
	w := line(t, 1)
	flows := w.switches[1].flows
	if len(flows) != 12 {
		t.Fatalf("%d flow entries", len(flows))
	}
	for i, f := range flows {
		lldp := bytes.Equal(f.Match, of13.Match(nil).WithEthDst(nearestBridge).WithEthType(0x88cc))
		if f.Command != of13.FlowAdd || f.Cookie != Cookie || lldp != (i == 0) ||
			f.Priority != map[bool]uint16{true: probePriority, false: hostPriority}[lldp] {
			t.Errorf("entry %d: %+v", i, f)
		}
		for in := range f.Instructions.All() {
			for a := range in.Actions.All() {
				if a.Type != of13.ActionOutput || a.Port != of13.PortController || a.MaxLen != of13.MaxLenNoBuffer {
					t.Errorf("entry %d does %+v", i, a)
				}
			}
		}
	}
}

func TestUnidirectionalLink(t *testing.T) {
	w := newWorld(t)
	w.wires[at(1, 2)] = at(2, 1)
	w.start(1, 3)
	w.start(2, 3)
	w.advance(4 * Interval)
	s := w.wantLinks(t, Link{at(1, 2), at(2, 1)})
	if s.Links[0].Bidirectional {
		t.Error("it is bidirectional")
	}
	g, err := s.Graph()
	if err != nil || len(g.Links()) != 0 {
		t.Errorf("graph with links %v, %v", g.Links(), err)
	}
	w.wire(at(1, 2), at(2, 1))
	w.advance(2 * Interval)
	s = w.wantLinks(t, Link{at(1, 2), at(2, 1)}, Link{at(2, 1), at(1, 2)})
	if g, err = s.Graph(); err != nil || len(g.Links()) != 2 {
		t.Errorf("graph with links %v, %v", g.Links(), err)
	}
}

func TestPortDownTakesBothDirectionsAtOnce(t *testing.T) {
	both := []Link{{at(1, 2), at(2, 1)}, {at(2, 1), at(1, 2)}}
	for name, down := range map[string]func(w *world){
		"down":      func(w *world) { w.setPort(at(1, 2), false) },
		"other end": func(w *world) { w.setPort(at(2, 1), false) },
		"removed": func(w *world) {
			w.portStatus(at(1, 2), of13.PortStatus{Reason: of13.PortDelete, Port: portDesc(1, 2, true)})
		},
		"switch down": func(w *world) { w.stop(2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := line(t, 2)
			w.wantLinks(t, both...)
			down(w)
			w.wantLinks(t)
			d, ok := w.told[0].(LinkDown)
			slices.SortFunc(d.Links, func(a, b Link) int { return a.From.Compare(b.From) })
			reason := map[bool]Reason{true: SwitchIsDown, false: PortDown}[name == "switch down"]
			if !ok || !slices.Equal(d.Links, both) || d.Reason != reason {
				t.Errorf("told %+v", w.told)
			}
			if _, last := w.told[len(w.told)-1].(SwitchDown); last != (name == "switch down") || len(w.told) > 2 {
				t.Errorf("told %+v", w.told)
			}
		})
	}
}

func TestPortComesBack(t *testing.T) {
	w := line(t, 2)
	for range 3 {
		w.setPort(at(1, 2), false)
		s := w.wantLinks(t)
		if len(s.Links) != 2 || s.Links[0].Up || s.Links[0].Reason != PortDown ||
			s.Links[0].Changed.UnixNano() != w.Now {
			t.Errorf("what is left of the links: %+v", s.Links)
		}
		w.advance(time.Second)
		w.setPort(at(1, 2), true) // no timer has to fire
		s = w.wantLinks(t, Link{at(1, 2), at(2, 1)}, Link{at(2, 1), at(1, 2)})
		if s.Rejected() != 0 {
			t.Errorf("rejected: %+v", s.Switches)
		}
	}
}

// A direction that is cut silently is down after three rounds without probes, and before the fifth. The other
// direction stays up.
func TestSilentCut(t *testing.T) {
	w := line(t, 2)
	w.advance(10 * Interval)
	delete(w.wires, at(1, 2))
	w.told = nil
	w.advance(2 * Interval)
	w.wantLinks(t, Link{at(1, 2), at(2, 1)}, Link{at(2, 1), at(1, 2)})
	w.advance(2*Interval + 1)
	w.wantLinks(t, Link{at(2, 1), at(1, 2)})
	if want := []any{LinkDown{[]Link{{at(1, 2), at(2, 1)}}, ProbesLost}}; !cmp.Equal(w.told, want) {
		t.Errorf("told %+v", w.told)
	}
}

// Controllers that were away for an hour find the links that they knew.
func TestTimeWithoutControllers(t *testing.T) {
	w := line(t, 3)
	before := w.check()
	w.Now += int64(time.Hour)
	w.Failover()
	w.advance(1)
	if diff := difference(before, w.check()); diff != "" || len(w.told) > 0 {
		t.Errorf("told %v; the view is another (-before +after)\n%s", w.told, diff)
	}
	w.advance(10 * Interval)
	if diff := difference(before, w.check()); diff != "" {
		t.Errorf("the view is another (-before +after)\n%s", diff)
	}
}

// If a cable is moved without its ports going down, the new link is found when the old one has aged out, and not
// before.
func TestCableIsMoved(t *testing.T) {
	w := line(t, 3)
	w.wires = map[app.PortOf]app.PortOf{}
	w.wire(at(1, 2), at(3, 3))
	w.advance(Interval)
	s := w.check()
	if r := s.Switches[2].Ports[2].Rejected; r.Contested == 0 || r.Total() != r.Contested {
		t.Errorf("rejected at the new end: %+v", r)
	}
	if n := len(s.linksUp()); n != 4 {
		t.Errorf("%d links, want the old ones: %v", n, s.linksUp())
	}
	w.advance(6 * Interval)
	w.wantLinks(t, Link{at(1, 2), at(3, 3)}, Link{at(3, 3), at(1, 2)})
}

// Three switches at one hub: a port has one link, and keeps it.
func TestSharedSegment(t *testing.T) {
	w := line(t, 2)
	w.start(3, 1)
	before := w.check().linksUp()
	hub := []app.PortOf{at(1, 2), at(2, 1), at(3, 1)}
	for range 20 {
		seen := len(w.history)
		w.advance(Interval)
		for _, f := range w.history[seen:] {
			for _, to := range hub {
				if to != f.at {
					w.packetIn(to, f.frame)
				}
			}
		}
		w.settle()
		if got := w.check().linksUp(); !slices.Equal(got, before) {
			t.Fatalf("links %v, before %v", got, before)
		}
	}
}

func TestCableWithinASwitch(t *testing.T) {
	w := newWorld(t)
	w.wire(at(1, 1), at(1, 2))
	w.wires[at(1, 3)] = at(1, 3) // a loopback plug
	w.start(1, 3)
	w.advance(Interval)
	s := w.wantLinks(t, Link{at(1, 1), at(1, 2)}, Link{at(1, 2), at(1, 1)})
	if r := s.Switches[0].Ports[2].Rejected; r.Reflected == 0 || r.Total() != r.Reflected {
		t.Errorf("rejected at the plug: %+v", r)
	}
	if g, err := s.Graph(); err != nil || len(g.Links()) != 0 {
		t.Errorf("graph with links %v, %v", g.Links(), err)
	}
	w.setPort(at(1, 1), false)
	w.wantLinks(t)
}

func TestRejected(t *testing.T) {
	sent := func(at app.PortOf) func(w *world) (app.PortOf, []byte) {
		return func(w *world) (app.PortOf, []byte) { return here, w.signed(at, 0) }
	}
	for name, c := range map[string]struct {
		frame func(w *world) (app.PortOf, []byte) // and where it arrives
		want  Rejected
	}{
		"replayed": {func(w *world) (app.PortOf, []byte) {
			last := w.history[len(w.history)-1]
			return last.at, last.frame
		}, Rejected{Replayed: 1}},
		"replayed at another port": {func(w *world) (app.PortOf, []byte) {
			return here, w.history[len(w.history)-1].frame
		}, Rejected{Contested: 1}},
		"replayed after the link is down": {func(w *world) (app.PortOf, []byte) {
			last := w.history[len(w.history)-1]
			w.setPort(last.at, false)
			return here, last.frame
		}, Rejected{Replayed: 1}},
		"old": {func(w *world) (app.PortOf, []byte) {
			f := w.signed(at(2, 3), 0)
			w.advance(6 * Interval)
			return here, f
		}, Rejected{Stale: 1}},
		"forged": {func(*world) (app.PortOf, []byte) {
			return here, appendProbe(nil, testKey, app.MAC{2}, probe{from: here, seq: 1e18})
		}, Rejected{Forged: 1}},
		"another port": {func(w *world) (app.PortOf, []byte) {
			f := bytes.Clone(w.history[len(w.history)-1].frame)
			f[36] ^= 3 // the number of the port
			return here, f
		}, Rejected{Forged: 1}},
		"reflected": {sent(here), Rejected{Reflected: 1}},
		"of a switch that is down": {func(w *world) (app.PortOf, []byte) {
			f := w.signed(at(2, 3), 0)
			w.stop(2)
			return here, f
		}, Rejected{Stale: 1}},
		"sent before the port went down": {func(w *world) (app.PortOf, []byte) {
			f := w.signed(at(2, 3), 0)
			w.setPort(at(2, 3), false)
			w.setPort(at(2, 3), true)
			return here, f
		}, Rejected{Stale: 1}},
		"sent before the port of a link went down": {func(w *world) (app.PortOf, []byte) {
			f := w.signed(at(2, 1), 1)
			w.setPort(at(2, 1), false)
			w.setPort(at(2, 1), true)
			return at(1, 2), f
		}, Rejected{Stale: 1}},
		"sent before the switch restarted": {func(w *world) (app.PortOf, []byte) {
			f := w.signed(at(2, 3), 0)
			w.stop(2)
			w.start(2, 3)
			w.advance(eagerGap)
			return here, f
		}, Rejected{Stale: 1}},
		"from a port that has a link": {func(w *world) (app.PortOf, []byte) {
			return here, w.signed(at(2, 1), 1)
		}, Rejected{Contested: 1}},
		"at a port that has a link": {func(w *world) (app.PortOf, []byte) {
			return at(1, 2), w.signed(at(2, 3), 0)
		}, Rejected{Contested: 1}},
		"foreign": {func(*world) (app.PortOf, []byte) {
			return here, frameOf(appendTLV(nil, 1, nil), appendTLV(nil, 2, nil), appendTLV(nil, 3, nil), []byte{0, 0})
		}, Rejected{Foreign: 1}},
		"malformed": {func(*world) (app.PortOf, []byte) { return here, frameOf() }, Rejected{Malformed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := line(t, 2)
			where, frame := c.frame(w)
			before := w.check()
			w.told = nil
			w.packetIn(where, frame)
			after := w.check()
			got := &after.Switches[where.Switch-1].Ports[where.Port-1].Rejected
			if *got != c.want || after.Rejected() != 1 {
				t.Errorf("rejected %+v, want %+v", *got, c.want)
			}
			*got = Rejected{}
			if diff := difference(before, after); diff != "" || len(w.told) > 0 {
				t.Errorf("told %v; the view is another (-before +after)\n%s", w.told, diff)
			}
			w.advance(2 * Interval) // it has changed nothing else either
			after = w.check()
			if !slices.Equal(after.linksUp(), w.wiring()) {
				t.Errorf("links %v, wired are %v", after.linksUp(), w.wiring())
			}
		})
	}
}

// here is a port without a link.
var here = at(1, 3)

// signed returns a probe that a port may have sent just now, or may send soon.
func (w *world) signed(from app.PortOf, later uint64) []byte {
	w.t.Helper()
	p := probe{from: from}
	var key []byte
	tables := tablesOf(app.New(Name))
	w.must(app.Read(slices.Values(w.Rows(Name)),
		tables.key.Each(func(of app.Switch, row []byte) { key = row }),
		tables.ports.Each(func(of app.Switch, port app.Port, row portRow) {
			if at(of, port) == from {
				p.since = row.Since
			}
		}),
		tables.clocks.Each(func(of app.Switch, row clock) {
			if of == from.Switch {
				p.seq = row.Seq + later
			}
		})))
	return appendProbe(nil, key, app.MAC{2}, p)
}

// What is known of a switch is removed with it, except which numbers its probes had.
func TestNothingIsLeftOver(t *testing.T) {
	w := line(t, 2)
	w.host(at(1, 1), arp(alice, "10.0.0.1"))
	w.packetIn(at(1, 1), frameOf())
	w.stop(1)
	w.stop(2)
	for _, r := range w.Rows(Name) {
		if r.Table != ledger.SecretTable && r.Table != "totals" && r.Table != "clocks" {
			t.Errorf("table %s has %v: %x", r.Table, r.Cell, r.Value)
		}
	}
}

// If there are many ports, a few are probed at a time, each once in an interval. Ports beyond the bound are
// ignored.
func TestManyPorts(t *testing.T) {
	w := newWorld(t)
	w.start(1, 40)
	w.start(2, MaxPorts-5)
	for p := range app.Port(9) { // more ports are added
		w.portStatus(at(2, MaxPorts-4+p), of13.PortStatus{Reason: of13.PortAdd, Port: portDesc(2, MaxPorts-4+p, true)})
	}
	w.advance(2 * Interval)
	w.left = nil
	most := 0
	const steps = 600
	for range steps {
		n := len(w.left)
		w.advance(Interval / steps)
		most = max(most, len(w.left)-n)
	}
	count := map[app.PortOf]int{}
	for _, p := range w.left {
		count[p]++
	}
	for _, p := range []app.PortOf{at(1, 1), at(1, 17), at(1, 40), at(2, 1), at(2, 500), at(2, MaxPorts)} {
		if n := count[p]; n < 1 || n > 2 {
			t.Errorf("port %v was probed %d times in an interval", p, n)
		}
	}
	if len(count) != 40+MaxPorts || most > 2*perTick {
		t.Errorf("%d ports were probed, up to %d at a time", len(count), most)
	}
	if s := w.check(); len(s.Switches[1].Ports) != MaxPorts || !s.Switches[1].More || s.Switches[0].More {
		t.Errorf("%d ports, more: %v", len(s.Switches[1].Ports), s.Switches[1].More)
	}
	w.stop(2)
	w.check()
}

// A switch whose ports do not fit into the first message is asked for the others.
func TestPortsInAReply(t *testing.T) {
	w := line(t, 1)
	w.wire(at(1, 3), at(2, 7))
	w.start(2, 0)
	if w.switches[2].requests != 1 {
		t.Fatalf("%d requests", w.switches[2].requests)
	}
	w.switches[2].ports = map[app.Port]bool{7: true, 8: true}
	for _, p := range []app.Port{8, 7} {
		m := of13.MultipartReply{Part: of13.PartPortDesc, Flags: of13.FlagMore,
			Body: of13.List[of13.PortDesc](nil).With(portDesc(2, p, true))}
		w.event(2, m.Append(nil, 1<<24|6))
	}
	w.advance(2 * Interval)
	w.wantLinks(t, Link{at(1, 3), at(2, 7)}, Link{at(2, 7), at(1, 3)})
	if want := (SwitchUp{2, []app.Port{7, 8}}); !slices.ContainsFunc(w.told,
		func(m any) bool { return cmp.Equal(m, want) }) {
		t.Errorf("told %+v", w.told)
	}
}
