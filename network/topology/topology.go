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
// The package forwards nothing and computes no paths. It does not detect failures fast: port liveness and BFD in the
// data plane do. It detects within three intervals what those miss.
package topology

import (
	"crypto/rand"
	"fmt"
	"iter"
	"slices"
	"strconv"
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

// all is the one cell of those tables of which the handling of a link or a host needs more than it can name in advance.
const all = 0

// New returns the application.
func New() *app.App {
	a := app.New(Name).Whole()
	t := tablesOf(a)
	t.forHosts = app.Need(t.ports.Cell(all), t.hosts.Cell(all), t.totals.Cell(all))
	app.Handle(a, func(m app.SwitchUp) app.Cells { return t.forSwitch(m.Switch) }, t.switchUp)
	app.Handle(a, func(m app.SwitchDown) app.Cells { return t.forSwitch(m.Switch) }, t.switchDown)
	app.Handle(a, func(m app.PortStatus) app.Cells { return t.forSwitch(m.Switch) }, t.portStatus)
	app.Handle(a, func(m app.Reply) app.Cells { return t.forSwitch(m.Switch) }, t.reply)
	app.Handle(a, func(m app.Timer) app.Cells { id, _ := switchOf(m.Name); return t.forSwitch(id) }, t.tick)
	app.Handle(a, t.forPacket, t.packetIn)
	return a
}

// tablesOf declares the tables of the application.
func tablesOf(a *app.App) *topology {
	return &topology{
		switches: app.NewTable[app.Switch, switchRow](a, "switches"),
		clocks:   app.NewTable[app.Switch, clock](a, "clocks"),
		ports:    app.NewMap[uint32, app.PortOf, portRow](a, "ports"),
		seen:     app.NewMap[uint32, app.PortOf, uint64](a, "seen"),
		hosts:    app.NewMap[uint32, app.MAC, hostRow](a, "hosts"), totals: app.NewTable[uint32, totals](a, "totals"),
		rejected: app.NewMap[uint32, app.PortOf, Rejected](a, "rejected"),
		key:      app.NewTable[uint32, []byte](a, ledger.SecretTable),
	}
}

type topology struct {
	switches app.Table[app.Switch, switchRow]
	clocks   app.Table[app.Switch, clock]
	ports    app.Map[uint32, app.PortOf, portRow]
	// by the port that a link leaves: the sequence of the last probe that counted
	seen     app.Map[uint32, app.PortOf, uint64]
	hosts    app.Map[uint32, app.MAC, hostRow]
	totals   app.Table[uint32, totals]
	rejected app.Map[uint32, app.PortOf, Rejected] // by the port where it came in
	key      app.Table[uint32, []byte]
	forHosts app.Cells
}

// switchRow is a switch that is up.
type switchRow struct {
	_     struct{}   `cbor:",toarray"`
	Ports []app.Port // in order
	More  bool       // there were more than MaxPorts
}

// portRow is a port of a switch that is up, and the links from and to it. The other end of a link stays recorded when
// it is down.
type portRow struct {
	_       struct{} `cbor:",toarray"`
	Name    string
	HwAddr  app.MAC
	Up      bool
	Since   uint64 // sequence of the switch when the port came up or went down: earlier probes do not count
	Changed int64  // when the port or a link of it came up or went down

	To        app.PortOf // where the link that leaves here arrives
	ToUp      bool
	ToChanged int64
	ToReason  Reason // of its being down

	From   app.PortOf // where the link that arrives here comes from
	FromUp bool

	// Silent is set when probes of a link here are lost, until a link is found or the port changes its state. The link
	// may be restored up to an interval before a probe shows it: frames that arrive here meanwhile are not from hosts
	// of this port.
	Silent bool

	Hosts uint32 // number of hosts learned here
}

// link reports whether the port is one between switches.
func (p *portRow) link() bool { return p.ToUp || p.FromUp }

func (t *topology) forSwitch(id app.Switch) app.Cells {
	return app.Need(t.ports.Cell(all), t.hosts.Cell(all), t.totals.Cell(all), t.switches.Cell(id), t.clocks.Cell(id),
		t.seen.Cell(all),
		t.rejected.Cell(all), t.key.Cell(all))
}

// forPacket declares as few cells as possible for packets of hosts, which are many.
func (t *topology) forPacket(in app.PacketIn) app.Cells {
	if !isLLDP(in.Data) {
		return t.forHosts
	}
	p, _ := parseProbe(in.Data)
	return app.Need(t.ports.Cell(all), t.hosts.Cell(all), t.totals.Cell(all), t.seen.Cell(all), t.rejected.Cell(all),
		t.key.Cell(all),
		t.clocks.Cell(p.from.Switch), t.clocks.Cell(in.Switch))
}

func (t *topology) switchUp(tx *app.Tx, up app.SwitchUp) error {
	if _, ok := t.key.Get(tx, all); !ok {
		key := make([]byte, 32)
		rand.Read(key) // never fails
		t.key.Put(tx, all, key)
	}
	t.install(tx, up.Switch)
	c := newClock(tx.Now())
	var row switchRow
	for p := range up.Ports.All() {
		t.addPort(tx, up.Switch, &row, p, c.Seq)
	}
	// Ports may be too many for one message, and those of a switch that is reachable again date from the beginning of
	// its epoch.
	tx.Send(up.Switch, &of13.MultipartRequest{Part: of13.PartPortDesc})
	t.switches.Put(tx, up.Switch, row)
	t.clocks.Put(tx, up.Switch, c)
	if err := app.Emit(tx, SwitchUp{up.Switch, row.Ports}); err != nil {
		return err
	}
	return tx.SetTimer(up.Switch.String(), eagerGap, nil)
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
	ch := changes{reason: SwitchIsDown}
	if slices.ContainsFunc(row.Ports, func(p app.Port) bool {
		r, _ := t.ports.Get(tx, all, app.PortOf{Switch: down.Switch, Port: p})
		return r.Hosts > 0
	}) {
		t.forget(tx, &ch, func(h hostRow) bool { return h.At.Switch == down.Switch }) // those of all its ports at once
	}
	for _, p := range row.Ports {
		t.removePort(tx, app.PortOf{Switch: down.Switch, Port: p}, &ch)
	}
	t.switches.Delete(tx, down.Switch)
	t.clocks.Delete(tx, down.Switch)
	tx.CancelTimer(down.Switch.String())
	if err := ch.emit(tx); err != nil {
		return err
	}
	return app.Emit(tx, SwitchDown{down.Switch})
}

// reply records the current ports of a switch.
func (t *topology) reply(tx *app.Tx, r app.Reply) error {
	row, up := t.switches.Get(tx, r.Switch)
	c, _ := t.clocks.Get(tx, r.Switch)
	if !up || r.Part != of13.PartPortDesc {
		return nil
	}
	ports, more := len(row.Ports), row.More
	for p := range r.PortDescs().All() {
		if old, known := t.ports.Get(tx, all, app.PortOf{Switch: r.Switch, Port: p.Port}); known && old.Up != p.Up() {
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
	return app.Emit(tx, SwitchUp{r.Switch, row.Ports})
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
	t.ports.Put(tx, all, app.PortOf{Switch: id, Port: p.Port},
		portRow{Name: p.Name, HwAddr: p.HwAddr, Up: p.Up(), Since: seq, Changed: tx.Now().UnixNano()})
}

func (t *topology) portStatus(tx *app.Tx, s app.PortStatus) error {
	row, live := t.switches.Get(tx, s.Switch)
	if !live {
		return nil
	}
	c, _ := t.clocks.Get(tx, s.Switch)
	at := app.PortOf{Switch: s.Switch, Port: s.Port.Port}
	old, known := t.ports.Get(tx, all, at)
	up := s.Reason != of13.PortDelete && s.Port.Up()
	ch := changes{reason: PortDown}
	switch {
	case s.Reason == of13.PortDelete && known:
		t.removePort(tx, at, &ch)
		row.Ports = slices.DeleteFunc(row.Ports, func(p app.Port) bool { return p == at.Port })
		t.switches.Put(tx, s.Switch, row)
	case s.Reason == of13.PortDelete:
	case !known:
		t.addPort(tx, s.Switch, &row, s.Port, c.Seq)
		t.switches.Put(tx, s.Switch, row)
	default:
		now := old
		now.Name, now.HwAddr = s.Port.Name, s.Port.HwAddr
		if up != old.Up {
			t.portDown(tx, at, &now, &ch) // so that nothing has to be taken down if it comes up
			now.Silent = false
			now.Up, now.Since, now.Changed = up, c.Seq, tx.Now().UnixNano()
		}
		t.ports.Put(tx, all, at, now)
	}
	if up && !old.Up {
		t.probeNow(tx, at)
	}
	return ch.emit(tx)
}

// removePort removes a port and everything about it.
func (t *topology) removePort(tx *app.Tx, at app.PortOf, ch *changes) {
	row, known := t.ports.Get(tx, all, at)
	if !known {
		return
	}
	t.portDown(tx, at, &row, ch)
	t.ports.Delete(tx, all, at)
	t.seen.Delete(tx, all, at)
	t.rejected.Delete(tx, all, at)
}

// portDown takes down the links of a port, and forgets its hosts. The caller writes row.
func (t *topology) portDown(tx *app.Tx, at app.PortOf, row *portRow, ch *changes) {
	if row.ToUp {
		t.linkDown(tx, at, row, ch)
	}
	if row.FromUp {
		origin, _ := t.ports.Get(tx, all, row.From)
		from := row.From
		t.linkDown(tx, from, &origin, ch)
		t.ports.Put(tx, all, from, origin)
		row.FromUp = false
	}
	t.forgetHosts(tx, at, row, ch)
}

func switchOf(timer string) (app.Switch, error) {
	id, err := strconv.ParseUint(timer, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("timer %q names no switch: %w", timer, err)
	}
	return app.Switch(id), nil
}
