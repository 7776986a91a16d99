package recovery

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// world is three controllers with topology, liveness and recovery, and switches that are connected. Everything
// happens in one goroutine, at the time that the test sets. Which switch executes its next command is random.
type world struct {
	*apptest.Group
	t      apptest.Tester
	r      *rand.Rand
	config Config
	fever  int // percentage of inputs at which the leader dies

	wires    map[app.PortOf]app.PortOf // one entry for each direction
	switches map[app.Switch]*fakeSwitch
	hosts    map[app.MAC]app.PortOf
	after    func() // runs after each step that changes the content of a switch
	steps    int
}

var defaults = Config{HoldDown: 5 * time.Second, Reconcile: time.Minute, MaxEntries: 1 << 16, MaxGroups: 1 << 12}

func newWorld(t apptest.Tester, seed uint64, c Config) *world {
	t.Helper()
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), config: c, wires: map[app.PortOf]app.PortOf{},
		switches: map[app.Switch]*fakeSwitch{},
		hosts:    map[app.MAC]app.PortOf{}, after: func() {}}
	w.Group = apptest.NewGroup(t, 1e18, w.apps, w.take)
	return w
}

func (w *world) apps() []*app.App {
	discovers, measures := topology.New(), liveness.New()
	discovers.InTable(w.config.Table)
	measures.InTable(w.config.Table)
	return []*app.App{discovers, measures, New(w.config)}
}

// upgrade restarts the controllers with another configuration.
func (w *world) upgrade(c Config) {
	w.t.Helper()
	w.config = c
	w.Replace(w.apps)
}

func at(s app.Switch, p app.Port) app.PortOf { return app.PortOf{Switch: s, Port: p} }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// input makes the leader execute something, and commits it.
func (w *world) input(do func(*ledger.Core)) {
	w.t.Helper()
	if w.r.IntN(100) < w.fever {
		w.Crash = apptest.Crash(w.r.IntN(3))
		w.Failover()
	}
	w.Input(do)
}

// take gives a switch its new commands.
func (w *world) take(r ledger.Release) {
	w.t.Helper()
	s := w.switches[r.Switch]
	if s == nil || r.Epoch != s.epoch || r.Count == 0 || !s.up {
		return
	}
	for seq, msg := range w.Commands(r) {
		if seq > s.taken {
			s.taken = seq
			s.queue = append(s.queue, bytes.Clone(msg))
		}
	}
}

// step makes a switch do one thing. It reports whether there was anything to do.
func (w *world) step() bool {
	w.t.Helper()
	var busy []*fakeSwitch
	for _, id := range slices.Sorted(maps.Keys(w.switches)) {
		if s := w.switches[id]; len(s.queue) > 0 && !s.slow {
			busy = append(busy, s)
		}
	}
	if len(busy) == 0 {
		return false
	}
	s := busy[w.r.IntN(len(busy))]
	epoch := s.epoch
	changes := isMod(s.queue[0])
	answers := s.step()
	w.must(w.Leader().Done(s.id, s.epoch, s.taken-uint64(len(s.queue))))
	frames := s.frames
	s.frames = nil
	for _, a := range answers {
		if s.up && s.epoch == epoch {
			w.event(s.id, a)
		}
	}
	for _, f := range frames {
		w.arrive(f)
	}
	if changes {
		w.after()
	}
	return true
}

// arrive delivers a frame at the far end of its wire.
func (w *world) arrive(f sent) {
	w.t.Helper()
	to, wired := w.wires[f.from]
	near, far := w.switches[f.from.Switch], w.switches[to.Switch]
	if !wired || far == nil || !near.ports[f.from.Port] || !far.ports[to.Port] {
		return
	}
	if back, is := far.returned(f.frame); is && near.up {
		w.packetIn(f.from, back)
	} else if !is && far.up {
		w.packetIn(to, f.frame)
	}
}

func (w *world) settle() {
	w.t.Helper()
	for n := 0; w.step(); n++ {
		if n > 200_000 {
			w.t.Fatalf("the network does not come to rest")
		}
	}
}

func (w *world) event(id app.Switch, msg []byte) {
	w.t.Helper()
	s := w.switches[id]
	s.seq++
	epoch, seq := s.epoch, s.seq
	w.input(func(c *ledger.Core) { w.must(c.Event(id, epoch, seq, msg)) })
}

func (w *world) packetIn(at app.PortOf, frame []byte) {
	w.t.Helper()
	m := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(frame)),
		Match: of13.Match(nil).WithInPort(at.Port), Data: frame}
	w.event(at.Switch, m.Append(nil, 0))
}

// start begins a new epoch of a switch, with n ports unless it is known. wiped means that it has lost its tables.
func (w *world) start(id app.Switch, n int, wiped bool) {
	w.t.Helper()
	s := w.switches[id]
	if s == nil {
		s = &fakeSwitch{id: id, ports: map[app.Port]bool{}, bundles: w.r.IntN(2) == 0, partial: 1 + w.r.IntN(40)}
		for p := range n {
			s.ports[app.Port(p+1)] = true
		}
		w.switches[id] = s
	}
	if wiped || s.flows == nil {
		s.flows, s.groups = map[string]of13.FlowMod{}, map[uint32]of13.GroupMod{}
	}
	s.up, s.epoch, s.seq, s.taken, s.queue, s.frames = true, s.epoch+1, 0, 0, nil, nil
	var list []of13.PortDesc
	for _, p := range slices.Sorted(maps.Keys(s.ports)) {
		list = append(list, portDesc(p, s.ports[p]))
	}
	w.event(id, apptest.Up(id, list...))
}

func portDesc(p app.Port, up bool) of13.PortDesc {
	d := of13.PortDesc{Port: p, Name: "p", HwAddr: app.MAC{2, 0, 0, 0, byte(p >> 8), byte(p)}}
	if !up {
		d.State = of13.PortStateLinkDown
	}
	return d
}

// stop breaks the connection of a switch, which continues to forward.
func (w *world) stop(id app.Switch) {
	w.t.Helper()
	s := w.switches[id]
	if !s.up {
		return
	}
	w.event(id, apptest.Down())
	s.up, s.queue, s.frames = false, nil, nil
}

// die breaks a switch so that it does not forward any more, while its neighbours keep their carrier.
func (w *world) die(id app.Switch) {
	w.t.Helper()
	w.stop(id)
	clear(w.switches[id].flows)
	clear(w.switches[id].groups)
}

func (w *world) setPort(at app.PortOf, up bool) {
	w.t.Helper()
	s := w.switches[at.Switch]
	if s.ports[at.Port] == up {
		return
	}
	s.ports[at.Port] = up
	if s.up {
		status := of13.PortStatus{Reason: of13.PortModify, Port: portDesc(at.Port, up)}
		w.event(at.Switch, status.Append(nil, 0))
	}
}

// setCable makes a cable live or dead. Its ports notice.
func (w *world) setCable(end app.PortOf, up bool) {
	w.t.Helper()
	w.setPort(end, up)
	w.setPort(w.wires[end], up)
}

func (w *world) wire(a, b app.PortOf) { w.wires[a], w.wires[b] = b, a }

func macAt(p app.PortOf) app.MAC { return app.MAC{2, 0, 0, 1, byte(p.Switch), byte(p.Port)} }

// host makes a host send something at a port.
func (w *world) host(mac app.MAC, p app.PortOf) {
	w.t.Helper()
	s := w.switches[p.Switch]
	if !s.ports[p.Port] {
		return
	}
	if w.hosts[mac] = p; !s.up {
		return
	}
	frame := append([]byte{255, 255, 255, 255, 255, 255}, mac[:]...)
	frame = append(frame, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	frame = append(frame, mac[:]...)
	frame = append(frame, 10, 0, mac[4], mac[5], 0, 0, 0, 0, 0, 0, 10, 0, 0, 1)
	w.packetIn(p, frame)
}

// advance advances the clock. Timers fire one at a time, and switches execute all their commands.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	w.settle()
	for end := w.Now + int64(d); w.Now < end; {
		w.input(w.Until(end))
		w.settle()
	}
}

// tick makes the next timer fire, while switches do nothing.
func (w *world) tick() {
	w.t.Helper()
	if due, ok := w.Leader().NextTimer(); ok {
		w.input(w.Until(due))
	}
}

func (w *world) view() *View {
	w.t.Helper()
	v, err := Of(slices.Values(w.Rows(Name)))
	w.must(err)
	return v
}

// truth is the current network.
func (w *world) truth() network {
	n := network{avoid: w.config.Disjoint}
	for id := range w.switches {
		n.switches = append(n.switches, id)
	}
	for a, b := range w.wires {
		if a.Switch < b.Switch && w.switches[a.Switch].ports[a.Port] && w.switches[b.Switch].ports[b.Port] {
			n.addCable(placeOf(a), placeOf(b))
		}
	}
	for mac, p := range w.hosts {
		if w.switches[p.Switch].ports[p.Port] {
			n.hosts = append(n.hosts, protect.Host{MAC: mac, At: paths.End(p)})
		}
	}
	n.sort()
	return n
}

// check compares the content of the switches with the plan of the current network, and the controllers with each
// other.
func (w *world) check() {
	w.t.Helper()
	w.Agree()
	v := w.view()
	if !v.Stable() {
		w.t.Fatalf("not stable: %+v", v)
	}
	truth := w.truth()
	if got := (network{v.Disjoint, v.Graph.Switches(), v.Graph.Links(), v.Hosts}); !got.equal(&truth) {
		w.t.Fatalf("the plan is for %+v\nthe network is %+v", got, truth)
	}
	p, err := compile(nil, truth, w.config.Table)
	w.must(err)
	for id, s := range w.switches {
		w.holds(s, p.Program(id))
	}
}

// holds checks whether a switch contains a program, the entries that lead to it, and nothing else of ours.
func (w *world) holds(s *fakeSwitch, p protect.Program) {
	w.t.Helper()
	want := &fakeSwitch{flows: map[string]of13.FlowMod{}, groups: map[uint32]of13.GroupMod{}}
	for _, f := range pipeline(w.config.Table) {
		want.flowMod(f)
	}
	for _, m := range protect.Diff(protect.Program{}, p).Messages() {
		want.do(m)
	}
	for k, f := range want.flows {
		if got, ok := s.flows[k]; !ok || got.Cookie != f.Cookie || !bytes.Equal(got.Instructions, f.Instructions) {
			w.t.Fatalf("switch %v has %v there: %v, want %v", s.id, got.String(), ok, f.String())
		}
	}
	for k, f := range s.flows {
		if _, ok := want.flows[k]; !ok && (f.Cookie == Cookie || f.Cookie == protect.Cookie) {
			w.t.Fatalf("switch %v has %v", s.id, f.String())
		}
	}
	if !maps.EqualFunc(s.groups, want.groups, func(a,
		b of13.GroupMod) bool {
		return bytes.Equal(a.Buckets, b.Buckets)
	}) {
		w.t.Fatalf("switch %v has groups %v, want %v", s.id, slices.Sorted(maps.Keys(s.groups)),
			slices.Sorted(maps.Keys(want.groups)))
	}
}
