package router

import (
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/edge"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// How packets leave the router: by a port, or to the next application, which forwards.

// follow has a switch do with packets to a neighbour what release does with one.
func (c *Config) follow(tx *app.Tx, in *app.PacketIn, next netip.Addr, n *neighbour, m of13.Match) {
	e := of13.FlowMod{Cookie: uint64(n.Number), Priority: priorityFlow, IdleTimeout: idleTimeout, Match: m}
	if pass := tx.Next(); pass > 0 {
		e.Instructions = e.Instructions.Goto(pass)
		install(tx, in.Switch, e, c.readdress(next, n))
		return
	}
	install(tx, in.Switch, e, c.actions(next, n, in.InPort))
}

// readdress returns how a switch changes a packet to a neighbour that the next application forwards.
func (c *Config) readdress(next netip.Addr, n *neighbour) of13.Actions {
	i, _ := c.interfaceOf(next)
	return packet.Readdress(app.MAC(i.MAC), n.MAC)
}

// release sends a packet to a neighbour. If the next application forwards, the packet enters the switch again: all who
// decide about packets see it with its new addresses, and none takes it for one to the router.
func (c *Config) release(tx *app.Tx, id app.Switch, next netip.Addr, n *neighbour, in app.Port, data []byte) {
	if tx.Next() > 0 {
		send(tx, id, in, data, c.readdress(next, n).Output(of13.PortTable, 0))
		return
	}
	send(tx, id, in, data, c.actions(next, n, in))
}

// sought learns the address of a host that package edge has found. Its port is the business of the next application.
func (r *router) sought(tx *app.Tx, m edge.Sought) error {
	c, _ := r.configs.Get(tx, m.Switch)
	n, known := r.neighbours.Get(tx, m.Switch, m.Address.String())
	if !known {
		return nil
	}
	return r.learn(tx, m.Switch, &c, m.Address, n, m.MAC, n.Port)
}
