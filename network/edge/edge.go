// Package edge is an application that delivers the broadcasts by which hosts find each other: ARP, IPv6 neighbour and
// router discovery, MLD and DHCP. If topology knows the host that a request is for, the request goes to that host only.
// Otherwise it leaves by every port at the edge of the network, once. So nothing is flooded inside the network, which
// may have loops, and switches need no flow entries for broadcasts.
//
// It needs topology before it in the list of applications, and an application whose flow entries send such frames to
// the controller, such as recovery or valiant. Unicast frames, such as replies, are forwarded by the data plane. Other
// broadcasts and multicasts are dropped.
//
// Frames are handled at the level Ordered: when the leader dies a frame may be lost, and none is sent twice. Hosts
// repeat a request that nobody answers.
package edge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is that of the application.
const Name = "edge"

// all is the one cell of each table: a flood needs the whole edge.
const all = 0

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	e := &edge{
		switches:  app.NewMap[uint32, app.Switch, []port](a, "switches"),
		asked:     app.NewMap[uint32, app.Switch, uint32](a, "asked"),
		rates:     app.NewMap[uint32, app.PortOf, rate](a, "rates"),
		hosts:     app.NewMap[uint32, app.MAC, host](a, "hosts"),
		addresses: app.NewMap[uint32, string, owner](a, "addresses"),
		totals:    app.NewTable[uint32, totals](a, "totals"),
	}
	ports := app.Need(e.switches.Cell(all), e.asked.Cell(all), e.rates.Cell(all))
	hosts := app.Need(e.switches.Cell(all), e.hosts.Cell(all), e.addresses.Cell(all))
	frames := app.Need(e.switches.Cell(all), e.rates.Cell(all), e.hosts.Cell(all), e.addresses.Cell(all),
		e.totals.Cell(all))
	app.Handle(a, func(app.SwitchUp) app.Cells { return ports }, e.switchUp)
	app.Handle(a, func(app.SwitchDown) app.Cells { return ports }, e.switchDown)
	app.Handle(a, func(app.PortStatus) app.Cells { return ports }, e.portStatus)
	app.Handle(a, func(app.Reply) app.Cells { return ports }, e.reply)
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return ports }, e.linkUp)
	app.HandleEmitted(a, func(topology.HostSeen) app.Cells { return hosts }, e.hostSeen)
	app.HandleEmitted(a, func(topology.HostGone) app.Cells { return hosts }, e.hostGone)
	app.HandleEmitted(a, func(Seek) app.Cells { return frames }, e.seek)
	app.Handle(a, func(in app.PacketIn) app.Cells {
		if _, ok := discovery(&in); !ok {
			return app.Cells{} // so that it stays in the group of the switch
		}
		return frames
	}, e.packetIn, app.At(app.Ordered))
	app.Handle(a, func(app.Timer) app.Cells { return frames }, e.goOn)
	return a
}

type edge struct {
	switches  app.Map[uint32, app.Switch, []port] // that are up
	asked     app.Map[uint32, app.Switch, uint32] // xids of requests for ports of which no answer has come
	rates     app.Map[uint32, app.PortOf, rate]   // of floods that came in by a port
	hosts     app.Map[uint32, app.MAC, host]
	addresses app.Map[uint32, string, owner] // by IP address
	totals    app.Table[uint32, totals]
}

// port is a port of a switch. Rows are ordered by port number.
type port struct {
	_    struct{} `cbor:",toarray"`
	Port app.Port
	Up   bool
	// Link says that there has been a link since the port came up. It stays set when the link is lost: a link that is
	// silently restored is found only by the next probe, and what was flooded into it until then would come back.
	Link    bool
	Changed int64 // when it came up, or went down
}

// outside reports whether hosts can be at a port.
func (p *port) outside(now int64) bool {
	return p.Up && !p.Link && now-p.Changed >= int64(topology.Settle)
}

type host struct {
	_         struct{} `cbor:",toarray"`
	At        app.PortOf
	Addresses []netip.Addr
}

// owner is the host that was last seen with an address.
type owner struct {
	_     struct{} `cbor:",toarray"`
	MAC   app.MAC
	Asked bool // a request went to it alone, and it has not announced the address since
}

// find looks for a port in the row of its switch.
func (e *edge) find(tx *app.Tx, at app.PortOf) (row []port, i int, known bool) {
	row, _ = e.switches.Get(tx, all, at.Switch)
	i, known = search(row, at.Port)
	return row, i, known
}

func search(row []port, p app.Port) (int, bool) {
	return slices.BinarySearchFunc(row, p, func(r port, p app.Port) int { return cmp.Compare(r.Port, p) })
}

// Messages for an application that sends to hosts and is none itself, such as a router. It emits Seek. If topology
// knows a host with the address, edge emits Sought. Otherwise it sends the request to all ports at the edge, at most
// 100 in a second with the other floods, and the application seeks again.
type (
	Seek struct {
		Switch  app.Switch // of the application, which Sought repeats
		Address netip.Addr
		Request []byte // a frame that asks for the host
	}
	Sought struct {
		Switch  app.Switch
		Address netip.Addr
		MAC     app.MAC
	}
)

// add adds a port that topology uses too: no link is ever found at the other ports, so they cannot be told from the
// edge.
func add(row []port, p app.Port, up bool, now int64) []port {
	i, known := search(row, p)
	if known || p == 0 || p > of13.PortMax || len(row) >= topology.MaxPorts {
		return row
	}
	return slices.Insert(row, i, port{Port: p, Up: up, Changed: now})
}

// switchUp adds the ports as they were when the switch's epoch began, and requests their current state.
func (e *edge) switchUp(tx *app.Tx, up app.SwitchUp) error {
	row := []port{}
	for p := range up.Ports.All() {
		row = add(row, p.Port, p.Up(), tx.Now().UnixNano())
	}
	e.switches.Put(tx, all, up.Switch, row)
	e.asked.Put(tx, all, up.Switch, tx.Send(up.Switch, &of13.MultipartRequest{Part: of13.PartPortDesc}))
	return nil
}

func (e *edge) reply(tx *app.Tx, r app.Reply) error {
	row, known := e.switches.Get(tx, all, r.Switch)
	if !known || r.Part != of13.PartPortDesc {
		return nil
	}
	if xid, waits := e.asked.Get(tx, all, r.Switch); waits {
		e.asked.Delete(tx, all, r.Switch)
		missing := topology.Missing(r, xid)
		row = slices.DeleteFunc(row, func(p port) bool {
			if missing(p.Port) {
				e.rates.Delete(tx, all, app.PortOf{Switch: r.Switch, Port: p.Port})
			}
			return missing(p.Port)
		})
	}
	for p := range r.PortDescs().All() {
		row = note(row, p, tx.Now().UnixNano())
	}
	e.switches.Put(tx, all, r.Switch, row)
	return nil
}

// note records that a switch has a port, and whether it is up.
func note(row []port, p of13.PortDesc, now int64) []port {
	i, known := search(row, p.Port)
	switch {
	case !known:
		return add(row, p.Port, p.Up(), now)
	case row[i].Up != p.Up():
		row[i] = port{Port: p.Port, Up: p.Up(), Changed: now}
	}
	return row
}

func (e *edge) switchDown(tx *app.Tx, down app.SwitchDown) error {
	row, _ := e.switches.Get(tx, all, down.Switch)
	for _, p := range row {
		e.rates.Delete(tx, all, app.PortOf{Switch: down.Switch, Port: p.Port})
	}
	e.switches.Delete(tx, all, down.Switch)
	e.asked.Delete(tx, all, down.Switch)
	return nil
}

func (e *edge) portStatus(tx *app.Tx, s app.PortStatus) error {
	at := app.PortOf{Switch: s.Switch, Port: s.Port.Port}
	if _, live := e.switches.Get(tx, all, s.Switch); !live {
		return nil
	}
	row, i, known := e.find(tx, at)
	now := tx.Now().UnixNano()
	switch {
	case s.Reason == of13.PortDelete && known:
		row = slices.Delete(row, i, i+1)
		e.rates.Delete(tx, all, at)
	case s.Reason != of13.PortDelete:
		row = note(row, s.Port, now)
	}
	e.switches.Put(tx, all, s.Switch, row)
	return nil
}

func (e *edge) linkUp(tx *app.Tx, l topology.LinkUp) error {
	e.setLink(tx, l.From, true)
	e.setLink(tx, l.To, true)
	return nil
}

func (e *edge) setLink(tx *app.Tx, at app.PortOf, link bool) {
	if row, i, known := e.find(tx, at); known && row[i].Link != link {
		row[i].Link = link
		e.switches.Put(tx, all, at.Switch, row)
	}
}

// hostSeen records that topology has found a host at a port that had a link.
func (e *edge) hostSeen(tx *app.Tx, seen topology.HostSeen) error {
	old, _ := e.hosts.Get(tx, all, seen.MAC)
	for _, a := range old.Addresses {
		if !slices.Contains(seen.Addresses, a) {
			e.disown(tx, a, seen.MAC)
		}
	}
	for _, a := range seen.Addresses {
		if o, _ := e.addresses.Get(tx, all, a.String()); o.MAC == seen.MAC || !slices.Contains(old.Addresses, a) {
			e.addresses.Put(tx, all, a.String(), owner{MAC: seen.MAC})
		}
	}
	e.hosts.Put(tx, all, seen.MAC, host{At: seen.At, Addresses: seen.Addresses})
	e.setLink(tx, seen.At, false)
	return nil
}

func (e *edge) hostGone(tx *app.Tx, gone topology.HostGone) error {
	for _, mac := range gone.Hosts {
		h, _ := e.hosts.Get(tx, all, mac)
		for _, a := range h.Addresses {
			e.disown(tx, a, mac)
		}
		e.hosts.Delete(tx, all, mac)
	}
	return nil
}

// seek answers whoever emits Seek if the host is known, and asks for the host if not.
func (e *edge) seek(tx *app.Tx, s Seek) error {
	if o, known := e.addresses.Get(tx, all, s.Address.String()); known {
		return app.Emit(tx, Sought{s.Switch, s.Address, o.MAC})
	}
	sum, _ := e.totals.Get(tx, all)
	if !sum.Rate.take(tx.Now(), networkRate) {
		sum.Dropped++
		e.totals.Put(tx, all, sum)
		return nil
	}
	sum.Flooded++
	e.totals.Put(tx, all, sum)
	return e.flood(tx, flood{Number: sum.Flooded, Frame: s.Request})
}

func (e *edge) disown(tx *app.Tx, a netip.Addr, mac app.MAC) {
	if o, _ := e.addresses.Get(tx, all, a.String()); o.MAC == mac {
		e.addresses.Delete(tx, all, a.String())
	}
}
