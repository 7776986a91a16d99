// Package tenants is network virtualisation: each tenant has a network of its own over shared switches, with whatever
// Ethernet and IP addresses it likes, also those of other tenants. An operator tells where the hosts of a tenant are:
// at which switch, port and VLAN. Hosts of a tenant reach each other as in one Ethernet, and nobody else. A host that
// moves is told again, and has its new place instead of the old one.
//
// Frames carry a VLAN tag for the tenant between switches. A switch puts a frame into the network of a tenant by its
// port, VLAN and source address, so no host can send as another, or as another tenant. Frames to one host take a
// shortest path, those to many a tree. All of that is in flow entries; no frame goes to a controller.
//
// When something changes, entries of all switches are changed in two rounds: first all entries are removed that are not
// wanted any more, everywhere. When all switches have confirmed that, the new ones are installed. So at any time the
// entries are a part of one consistent network, the old or the new one. See network in plan.go.
//
// It answers no ARP and assigns no addresses. Hosts of different tenants at one port need different VLANs, and hosts of
// one tenant at one port do not reach each other through the network. It needs topology, and tables 0 and 1 of switches
// that it does not share with another application that forwards.
//
//	PUT, DELETE /apps/tenants/{tenant}             creates or removes a tenant
//	GET /apps/tenants/{tenant}                     its hosts: a Status for each MAC address
//	PUT, GET, DELETE /apps/tenants/{tenant}/hosts/{mac}   a Place; GET is answered with a Status
//	DELETE /apps/tenants/switches/{switch}         forgets a switch that is down and does not come back
package tenants

import (
	"errors"
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// Name is the name of the application.
const Name = "tenants"

// Bounds. A request beyond one is refused with status 507. Further switches are not used, and GET of a host says so.
const (
	MaxTenants  = 4094 // as many VLANs; fewer while a switch is down that may have entries of tenants that are gone
	MaxHosts    = 512  // of all tenants
	MaxSwitches = 32
)

// tenant is one network. A tag is not used again while a switch may have entries with it.
type tenant struct {
	Tag   uint16
	Hosts int
}

// host is where a host is. Since is the number of the change that put it there.
type host struct {
	At    app.PortOf
	VLAN  uint16
	Since uint64
}

// member is a switch. It stays when it is down, because it may forward by the entries that it has.
type member struct {
	Up      bool
	Epoch   uint64 // the one in which it is up, as its actor counts
	Since   uint64 // the number of the change that it came up with
	Program []byte // a digest of the entries that it has, or is to have
	Round   uint64 // the last that it took part in
	Waits   bool   // it has not confirmed its part of the round
	Refused string // why it has no entries
}

// progress is how far changes are.
type progress struct {
	Wanted, Doing, Done uint64 // numbers of changes
	Phase               phase
	Broken              bool   // a switch left with entries that this change was to remove, so nothing is installed
	Tag                 uint16 // the last that a tenant got
}

// phase is what switches are doing about a change.
type phase uint8

const (
	idle     phase = iota
	withdraw       // they remove what is not wanted any more
	install        // they install what is new
)

// all is the one cell of each table of the network.
const all = 0

// place is the key of a host: its tenant, and its address.
type place string

func placeOf(name string, mac app.MAC) place { return place(name + " " + mac.String()) }

type tenants struct {
	links    app.Map[uint32, app.PortOf, app.PortOf]
	members  app.Map[uint32, app.Switch, member]
	tenants  app.Map[uint32, string, tenant]
	hosts    app.Map[uint32, string, host] // by place
	tags     app.Map[uint32, uint32, bool] // that are in use; true: the tenant is gone
	progress app.Table[uint32, progress]

	switches app.Table[app.Switch, state] // at each switch, as the next ones
	entries  app.Map[app.Switch, string, bool]
	next     app.Table[app.Switch, []encoded]
}

// New returns the application. It needs topology before it in the list of applications.
func New() *app.App {
	a := app.New(Name)
	t := &tenants{
		links:    app.NewMap[uint32, app.PortOf, app.PortOf](a, "links"),
		members:  app.NewMap[uint32, app.Switch, member](a, "members"),
		tenants:  app.NewMap[uint32, string, tenant](a, "tenants"),
		hosts:    app.NewMap[uint32, string, host](a, "hosts"),
		tags:     app.NewMap[uint32, uint32, bool](a, "tags"),
		progress: app.NewTable[uint32, progress](a, "progress"),
		switches: app.NewTable[app.Switch, state](a, "switches"),
		entries:  app.NewMap[app.Switch, string, bool](a, "entries"),
		next:     app.NewTable[app.Switch, []encoded](a, "next"),
	}
	network := app.Need(t.links.Cell(all), t.members.Cell(all), t.tenants.Cell(all), t.hosts.Cell(all),
		t.tags.Cell(all), t.progress.Cell(all))
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return network }, t.linkUp)
	app.HandleEmitted(a, func(topology.LinkDown) app.Cells { return network }, t.linkDown)
	app.HandleEmitted(a, func(joined) app.Cells { return network }, t.joined)
	app.HandleEmitted(a, func(left) app.Cells { return network }, t.left)
	app.HandleEmitted(a, func(confirmed) app.Cells { return network }, t.confirmed)
	app.Handle(a, func(app.SwitchForgotten) app.Cells { return network }, t.switchForgotten)
	t.routes(a, network)

	at := func(id app.Switch) app.Cells {
		return app.Need(t.switches.Cell(id), t.entries.Cell(id), t.next.Cell(id))
	}
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, t.switchUp)
	app.Handle(a, func(m app.SwitchDown) app.Cells { return at(m.Switch) }, t.switchDown)
	app.Handle(a, func(m app.BarrierReply) app.Cells { return at(m.Switch) }, t.barrier)
	app.Handle(a, func(m app.Refused) app.Cells { return at(m.Switch) }, t.refused)
	app.HandleEmitted(a, func(m program) app.Cells { return at(m.Switch) }, t.program)
	app.HandleEmitted(a, func(m proceed) app.Cells { return at(m.Switch) }, t.proceed)
	app.Handle(a, func(m app.Timer) app.Cells { return at(m.Switch) }, t.changed)
	return a
}

func (t *tenants) linkUp(tx *app.Tx, l topology.LinkUp) error {
	t.links.Put(tx, all, l.From, l.To)
	return t.change(tx)
}

func (t *tenants) linkDown(tx *app.Tx, m topology.LinkDown) error {
	for _, l := range m.Links {
		t.links.Delete(tx, all, l.From)
	}
	return t.change(tx)
}

// joined adds a switch that is up and has no entries.
func (t *tenants) joined(tx *app.Tx, m joined) error {
	n, known := 0, false
	for id := range t.members.All(tx, all) {
		n++
		known = known || id == m.Switch
	}
	if !known && n >= MaxSwitches {
		return nil
	}
	p, _ := t.progress.Get(tx, all)
	t.members.Put(tx, all, m.Switch, member{Up: true, Epoch: m.Epoch, Since: p.Wanted + 1})
	return t.change(tx)
}

func (t *tenants) left(tx *app.Tx, m left) error {
	was, known := t.members.Get(tx, all, m.Switch)
	if !known {
		return nil
	}
	t.members.Put(tx, all, m.Switch, member{})
	if p, _ := t.progress.Get(tx, all); was.Waits && p.Phase == withdraw {
		p.Broken = true
		t.progress.Put(tx, all, p)
	}
	if err := t.advance(tx); err != nil {
		return err
	}
	return t.change(tx)
}

func (t *tenants) switchForgotten(tx *app.Tx, m app.SwitchForgotten) error {
	if _, known := t.members.Get(tx, all, m.Switch); !known {
		return nil
	}
	t.members.Delete(tx, all, m.Switch)
	return errors.Join(t.advance(tx), t.change(tx))
}

// change begins to bring the network to what the tables say, when the change before it is done.
func (t *tenants) change(tx *app.Tx) error {
	p, _ := t.progress.Get(tx, all)
	p.Wanted++
	t.progress.Put(tx, all, p)
	if p.Phase != idle {
		return nil
	}
	return t.begin(tx)
}

// begin sends switches what they are to have, of which they first remove what they are not to have.
func (t *tenants) begin(tx *app.Tx) error {
	p, _ := t.progress.Get(tx, all)
	p.Doing, p.Phase = p.Wanted, withdraw
	t.progress.Put(tx, all, p)
	programs, err := t.network(tx).programs()
	if err != nil {
		return err
	}
	for id, m := range t.members.All(tx, all) {
		entries, digest := encode(programs[id])
		if !m.Up || string(m.Program) == string(digest) {
			continue
		}
		m.Program, m.Round, m.Waits = digest, p.Doing, true
		t.members.Put(tx, all, id, m)
		if err := app.Emit(tx, program{id, m.Epoch, p.Doing, entries}); err != nil {
			return err
		}
	}
	return t.advance(tx)
}

// confirmed notes that a switch has done its part.
func (t *tenants) confirmed(tx *app.Tx, c confirmed) error {
	p, _ := t.progress.Get(tx, all)
	m, _ := t.members.Get(tx, all, c.Switch)
	if !m.Waits || m.Epoch != c.Epoch || p.Doing != c.Round || p.Phase != c.Phase {
		return nil
	}
	if m.Waits, m.Refused = false, c.Refused; m.Refused != "" {
		m.Program = nil // so that the next change tries again
	}
	t.members.Put(tx, all, c.Switch, m)
	return t.advance(tx)
}

// advance goes on when no switch has anything left to do.
func (t *tenants) advance(tx *app.Tx) error {
	p, _ := t.progress.Get(tx, all)
	down := false
	for _, m := range t.members.All(tx, all) {
		if m.Waits {
			return nil
		}
		down = down || !m.Up
	}
	switch {
	case p.Phase == withdraw && p.Broken:
		return t.abandon(tx)
	case p.Phase == withdraw:
		p.Phase = install
		t.progress.Put(tx, all, p)
		for id, m := range t.members.All(tx, all) {
			if !m.Up || m.Round != p.Doing {
				continue
			}
			m.Waits = true
			t.members.Put(tx, all, id, m)
			if err := app.Emit(tx, proceed{id, m.Epoch, p.Doing}); err != nil {
				return err
			}
		}
		return t.advance(tx)
	case p.Phase == install:
		p.Phase, p.Done = idle, p.Doing
		t.progress.Put(tx, all, p)
		for tag, gone := range t.tags.All(tx, all) {
			if gone && !down && p.Done == p.Wanted {
				t.tags.Delete(tx, all, tag)
			}
		}
		if p.Wanted > p.Doing {
			return t.begin(tx)
		}
	}
	return nil
}

// abandon ends a change before its entries are installed, and begins the one after it. A switch that left forwards by
// entries of the network before: with those of this change, which leads frames through it, they would make loops.
func (t *tenants) abandon(tx *app.Tx) error {
	p, _ := t.progress.Get(tx, all)
	p.Phase, p.Broken = idle, false
	t.progress.Put(tx, all, p)
	for id, m := range t.members.All(tx, all) {
		if m.Round == p.Doing {
			m.Program = nil
			t.members.Put(tx, all, id, m)
		}
	}
	if p.Wanted > p.Doing {
		return t.begin(tx)
	}
	return nil
}

// network returns what the tables say.
func (t *tenants) network(tx *app.Tx) *network {
	n := &network{}
	for id, m := range t.members.All(tx, all) {
		if m.Up {
			n.switches = append(n.switches, id)
		}
	}
	for from, to := range t.links.All(tx, all) {
		n.links = append(n.links, topology.Link{From: from, To: to})
	}
	tags := map[string]uint16{}
	for name, row := range t.tenants.All(tx, all) {
		tags[name] = row.Tag
	}
	for key, h := range t.hosts.All(tx, all) {
		name, mac := place(key).split()
		n.hosts = append(n.hosts, attached{tags[name], mac, h.At, h.VLAN})
	}
	return n
}
