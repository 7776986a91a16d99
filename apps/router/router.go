// Package router is a router for IPv4 and IPv6 at one switch; several switches are several routers. It answers and asks
// with ARP and neighbour discovery, answers echo requests to its addresses, and sends ICMP errors: time exceeded,
// unreachable network, host and port. It forwards by the longest prefix of subnets and static routes. The first packet
// to a destination installs a flow entry, which the others follow without the controllers. When a neighbour is silent,
// or the configuration changes, its entries are removed.
//
// All state belongs to the switch, and lives in its group. The router handles frames without VLAN. It has no routing
// protocol, sends no redirects or router advertisements, does not fragment, and does not limit its ICMP errors. Ports
// of an interface are a hub to each other; ports without an interface are not used.
//
// Before an application that forwards between switches, such as recovery, it handles the packets for its Ethernet
// addresses only, gives them the addresses of the next hop, and passes them on, as it does with all others. Then the
// hosts of a subnet are anywhere in the network, package edge finds them, and several switches may be one router.
//
//	PUT, GET /apps/router/{switch}: a Config; {} ends the router
package router

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/edge"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Name is the name of the application.
const Name = "router"

// Cookie is that of all flow entries of this package, in the upper half. The lower half is a number of the neighbour to
// which the entry sends, or 0.
const Cookie uint64 = 0x68667274 << 32 // "hfrt"

const ownEntries, every uint64 = 0xffffffff << 32, 0xffffffffffffffff // masks of cookies

const (
	// Fresh is how long a neighbour is used that says nothing. Then it is asked every second, Tries times.
	Fresh, Tries = time.Minute, 3

	// MaxNeighbours bounds those of a router. Further ones are not learned, and packets to them are dropped. When a
	// packet needs a new one, each that has not answered yet counts as waitingCost: so at most 64 packets are held.
	MaxNeighbours = 1024
	waitingCost   = 16

	// The one packet that waits for a neighbour has at most so many bytes; longer ones are dropped. Flow entries that
	// are not used go after so many seconds.
	maxHeld, idleTimeout = 2048, 300
)

// The priorities of the flow entries: to the ports of an interface, of ARP and neighbour discovery, to the router, and
// through it.
const priorityHub, priorityAsk, priorityRouter, priorityFlow = 80, 81, 82, 83

// solicited is what the Ethernet addresses begin with to which IPv6 hosts ask for their neighbours (RFC 4861).
var solicited, prefix = app.MAC{0x33, 0x33, 0xff}, app.MAC{0xff, 0xff, 0xff}

// neighbour is a host that the router sends to, or asks for.
type neighbour struct {
	MAC    app.MAC
	Port   app.Port
	Number uint32 // of its flow entries; 0: it has not answered yet
	Tries  int    // requests since it was heard of
	Held   []byte // the last packet that waits for it
	In     app.Port
}

type router struct {
	configs    app.Table[app.Switch, Config]
	neighbours app.Map[app.Switch, string, neighbour] // by address
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	r := &router{app.NewTable[app.Switch, Config](a, "configs"),
		app.NewMap[app.Switch, string, neighbour](a, "neighbours")}
	at := func(id app.Switch) app.Cells { return app.Need(r.configs.Cell(id), r.neighbours.Cell(id)) }
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, r.switchUp)
	app.Handle(a, func(m app.PacketIn) app.Cells { return at(m.Switch) }, r.packetIn)
	app.Handle(a, func(m app.Timer) app.Cells { return at(m.Switch) }, r.timer)
	app.HandleEmitted(a, func(m edge.Sought) app.Cells { return at(m.Switch) }, r.sought)
	requests := func(q app.Request) app.Cells { return at(app.SwitchOf(q)) }
	app.HandleHTTP(a, "GET /{switch}", requests, r.get)
	app.HandleHTTP(a, "PUT /{switch}", requests, r.put)
	return a
}

// switchUp has a switch forward as its configuration says. Entries for neighbours are installed when they are used.
func (r *router) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.Send(up.Switch, &of13.SetAsync{PacketIn: [2]uint32{7, 7}, PortStatus: [2]uint32{7, 7},
		FlowRemoved: [2]uint32{15, 15}}) // all, so packets with an expired TTL too
	remove(tx, up.Switch, 0, ownEntries)
	tx.Send(up.Switch, &of13.BarrierRequest{})
	tx.PassOn(up.Switch)
	c, _ := r.configs.Get(tx, up.Switch)
	for _, i := range c.Interfaces {
		hub := of13.Actions(nil).Outputs(i.Ports...) // a switch does not send back by the ingress port
		router := of13.Actions(nil).Outputs(of13.PortController)
		for _, p := range i.Ports {
			m := of13.Match(nil).WithInPort(p)
			install(tx, up.Switch, of13.FlowMod{Priority: priorityRouter, Match: m.WithEthDst(app.MAC(i.MAC))}, router)
			if tx.Next() > 0 { // the next application brings ARP and neighbour discovery to the controllers
				continue
			}
			install(tx, up.Switch, of13.FlowMod{Priority: priorityHub, Match: m}, hub)
			ask := of13.FlowMod{Priority: priorityAsk, Match: m.WithEthType(packet.ARP)}
			install(tx, up.Switch, ask, append(hub, router...))
			ask.Match = m.WithEthDstMasked(solicited, prefix)
			install(tx, up.Switch, ask, append(hub, router...))
		}
	}
	return nil
}

func install(tx *app.Tx, id app.Switch, e of13.FlowMod, actions of13.Actions) {
	e.Cookie, e.BufferID, e.Instructions = e.Cookie|Cookie, of13.NoBuffer, e.Instructions.Apply(actions)
	tx.FlowMod(id, e)
}

// remove removes the flow entries whose cookie is that of a neighbour where mask has ones.
func remove(tx *app.Tx, id app.Switch, number uint32, mask uint64) {
	tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, Cookie: Cookie | uint64(number), CookieMask: mask,
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
}

// send sends a frame, if there is one.
func send(tx *app.Tx, id app.Switch, in app.Port, frame []byte, actions of13.Actions) {
	if frame != nil {
		tx.PacketOut(id, of13.PacketOut{BufferID: of13.NoBuffer, InPort: in, Data: frame, Actions: actions})
	}
}

func (r *router) packetIn(tx *app.Tx, in app.PacketIn) error {
	c, _ := r.configs.Get(tx, in.Switch)
	i := c.at(in.InPort)
	if i == nil {
		return nil
	}
	if n, ok := packet.ParseNeighbour(in.Data); ok {
		return r.heard(tx, &in, &c, i, n)
	}
	p, ok := packet.ParseIP(in.Data)
	if !ok || p.Dst != app.MAC(i.MAC) {
		return nil
	}
	next, block, ok := c.lookup(p.To)
	var reply []byte
	switch {
	case c.own(p.To):
		reply = p.Local()
	case !forwards(p.From) || !forwards(p.To):
		return nil
	case p.TTL <= 1:
		reply = p.Error(packet.TimeExceeded, c.source(p.From))
	case !ok:
		reply = p.Error(packet.NoRoute, c.source(p.From))
	default:
		m := of13.Match(nil).WithInPort(in.InPort).WithEthDst(p.Dst).WithNoVLAN()
		return r.forward(tx, &in, &c, next, packet.To(m, block))
	}
	send(tx, in.Switch, of13.PortController, reply, of13.Actions(nil).Outputs(in.InPort))
	return nil
}

// forward sends a packet to its next hop, and has the switch do so with others that match.
func (r *router) forward(tx *app.Tx, in *app.PacketIn, c *Config, next netip.Addr, m of13.Match) error {
	n, known := r.neighbours.Get(tx, in.Switch, next.String())
	if n.Number > 0 {
		c.follow(tx, in, next, &n, m)
		c.release(tx, in.Switch, next, &n, in.InPort, in.Data)
		return nil
	}
	if !known && !r.room(tx, in.Switch, waitingCost) {
		return nil
	}
	if len(in.Data) <= maxHeld {
		n.Held, n.In = in.Data, in.InPort // an earlier packet is dropped
	}
	if !known {
		return r.ask(tx, in.Switch, c, next, n)
	}
	r.neighbours.Put(tx, in.Switch, next.String(), n)
	return nil
}

// actions returns what a switch does with a packet to a neighbour.
func (c *Config) actions(next netip.Addr, n *neighbour, in app.Port) of13.Actions {
	i, _ := c.interfaceOf(next)
	return packet.Forward(in, app.MAC(i.MAC), n.MAC, n.Port)
}

// room reports whether one more neighbour is possible, if those that have not answered count as some.
func (r *router) room(tx *app.Tx, id app.Switch, waiting int) bool {
	left := MaxNeighbours
	for _, n := range r.neighbours.All(tx, id) {
		if left--; n.Number == 0 {
			left -= waiting - 1
		}
	}
	return left > 0
}

// ask asks for a neighbour, by its port if that is known.
func (r *router) ask(tx *app.Tx, id app.Switch, c *Config, a netip.Addr, n neighbour) error {
	i, source := c.interfaceOf(a)
	ports, request := i.Ports, packet.Ask(app.MAC(i.MAC), source, a)
	if n.Number > 0 {
		ports = []app.Port{n.Port}
	}
	n.Tries++
	r.neighbours.Put(tx, id, a.String(), n)
	err := tx.SetTimer(a.String(), time.Second, nil)
	if tx.Next() > 0 {
		return errors.Join(err, app.Emit(tx, edge.Seek{Switch: id, Address: a, Request: request}))
	}
	send(tx, id, of13.PortController, request, of13.Actions(nil).Outputs(ports...))
	return err
}

// heard learns from a message of a neighbour: if it asks for the router, or the router knows it or has asked for it.
func (r *router) heard(tx *app.Tx, in *app.PacketIn, c *Config, i *Interface, m packet.Neighbour) error {
	asked := false
	if at, source := c.interfaceOf(m.Asks); at == i && source == m.Asks {
		asked = true
		send(tx, in.Switch, of13.PortController, m.Reply(app.MAC(i.MAC)), of13.Actions(nil).Outputs(in.InPort))
	}
	n, known := r.neighbours.Get(tx, in.Switch, m.From.String())
	if at, source := c.interfaceOf(m.From); at != i || source == m.From || m.MAC == (app.MAC{}) ||
		!known && (!asked || !r.room(tx, in.Switch, 1)) {
		return nil
	}
	return r.learn(tx, in.Switch, c, m.From, n, m.MAC, in.InPort)
}

// learn notes the address and the port of a neighbour, and sends the packet that waits.
func (r *router) learn(tx *app.Tx, id app.Switch, c *Config, a netip.Addr, n neighbour, mac app.MAC, p app.Port) error {
	if n.MAC != mac || n.Port != p { // it is new, or has moved
		if n.Number > 0 {
			remove(tx, id, n.Number, every)
		}
		n.Number = rand.Uint32() | 1
	}
	held := n.Held
	n.MAC, n.Port, n.Tries, n.Held = mac, p, 0, nil
	r.neighbours.Put(tx, id, a.String(), n)
	c.release(tx, id, a, &n, n.In, held)
	return tx.SetTimer(a.String(), Fresh, nil)
}

// timer asks for a neighbour that has said nothing for a while, or gives it up.
func (r *router) timer(tx *app.Tx, t app.Timer) error {
	c, _ := r.configs.Get(tx, t.Switch)
	n, known := r.neighbours.Get(tx, t.Switch, t.Name)
	switch {
	case !known:
		return nil
	case n.Tries < Tries:
		return r.ask(tx, t.Switch, &c, netip.MustParseAddr(t.Name), n)
	case n.Number > 0:
		remove(tx, t.Switch, n.Number, every)
	}
	if p, ok := packet.ParseIP(n.Held); ok {
		why := p.Error(packet.HostUnreachable, c.source(p.From))
		send(tx, t.Switch, of13.PortController, why, of13.Actions(nil).Outputs(n.In))
	}
	r.neighbours.Delete(tx, t.Switch, t.Name)
	return nil
}

func (r *router) get(tx *app.Tx, q app.Request) (app.Response, error) {
	c, there := r.configs.Get(tx, app.SwitchOf(q))
	return app.JSON(c, there)
}

// put replaces the configuration of a switch, and forgets its neighbours.
func (r *router) put(tx *app.Tx, q app.Request) (app.Response, error) {
	id := app.SwitchOf(q)
	c, err := parse(q)
	if err != nil {
		return app.BadRequest(err)
	}
	r.configs.Put(tx, id, c)
	for address := range r.neighbours.All(tx, id) {
		r.neighbours.Delete(tx, id, address)
		tx.CancelTimer(address)
	}
	return app.Response{Status: http.StatusNoContent}, r.switchUp(tx, app.SwitchUp{Switch: id})
}
