package topology

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const portsOfEach = 4

// drawWorld connects some switches at random.
func drawWorld(t *rapid.T) (w *world, cables [][2]app.PortOf) {
	w = newWorld(t)
	n := rapid.IntRange(1, 5).Draw(t, "switches")
	var free []app.PortOf
	for id := range n {
		for p := range portsOfEach {
			free = append(free, at(app.Switch(id+1), app.Port(p+1)))
		}
	}
	free = rapid.Permutation(free).Draw(t, "ports")
	for range rapid.IntRange(0, len(free)/2).Draw(t, "cables") {
		cables = append(cables, [2]app.PortOf{free[0], free[1]})
		w.wire(free[0], free[1])
		free = free[2:]
	}
	for id := range n {
		w.start(app.Switch(id+1), portsOfEach)
	}
	return w, cables
}

func drawPort(t *rapid.T, w *world) app.PortOf {
	return at(app.Switch(rapid.IntRange(1, len(w.switches)).Draw(t, "switch")),
		app.Port(rapid.IntRange(1, portsOfEach).Draw(t, "port")))
}

// Whatever happens to a network and its controllers, in the end the view is equal to the network, the messages to
// other applications agree with the view, and all controllers have the same state.
func TestTheViewIsTheNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, cables := drawWorld(t)
		var did []string
		defer func() {
			if t.Failed() {
				t.Logf("wires %v; %v", cables, did)
			}
		}()
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			p := drawPort(t, w)
			what := rapid.SampledFrom([]string{"cut", "cut one way", "mend", "port", "port", "switch", "time", "time",
				"host", "spoof", "spoof", "failover", "crash", "crash"}).Draw(t, "what")
			did = append(did, fmt.Sprintf("%s %v", what, p))
			w.happen(t, what, p, cables)
			w.check()
		}
		w.advance(6 * Interval)
		s := w.check()
		if got, want := s.linksUp(), w.wiring(); !slices.Equal(got, want) {
			t.Fatalf("links  %v\nwiring %v", got, want)
		}
		for id, sw := range w.switches {
			i := slices.IndexFunc(s.Switches, func(s SwitchView) bool { return s.ID == id })
			if sw.up != (i >= 0) {
				t.Fatalf("switch %d is up: %v, and in the view at %d", id, sw.up, i)
			}
			for p, up := range sw.ports {
				if i >= 0 && s.Switches[i].Ports[p-1].Up != up {
					t.Fatalf("port %v is up: %v; in the view it is %+v", at(id, p), up, s.Switches[i].Ports[p-1])
				}
			}
		}
		w.checkHosts(t, s)
		for _, l := range s.Links {
			if back := (Link{l.To, l.From}); l.Up && l.Bidirectional != slices.Contains(w.wiring(), back) {
				t.Fatalf("%+v", l)
			}
		}
		if _, err := s.Graph(); err != nil {
			t.Fatal(err)
		}
	})
}

func (w *world) happen(t *rapid.T, what string, p app.PortOf, cables [][2]app.PortOf) {
	sw := w.switches[p.Switch]
	cut := func(c [2]app.PortOf, ways int) {
		for i := range ways {
			delete(w.wires, c[i])
		}
	}
	switch what {
	case "cut", "cut one way", "mend":
		if len(cables) == 0 {
			return
		}
		c := cables[rapid.IntRange(0, len(cables)-1).Draw(t, "cable")]
		switch what {
		case "mend":
			w.wire(c[0], c[1])
		case "cut":
			cut(c, 2)
		default:
			cut(c, 1)
		}
	case "port":
		sw.ports[p.Port] = !sw.ports[p.Port]
		if sw.up {
			w.setPort(p, sw.ports[p.Port])
		}
	case "switch":
		if sw.up {
			w.stop(p.Switch)
		} else {
			w.start(p.Switch, 0)
		}
	case "time":
		w.advance(time.Duration(rapid.Int64Range(1, int64(2*Interval)).Draw(t, "time")))
	case "host":
		if sw.up && sw.ports[p.Port] {
			w.host(p, arp(drawHost(t), "10.0.0.1"))
		}
	case "spoof":
		if sw.up {
			w.spoof(t, p)
		}
	case "failover":
		w.Failover()
	case "crash":
		w.Crash = rapid.SampledFrom([]apptest.Crash{apptest.DiesExecuting, apptest.DiesReleasing}).Draw(t,
			"at which moment")
	}
}

func drawHost(t *rapid.T) app.MAC { return numbered(rapid.IntRange(0, 3).Draw(t, "host")) }

// spoof makes a host send forged LLDP frames, or frames that it or another host has received.
func (w *world) spoof(t *rapid.T, p app.PortOf) {
	frame := appendProbe(nil, testKey, app.MAC{2}, probe{from: drawPort(t, w),
		seq: uint64(w.Now) + rapid.Uint64Range(0, 1000).Draw(t, "seq")})
	if len(w.history) > 0 && rapid.Bool().Draw(t, "heard") {
		frame = bytes.Clone(w.history[rapid.IntRange(0, len(w.history)-1).Draw(t, "which")].frame)
		if rapid.Bool().Draw(t, "changed") {
			frame[rapid.IntRange(ethLen, len(frame)-3).Draw(t, "where")] ^= byte(rapid.IntRange(1, 255).Draw(t, "how"))
		}
	}
	before, told := w.view(), len(w.told)
	w.packetIn(p, frame)
	w.settle()
	after := w.view()
	up := w.switches[p.Switch].ports[p.Port]
	if n := after.Rejected() - before.Rejected(); up != (n == 1) || !up && n != 0 {
		// A change of bytes that the tag does not cover makes no difference: the frame is a replay, and rejected as
		// well.
		t.Fatalf("%d more frames were rejected, port up is %v", n, up)
	}
	for _, s := range []*Snapshot{before, after} {
		for _, sw := range s.Switches {
			for i := range sw.Ports {
				sw.Ports[i].Rejected = Rejected{}
			}
		}
	}
	if diff := difference(before, after); diff != "" || len(w.told) > told {
		t.Fatalf("a spoofed frame changed the view (-before +after)\n%s", diff)
	}
}

// checkHosts makes every host send from one port, and compares the view.
func (w *world) checkHosts(t *rapid.T, s *Snapshot) {
	for _, h := range s.Hosts {
		if sw := w.switches[h.At.Switch]; !sw.up || !sw.ports[h.At.Port] || w.linked(h.At) {
			t.Fatalf("host %+v is where none can be", h)
		}
	}
	for range 3 {
		p, host := drawPort(t, w), drawHost(t)
		if sw := w.switches[p.Switch]; !sw.up || !sw.ports[p.Port] {
			continue
		}
		w.advance(Settle)
		w.host(p, arp(host, "10.0.0.1"))
		s := w.check()
		i := slices.IndexFunc(s.Hosts, func(h HostView) bool { return h.MAC == host && h.At == p })
		silent := s.silent(p)
		if (i >= 0) == (w.linked(p) || silent) {
			t.Fatalf("host %v spoke at %v, where a link is %v, or has fallen silent %v: it is at %d of %+v", host, p,
				w.linked(p), silent, i, s.Hosts)
		}
	}
}

func (s *Snapshot) silent(p app.PortOf) bool {
	for _, sw := range s.Switches {
		for _, v := range sw.Ports {
			if sw.ID == p.Switch && v.Port == p.Port {
				return v.Silent
			}
		}
	}
	return false
}

func (w *world) linked(p app.PortOf) bool {
	return slices.ContainsFunc(w.wiring(), func(l Link) bool { return l.From == p || l.To == p })
}

// Whether or not leaders die at each input, the view is the same in the end, and timers continue.
func TestFailover(t *testing.T) {
	run := func(how func(i int) apptest.Crash) *world {
		w := newWorld(t)
		i := 0
		next := func(d time.Duration) {
			for range 10 {
				w.Crash = how(i)
				i++
				w.advance(d / 10)
			}
		}
		for id := range app.Switch(4) { // a ring
			w.wire(at(id+1, 2), at((id+1)%4+1, 1))
		}
		for id := range app.Switch(4) {
			w.Crash = how(i)
			i++
			w.start(id+1, portsOfEach)
		}
		next(4 * Interval)
		w.Crash = how(i)
		w.host(at(1, 3), arp(alice, "10.0.0.1"))
		w.Crash = how(i + 1)
		w.host(at(3, 4), arp(bob, "10.0.0.2"))
		delete(w.wires, at(1, 2))
		next(5 * Interval)
		w.Crash = how(i + 1)
		w.setPort(at(3, 2), false)
		next(Interval)
		return w
	}
	calm := run(func(int) apptest.Crash { return apptest.Stays })
	want := calm.check()
	if links := want.linksUp(); len(links) != 5 || len(want.Hosts) != 2 {
		t.Fatalf("links %v, hosts %v", links, want.Hosts)
	}
	for _, how := range []apptest.Crash{apptest.DiesExecuting, apptest.DiesReleasing} {
		w := run(func(int) apptest.Crash { return how })
		got := w.check()
		if w.Term < 20 {
			t.Errorf("there were only %d leaders", w.Term)
		}
		if !slices.Equal(got.linksUp(), want.linksUp()) ||
			!cmp.Equal(got.Hosts, want.Hosts, cmp.Comparer(func(a, b HostView) bool {
				return a.MAC == b.MAC && a.At == b.At && slices.Equal(a.Addresses, b.Addresses)
			})) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		w.left = nil
		w.advance(Interval + eagerGap)
		for id := range app.Switch(4) {
			if !slices.Contains(w.left, at(id+1, 1)) {
				t.Errorf("switch %d is probed no more", id+1)
			}
		}
	}
}

func TestOfRefusesOthersTables(t *testing.T) {
	for _, table := range []string{"switches", "ports", "rejected", "ends", "hosts", "totals"} {
		row := ledger.Row{Table: table, Cell: ledger.Key{A: 1}, Value: []byte{0xff}}
		if _, err := Of(slices.Values([]ledger.Row{row})); err == nil {
			t.Errorf("%s: a value that is none was read", table)
		}
	}
	if s, err := Of(slices.Values([]ledger.Row(nil))); err != nil || s.Rejected() != 0 {
		t.Errorf("no rows: %+v, %v", s, err)
	}
}

// The order of rows makes no difference.
func TestOfIsInOrder(t *testing.T) {
	w := line(t, 3)
	w.host(at(1, 3), arp(alice, "10.0.0.1"))
	w.host(at(3, 3), arp(bob, "10.0.0.2"))
	want := w.check()
	rows := w.Rows(Name)
	for range 20 {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		got, err := Of(slices.Values(rows))
		if diff := difference(want, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got)\n%s", err, diff)
		}
	}
}

// A switch executes its commands, and its packets arrive.
func TestEmbeddedSwitch(t *testing.T) {
	w := line(t, 1)
	s := vswitch.New(vswitch.Config{DatapathID: 1, Ports: vswitch.Ports(1, 3)})
	s.Open(0, 1)
	said := func() (packetIns int) {
		for _, msg := range s.Take(1) {
			switch msg[1] {
			case openflow.TypeError:
				t.Errorf("the switch refuses: %x", msg)
			case of13.TypePacketIn:
				packetIns++
			}
		}
		return packetIns
	}
	for _, f := range w.switches[1].flows {
		s.Message(0, 1, f.Append(nil, 9))
	}
	if said() != 0 {
		t.Error("packets before there are any")
	}
	for name, frame := range map[string][]byte{
		"probe": appendProbe(nil, testKey, app.MAC{2}, probe{from: at(2, 1), seq: 1}), "ARP": sampleFrames["ARP"].frame,
		"solicitation": sampleFrames["solicitation"].frame, "DHCP": sampleFrames["DHCP discover"].frame,
		"acknowledgement": sampleFrames["DHCP acknowledgement"].frame,
	} {
		s.Frame(0, 2, frame)
		if said() != 1 {
			t.Errorf("%s does not come in", name)
		}
	}
	for name, frame := range map[string][]byte{"IPv4": sampleFrames["IPv4"].frame,
		"echo": ipv6(alice, "2001:db8::1", protoICMPv6, 255, []byte{128, 0, 0, 0, 0, 1, 0, 1})} {
		s.Frame(0, 2, frame)
		if said() != 0 {
			t.Errorf("%s comes in, which nobody asked for", name)
		}
	}
}
