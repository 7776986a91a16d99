package topology

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// world is three controllers with the application, and switches that are connected. A frame that a PACKET_OUT sends
// out of a port arrives as a PACKET_IN at the other end of the wire. Everything happens in one goroutine, at the
// time that the test sets.
type world struct {
	*apptest.Group
	t apptest.Tester

	wires    map[app.PortOf]app.PortOf // one entry for each direction
	switches map[app.Switch]*wired
	frames   []arrival // in flight
	history  []arrival // probes that have arrived
	left     []app.PortOf
	told     []any
	asked    uint32 // xid of the last request
}

// wired is a switch.
type wired struct {
	up         bool
	epoch, seq uint64
	done       uint64 // number of commands executed
	ports      map[app.Port]bool
	flows      []of13.FlowMod
	requests   int
}

type arrival struct {
	at    app.PortOf
	frame []byte
}

func newWorld(t apptest.Tester) *world {
	t.Helper()
	w := &world{t: t, wires: map[app.PortOf]app.PortOf{}, switches: map[app.Switch]*wired{}}
	w.Group = apptest.NewGroup(t, 1e18, func() []*app.App { return []*app.App{New(), w.listener()} }, w.execute)
	return w
}

func listenerTables(a *app.App) (app.Map[uint32, app.PortOf, app.PortOf], app.Map[uint32, app.MAC, app.PortOf]) {
	return app.NewMap[uint32, app.PortOf, app.PortOf](a, "links"), app.NewMap[uint32, app.MAC, app.PortOf](a, "hosts")
}

// listener builds the network from the messages that it receives, in tables, and records the messages.
func (w *world) listener() *app.App {
	a := app.New("listener")
	links, hosts := listenerTables(a)
	both := app.Need(links.Cell(all), hosts.Cell(all))
	app.HandleEmitted(a, func(LinkUp) app.Cells { return both }, func(tx *app.Tx, m LinkUp) error {
		if back, up := links.Get(tx, all, m.To); m.Bidirectional != (up && back == m.From) {
			w.t.Errorf("told %+v, and the other direction is %v", m, up)
		}
		if old, up := links.Get(tx, all, m.From); up {
			w.t.Errorf("told %+v, and its port had a link to %v", m, old)
		}
		links.Put(tx, all, m.From, m.To)
		w.told = append(w.told, m)
		return nil
	})
	app.HandleEmitted(a, func(LinkDown) app.Cells { return both }, func(tx *app.Tx, m LinkDown) error {
		for _, l := range m.Links {
			if to, up := links.Get(tx, all, l.From); !up || to != l.To {
				w.t.Errorf("told that %v is down, which was not up", l)
			}
			links.Delete(tx, all, l.From)
		}
		w.told = append(w.told, m)
		return nil
	})
	app.HandleEmitted(a, func(HostSeen) app.Cells { return both }, func(tx *app.Tx, m HostSeen) error {
		hosts.Put(tx, all, m.MAC, m.At)
		w.told = append(w.told, m)
		return nil
	})
	app.HandleEmitted(a, func(HostGone) app.Cells { return both }, func(tx *app.Tx, m HostGone) error {
		for _, mac := range m.Hosts {
			if _, known := hosts.Get(tx, all, mac); !known {
				w.t.Errorf("told that host %v is gone, which was not there", mac)
			}
			hosts.Delete(tx, all, mac)
		}
		w.told = append(w.told, m)
		return nil
	})
	app.HandleEmitted(a, nil, func(_ *app.Tx, m SwitchUp) error { w.told = append(w.told, m); return nil })
	app.HandleEmitted(a, nil, func(_ *app.Tx, m SwitchDown) error { w.told = append(w.told, m); return nil })
	return a
}

func difference(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// input makes the leader execute something. If the leader dies meanwhile, the next one executes it again.
func (w *world) input(do func(*ledger.Core)) {
	w.t.Helper()
	told := len(w.told)
	w.Input(func(c *ledger.Core) {
		w.told = w.told[:told]
		do(c)
	})
}

// execute executes the commands of a switch, once.
func (w *world) execute(r ledger.Release) {
	w.t.Helper()
	s := w.switches[r.Switch]
	if s == nil || r.Epoch != s.epoch || r.Count == 0 {
		return
	}
	for seq, msg := range w.Commands(r) {
		if seq <= s.done {
			continue
		}
		s.done = seq
		m, err := of13.Decode(bytes.Clone(msg))
		w.must(err)
		if _, asks := m.(*of13.MultipartRequest); asks {
			w.asked = openflow.XID(msg)
		}
		w.command(r.Switch, s, m)
	}
	w.must(w.Leader().Done(r.Switch, r.Epoch, s.done))
}

func (w *world) command(id app.Switch, s *wired, m of13.Message) {
	switch m := m.(type) {
	case *of13.PacketOut:
		for a := range m.Actions.All() {
			from := app.PortOf{Switch: id, Port: a.Port}
			w.left = append(w.left, from)
			to, wired := w.wires[from]
			if far := w.switches[to.Switch]; wired && s.up && s.ports[a.Port] && far != nil && far.up &&
				far.ports[to.Port] {
				w.frames = append(w.frames, arrival{to, m.Data})
			}
		}
	case *of13.FlowMod:
		s.flows = append(s.flows, *m)
	case *of13.MultipartRequest:
		s.requests++
	}
}

// settle delivers all frames in flight.
func (w *world) settle() {
	w.t.Helper()
	for n := 0; len(w.frames) > 0; n++ {
		if n > 10_000 {
			w.t.Fatalf("the network does not come to rest")
		}
		f := w.frames[0]
		w.frames = w.frames[1:]
		w.history = append(w.history, f)
		w.packetIn(f.at, f.frame)
	}
}

func (w *world) event(id app.Switch, msg []byte) {
	w.t.Helper()
	s := w.switches[id]
	s.seq++
	epoch, seq := s.epoch, s.seq
	w.input(func(c *ledger.Core) { w.must(c.Event(id, epoch, seq, msg)) })
}

// start begins a new epoch of a switch, with n ports unless it is known.
func (w *world) start(id app.Switch, n int) {
	w.t.Helper()
	s := w.switches[id]
	if s == nil {
		s = &wired{ports: map[app.Port]bool{}}
		for p := range n {
			s.ports[app.Port(p+1)] = true
		}
		w.switches[id] = s
	}
	s.up, s.epoch, s.seq, s.done, s.flows = true, s.epoch+1, 0, 0, nil
	var list []of13.PortDesc
	for _, p := range slices.Sorted(maps.Keys(s.ports)) {
		list = append(list, portDesc(id, p, s.ports[p]))
	}
	w.event(id, apptest.Up(id, list...))
	w.settle()
}

func portDesc(id app.Switch, p app.Port, up bool) of13.PortDesc {
	d := of13.PortDesc{Port: p, Name: "p", HwAddr: app.MAC{2, 0, 0, byte(id), byte(p >> 8), byte(p)}}
	if !up {
		d.State = of13.PortStateLinkDown
	}
	return d
}

func (w *world) stop(id app.Switch) {
	w.t.Helper()
	w.switches[id].up = false
	w.event(id, apptest.Down())
	w.settle()
}

func (w *world) setPort(at app.PortOf, up bool) {
	w.t.Helper()
	w.switches[at.Switch].ports[at.Port] = up
	w.portStatus(at, of13.PortStatus{Reason: of13.PortModify, Port: portDesc(at.Switch, at.Port, up)})
}

func (w *world) portStatus(at app.PortOf, s of13.PortStatus) {
	w.t.Helper()
	w.event(at.Switch, s.Append(nil, 0))
	w.settle()
}

// packetIn delivers a frame to the controller. Other frames may then be in flight.
func (w *world) packetIn(at app.PortOf, frame []byte) {
	w.t.Helper()
	m := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(frame)),
		Match: of13.Match(nil).WithInPort(at.Port), Data: frame}
	w.event(at.Switch, m.Append(nil, 0))
}

// host makes a host send a frame.
func (w *world) host(at app.PortOf, frame []byte) {
	w.t.Helper()
	w.packetIn(at, frame)
	w.settle()
}

// advance advances the clock. Timers fire one at a time.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	for end := w.Now + int64(d); w.Now < end; {
		w.input(w.Until(end))
		w.settle()
	}
}

func (w *world) wire(a, b app.PortOf) { w.wires[a], w.wires[b] = b, a }

func (w *world) view() *Snapshot {
	w.t.Helper()
	s, err := Of(slices.Values(w.Rows(Name)))
	w.must(err)
	return s
}

// links returns the links that are up.
func (s *Snapshot) linksUp() (list []Link) {
	for _, l := range s.Links {
		if l.Up {
			list = append(list, l.Link)
		}
	}
	return list
}

// wiring returns the links that exist.
func (w *world) wiring() (list []Link) {
	for from, to := range w.wires {
		a, b := w.switches[from.Switch], w.switches[to.Switch]
		if a != nil && b != nil && a.up && b.up && a.ports[from.Port] && b.ports[to.Port] {
			list = append(list, Link{from, to})
		}
	}
	slices.SortFunc(list, func(a, b Link) int { return a.From.Compare(b.From) })
	return list
}

// check compares the view with what the listener was told, and the controllers with each other.
func (w *world) check() *Snapshot {
	w.t.Helper()
	w.Agree()
	s := w.view()
	var links []Link
	hosts := map[app.MAC]app.PortOf{}
	toldLinks, toldHosts := listenerTables(app.New("listener"))
	w.must(app.Read(slices.Values(w.Rows("listener")),
		toldLinks.Each(func(_ uint32, from, to app.PortOf) { links = append(links, Link{from, to}) }),
		toldHosts.Each(func(_ uint32, mac app.MAC, at app.PortOf) { hosts[mac] = at })))
	slices.SortFunc(links, func(a, b Link) int { return a.From.Compare(b.From) })
	if got := s.linksUp(); !slices.Equal(got, links) {
		w.t.Fatalf("the view has links %v, told were %v", got, links)
	}
	seen := map[app.MAC]app.PortOf{}
	for _, h := range s.Hosts {
		seen[h.MAC] = h.At
	}
	if !maps.Equal(seen, hosts) {
		w.t.Fatalf("the view has hosts %v, told were %v", seen, hosts)
	}
	return s
}
