// Package topology is an application that discovers the network: switches and their ports, the links between them in
// each direction, and the hosts at the edge. It keeps them in tables and emits messages about changes. Of makes a
// Snapshot of the tables for everyone else.
//
// It discovers links with LLDP frames (probes), which each port sends every Interval. Replicated timers send them, so a
// new leader continues where the old one stopped. A probe carries a message authentication code under a key that only
// the tables have, and a sequence number, and is accepted once. So a host that forges or replays LLDP frames only
// increments a counter. A host with two ports that relays fresh probes between them looks like a cable.
//
// A link ages by probes that were sent and not received, and not by time. If all controllers are down for an hour, the
// links are still there when they return.
//
// The application has an actor at each switch, which sends the probes of its ports and checks those that arrive, and
// one for the graph, which has links and hosts. With several groups, probes of a known link are handled in the group of
// the switch that receives them, and only what changes reaches the graph (see news.go).
//
// The package forwards nothing and computes no paths. It does not detect failures fast: port liveness and BFD in the
// data plane do. It detects within three intervals what those miss.
package topology

import (
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is the name of the application, which owns its tables.
const Name = "topology"

// Cookie is the cookie of all flow entries of this package, and of no others.
const Cookie uint64 = 0x6866746f706f // "hftopo"

// Interval is the time between two probes of a port.
const Interval = 3 * time.Second

// MaxPorts is how many ports of a switch are used. Others are ignored, as if they were down.
const MaxPorts = 1024

// Settle is how long a port that came up, or lost its link, waits for a probe before a host is learned there.
const Settle = time.Second

const (
	missedRounds = 3  // a link is lost with the next one
	perTick      = 16 // probes that leave a switch at once
	eagerGap     = 10 * time.Millisecond

	probePriority = 65535
	hostPriority  = 1 // below what any application forwards by
)

// all is the one cell of the graph's tables: the handling of a link or a host needs more than it can name in advance.
const all = 0

// probing is the timer of a switch.
const probing = "probe"

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	t := tablesOf(a)
	t.graph = app.Need(t.ends.Cell(all), t.hosts.Cell(all), t.totals.Cell(all), t.key.Cell(all))
	app.Handle(a, func(m app.SwitchUp) app.Cells { return t.of(m.Switch) }, t.switchUp)
	app.Handle(a, func(m app.SwitchDown) app.Cells { return t.of(m.Switch) }, t.switchDown)
	app.Handle(a, func(m app.PortStatus) app.Cells { return t.of(m.Switch) }, t.portStatus)
	app.Handle(a, func(m app.Reply) app.Cells { return t.of(m.Switch) }, t.reply)
	app.Handle(a, func(m app.Timer) app.Cells { return t.of(m.Switch) }, t.tick)
	app.Handle(a, func(in app.PacketIn) app.Cells {
		if isLLDP(in.Data) {
			return t.of(in.Switch)
		}
		return t.graph
	}, t.packetIn)
	app.HandleEmitted(a, func(m welcome) app.Cells { return t.of(m.Switch) }, t.welcome)
	app.HandleEmitted(a, func(m asked) app.Cells { return t.of(m.From.Switch) }, t.asked)
	app.HandleEmitted(a, func(m dismissed) app.Cells { return t.of(m.To.Switch) }, t.dismissed)
	app.HandleEmitted(a, func(m LinkUp) app.Cells { return t.of(m.To.Switch) }, t.probeBack)
	app.HandleEmitted(a, ofGraph[joined](t), t.joined)
	app.HandleEmitted(a, ofGraph[left](t), t.left)
	app.HandleEmitted(a, ofGraph[changed](t), t.changed)
	app.HandleEmitted(a, ofGraph[heard](t), t.heard)
	app.HandleEmitted(a, ofGraph[found](t), t.found)
	app.HandleEmitted(a, ofGraph[unsure](t), t.unsure)
	app.HandleEmitted(a, ofGraph[lost](t), t.lost)
	return a
}

// tablesOf declares the tables of the application.
func tablesOf(a *app.App) *topology {
	return &topology{
		switches: app.NewTable[app.Switch, switchRow](a, "switches"),
		clocks:   app.NewTable[app.Switch, clock](a, "clocks"),
		ports:    app.NewMap[app.Switch, app.Port, portRow](a, "ports"),
		seen:     app.NewMap[app.Switch, app.Port, seenRow](a, "seen"),
		rejected: app.NewMap[app.Switch, app.Port, Rejected](a, "rejected"),
		key:      app.NewTable[app.Switch, []byte](a, ledger.SecretTable),
		ends:     app.NewMap[uint32, app.PortOf, endRow](a, "ends"),
		hosts:    app.NewMap[uint32, app.MAC, hostRow](a, "hosts"),
		totals:   app.NewTable[uint32, totals](a, "totals"),
	}
}

type topology struct {
	// of a switch
	switches app.Table[app.Switch, switchRow]
	clocks   app.Table[app.Switch, clock]
	ports    app.Map[app.Switch, app.Port, portRow]
	seen     app.Map[app.Switch, app.Port, seenRow]  // by the port where probes arrive
	rejected app.Map[app.Switch, app.Port, Rejected] // likewise
	key      app.Table[app.Switch, []byte]           // also of the graph, at switch 0, which no switch has

	// of the graph
	ends   app.Map[uint32, app.PortOf, endRow]
	hosts  app.Map[uint32, app.MAC, hostRow]
	totals app.Table[uint32, totals]
	graph  app.Cells // those, and the key
}

// of returns the cells of a switch.
func (t *topology) of(id app.Switch) app.Cells {
	return app.Need(t.ports.Cell(id), t.clocks.Cell(id), t.seen.Cell(id), t.key.Cell(id), t.switches.Cell(id),
		t.rejected.Cell(id))
}

func ofGraph[M any](t *topology) func(M) app.Cells { return func(M) app.Cells { return t.graph } }

// switchRow is a switch that is up.
type switchRow struct {
	_     struct{}   `cbor:",toarray"`
	Ports []app.Port // in order
	More  bool       // there were more than MaxPorts
	Asked uint32     // xid of the request for its ports; 0 once a part of the answer has come
}

// portRow is a port of a switch that is up.
type portRow struct {
	_      struct{} `cbor:",toarray"`
	Name   string
	HwAddr app.MAC
	Up     bool
	// Since is the sequence of the switch when the port came up or went down. Its probes carry it, so that those from
	// before do not count.
	Since uint64

	From      app.PortOf // whose probes arrive here, as the graph was told; zero: nobody's
	FromSince uint64     // Since of that port
	Told      uint64     // number of the probe of which the graph was told
	Silent    bool       // it was told that they arrive no more
}

// seenRow is the last probe that counted at a port.
type seenRow struct {
	_   struct{} `cbor:",toarray"`
	Seq uint64   // its number
	At  uint64   // sequence of the receiving switch
}

func (t *topology) switchUp(tx *app.Tx, up app.SwitchUp) error {
	t.install(tx, up.Switch)
	last, _ := t.clocks.Get(tx, up.Switch)
	c := newClock(tx.Now(), last)
	var row switchRow
	for p := range up.Ports.All() {
		t.addPort(tx, up.Switch, &row, p, c.Seq)
	}
	// Ports may be too many for one message, and those of a switch that is reachable again date from the beginning of
	// its epoch.
	row.Asked = tx.Send(up.Switch, &of13.MultipartRequest{Part: of13.PartPortDesc})
	t.switches.Put(tx, up.Switch, row)
	t.clocks.Put(tx, up.Switch, c)
	return app.Emit(tx, joined{Switch: up.Switch, Ports: t.portNews(tx, up.Switch, row.Ports)})
}

// welcome begins to probe.
func (t *topology) welcome(tx *app.Tx, m welcome) error {
	_, up := t.switches.Get(tx, m.Switch)
	if _, began := t.key.Get(tx, m.Switch); began || !up {
		return nil
	}
	t.key.Put(tx, m.Switch, m.Key)
	return tx.SetTimer(probing, eagerGap, nil)
}

// install requests probes, and packets that reveal hosts and are not matched by another application's entry.
func (t *topology) install(tx *app.Tx, id app.Switch) {
	toController := of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))
	ask := func(priority uint16, m of13.Match) {
		tx.FlowMod(id, of13.FlowMod{Command: of13.FlowAdd, Cookie: Cookie, Priority: priority, BufferID: of13.NoBuffer,
			OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: m, Instructions: toController})
	}
	ask(probePriority, of13.Match(nil).WithEthDst(nearestBridge).WithEthType(typeLLDP))
	ask(hostPriority, of13.Match(nil).WithEthType(typeARP))
	for m := range Discovery() {
		ask(hostPriority, m)
	}
	for _, port := range []uint64{dhcpServerPort, dhcpClientPort} {
		ask(hostPriority, of13.Match(nil).WithEthType(typeIPv4).WithIPProto(protoUDP).WithUint(of13.FieldUDPDst, port))
	}
}

// Discovery iterates over the matches of ICMPv6 messages that reveal hosts: MLD, router and neighbour discovery. Echoes
// and errors are left to the data plane: they may be many.
func Discovery() iter.Seq[of13.Match] {
	return func(yield func(of13.Match) bool) {
		for _, kind := range []uint64{130, 131, 132, 133, 134, 135, 136, 143} {
			if !yield(of13.Match(nil).WithEthType(typeIPv6).WithIPProto(protoICMPv6).WithUint(of13.FieldICMPv6Type,
				kind)) {
				return
			}
		}
	}
}

func (t *topology) switchDown(tx *app.Tx, down app.SwitchDown) error {
	row, up := t.switches.Get(tx, down.Switch)
	if !up {
		return nil
	}
	news := t.portNews(tx, down.Switch, row.Ports)
	for _, p := range row.Ports {
		t.removePort(tx, down.Switch, p)
	}
	t.switches.Delete(tx, down.Switch)
	t.key.Delete(tx, down.Switch)
	tx.CancelTimer(probing)
	return app.Emit(tx, left{Switch: down.Switch, Ports: news})
}

// reply records the current ports of a switch.
func (t *topology) reply(tx *app.Tx, r app.Reply) error {
	row, up := t.switches.Get(tx, r.Switch)
	if !up || r.Part != of13.PartPortDesc {
		return nil
	}
	if err := t.removeMissing(tx, r, row); err != nil {
		return err
	}
	row, _ = t.switches.Get(tx, r.Switch)
	c, _ := t.clocks.Get(tx, r.Switch)
	ports, more := len(row.Ports), row.More
	for p := range r.PortDescs().All() {
		if old, known := t.ports.Get(tx, r.Switch, p.Port); known && old.Up != p.Up() {
			status := app.PortStatus{Switch: r.Switch, PortStatus: of13.PortStatus{Reason: of13.PortModify, Port: p}}
			if err := t.portStatus(tx, status); err != nil {
				return err
			}
			c, _ = t.clocks.Get(tx, r.Switch)
		}
		t.addPort(tx, r.Switch, &row, p, c.Seq)
	}
	if len(row.Ports) == ports && row.More == more {
		return nil
	}
	t.switches.Put(tx, r.Switch, row)
	return app.Emit(tx, joined{Switch: r.Switch, Ports: t.portNews(tx, r.Switch, row.Ports)})
}

// Missing returns which ports a switch does not have any more, according to a reply with ports: those that are not in
// it, if it has one part and answers the request with this xid. They went away while no controller was connected.
func Missing(r app.Reply, asked uint32) func(app.Port) bool {
	if asked != r.XID || r.Flags&of13.FlagMore != 0 {
		return func(app.Port) bool { return false }
	}
	there := map[app.Port]bool{}
	for p := range r.PortDescs().All() {
		there[p.Port] = true
	}
	return func(p app.Port) bool { return !there[p] }
}

// removeMissing removes the ports that a switch does not have any more. The caller reads row again.
func (t *topology) removeMissing(tx *app.Tx, r app.Reply, row switchRow) error {
	if row.Asked == 0 {
		return nil
	}
	missing := Missing(r, row.Asked)
	row.Asked = 0
	t.switches.Put(tx, r.Switch, row)
	for _, p := range row.Ports {
		if !missing(p) {
			continue
		}
		gone := of13.PortStatus{Reason: of13.PortDelete, Port: of13.PortDesc{Port: p}}
		if err := t.portStatus(tx, app.PortStatus{Switch: r.Switch, PortStatus: gone}); err != nil {
			return err
		}
	}
	return nil
}

// addPort records a new port; the next tick probes it.
func (t *topology) addPort(tx *app.Tx, id app.Switch, row *switchRow, p of13.PortDesc, seq uint64) {
	i, known := slices.BinarySearch(row.Ports, p.Port)
	switch {
	case known || p.Port == 0 || p.Port > of13.PortMax:
		return
	case len(row.Ports) >= MaxPorts:
		row.More = true
		return
	}
	row.Ports = slices.Insert(row.Ports, i, p.Port)
	t.ports.Put(tx, id, p.Port, portRow{Name: p.Name, HwAddr: p.HwAddr, Up: p.Up(), Since: seq})
}

func (t *topology) portStatus(tx *app.Tx, s app.PortStatus) error {
	row, live := t.switches.Get(tx, s.Switch)
	old, known := t.ports.Get(tx, s.Switch, s.Port.Port)
	news := t.newsOf(tx, s.Switch, s.Port.Port)
	news.Removed = s.Reason == of13.PortDelete
	news.Up = !news.Removed && s.Port.Up()
	switch {
	case !live, !known && news.Removed:
		return nil
	case known && !news.Removed && news.Up == old.Up:
		old.Name, old.HwAddr = s.Port.Name, s.Port.HwAddr
		t.ports.Put(tx, s.Switch, s.Port.Port, old)
		return nil
	}
	c, _ := t.clocks.Get(tx, s.Switch)
	c.Seq++
	t.clocks.Put(tx, s.Switch, c)
	news.Since = c.Seq
	switch {
	case !known:
		t.addPort(tx, s.Switch, &row, s.Port, c.Seq)
		t.switches.Put(tx, s.Switch, row)
		if _, known = t.ports.Get(tx, s.Switch, s.Port.Port); !known {
			return nil // there are too many
		}
	case news.Removed:
		t.removePort(tx, s.Switch, s.Port.Port)
		row.Ports = slices.DeleteFunc(row.Ports, func(p app.Port) bool { return p == s.Port.Port })
		t.switches.Put(tx, s.Switch, row)
	default:
		t.seen.Delete(tx, s.Switch, s.Port.Port)
		t.ports.Put(tx, s.Switch, s.Port.Port,
			portRow{Name: s.Port.Name, HwAddr: s.Port.HwAddr, Up: news.Up, Since: c.Seq})
	}
	t.probeNow(tx, app.PortOf{Switch: s.Switch, Port: s.Port.Port})
	return app.Emit(tx, changed{Switch: s.Switch, Port: news})
}

// removePort removes a port and everything about it.
func (t *topology) removePort(tx *app.Tx, id app.Switch, port app.Port) {
	t.ports.Delete(tx, id, port)
	t.seen.Delete(tx, id, port)
	t.rejected.Delete(tx, id, port)
}

// newsOf describes a port to the graph.
func (t *topology) newsOf(tx *app.Tx, id app.Switch, port app.Port) portNews {
	p, _ := t.ports.Get(tx, id, port)
	last, _ := t.seen.Get(tx, id, port)
	return portNews{Port: port, Up: p.Up, Since: p.Since, From: p.From, Seq: last.Seq}
}

func (t *topology) portNews(tx *app.Tx, id app.Switch, ports []app.Port) []portNews {
	list := make([]portNews, len(ports))
	for i, p := range ports {
		list[i] = t.newsOf(tx, id, p)
	}
	return list
}
