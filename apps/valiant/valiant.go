// Package valiant spreads flows over all paths of a network, after L. Valiant's two-phase routing: a flow goes to a
// switch that is chosen at random, and from there to its destination, on shortest paths both times, and without
// visiting a switch twice. No load is measured, and none is worst.
//
// It shows what weaker consistency levels are for (Ravana, section 7.4): which path a flow takes is
// forgotten at once, so packet-ins are Unordered, and answered without waiting for the other controllers. A flow that
// is lost with a leader is asked for again by its next packet. What the topology is, is not: switches
// and ports come and go exactly once.
//
// Links are found by probes, LLDP frames that leave each port when it comes up; a port on which none arrives is at the
// network's edge, and hosts are learned there. Packets to an unknown host leave by all ports of the edge. A
// network of this application has no other switches in it, and trusts its hosts not to forge probes.
package valiant

import (
	"math/rand/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// IdleTimeout is how long an unused flow stays in a switch, in seconds.
const IdleTimeout = 30

const flowPriority = 10

// New returns the application.
func New() *app.App {
	a := app.New("valiant")
	v := &valiant{
		ports:   app.NewMap[uint32, app.PortOf, app.PortOf](a, "ports"),
		hosts:   app.NewMap[uint32, app.MAC, app.PortOf](a, "hosts"),
		version: app.NewTable[uint32, uint64](a, "version"),
	}
	v.cells = app.Need(v.ports.Cell(all), v.hosts.Cell(all), v.version.Cell(all))
	app.Handle(a, func(app.SwitchUp) app.Cells { return v.cells }, v.switchUp)
	app.Handle(a, func(app.SwitchDown) app.Cells { return v.cells }, v.switchDown)
	app.Handle(a, func(app.PortStatus) app.Cells { return v.cells }, v.portStatus)
	app.Handle(a, func(app.Reply) app.Cells { return v.cells }, v.reply)
	app.Handle(a, func(app.PacketIn) app.Cells { return v.cells }, v.packetIn, app.At(app.Unordered))
	return a
}

// all is the one cell of each table: a path needs the whole network.
const all = 0

type valiant struct {
	ports   app.Map[uint32, app.PortOf, app.PortOf] // that are up: the port at the other end, zero at the edge
	hosts   app.Map[uint32, app.MAC, app.PortOf]
	version app.Table[uint32, uint64] // of ports: another number after each change
	cells   app.Cells
	graph   graph // of the version that it was made from
}

// switchUp begins with empty flow tables. It takes the ports as they were when the switch's epoch began, and asks for
// them as they are now.
func (v *valiant) switchUp(tx *app.Tx, up app.SwitchUp) error {
	v.forget(tx, func(p app.PortOf) bool { return p.Switch == up.Switch })
	tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	toController := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
	tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer,
		Instructions: of13.Instructions(nil).Apply(toController)})
	for p := range up.Ports.All() {
		if p.Port <= of13.PortMax && p.Up() {
			v.portUp(tx, app.PortOf{Switch: up.Switch, Port: p.Port})
		}
	}
	tx.Send(up.Switch, &of13.MultipartRequest{Part: of13.PartPortDesc})
	return nil
}

// reply takes the ports that a switch says it has. One that is not among them leads nowhere, and does no harm.
func (v *valiant) reply(tx *app.Tx, r app.Reply) error {
	if r.Part != of13.PartPortDesc {
		return nil
	}
	for p := range r.PortDescs().All() {
		v.note(tx, app.PortOf{Switch: r.Switch, Port: p.Port}, p.Up())
	}
	return nil
}

func (v *valiant) switchDown(tx *app.Tx, down app.SwitchDown) error {
	v.forget(tx, func(p app.PortOf) bool { return p.Switch == down.Switch })
	return nil
}

func (v *valiant) portStatus(tx *app.Tx, s app.PortStatus) error {
	v.note(tx, app.PortOf{Switch: s.Switch, Port: s.Port.Port}, s.Reason != of13.PortDelete && s.Port.Up())
	return nil
}

// note takes it from a switch that a port is up, or not.
func (v *valiant) note(tx *app.Tx, port app.PortOf, up bool) {
	up = up && port.Port <= of13.PortMax
	switch _, known := v.ports.Get(tx, all, port); {
	case up && !known:
		v.portUp(tx, port)
	case !up && known:
		v.forget(tx, func(p app.PortOf) bool { return p == port })
	}
}

// portUp asks by a probe what is at the other end.
func (v *valiant) portUp(tx *app.Tx, port app.PortOf) {
	v.ports.Put(tx, all, port, app.PortOf{})
	v.changed(tx)
	v.output(tx, port, appendProbe(nil, port))
}

// changed makes graph of no use, at every controller. The number is random: one that a leader who was
// deposed has counted up to may be reached again, by another way.
func (v *valiant) changed(tx *app.Tx) { v.version.Put(tx, all, rand.Uint64()) }

// forget removes ports with their links and hosts, and the flows that lead there.
func (v *valiant) forget(tx *app.Tx, gone func(app.PortOf) bool) {
	for port, peer := range v.ports.All(tx, all) {
		if !gone(port) {
			continue
		}
		v.ports.Delete(tx, all, port)
		v.changed(tx)
		v.deleteFlows(tx, port)
		if _, up := v.ports.Get(tx, all, peer); up {
			v.ports.Put(tx, all, peer, app.PortOf{}) // until it goes down too, or a probe comes
			v.deleteFlows(tx, peer)
		}
	}
	for mac, at := range v.hosts.All(tx, all) {
		if gone(at) {
			v.hosts.Delete(tx, all, mac)
		}
	}
}

func (v *valiant) deleteFlows(tx *app.Tx, to app.PortOf) {
	tx.FlowMod(to.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
		OutPort: to.Port, OutGroup: of13.GroupAny})
}

func (v *valiant) packetIn(tx *app.Tx, in app.PacketIn) error {
	at := app.PortOf{Switch: in.Switch, Port: in.InPort}
	peer, up := v.ports.Get(tx, all, at)
	if !up {
		return nil // the port went down meanwhile
	}
	if from, ok := parseProbe(in.Data); ok {
		v.link(tx, at, from)
		return nil
	}
	edge := peer == app.PortOf{}
	if src := in.EthSrc(); edge && src[0]&1 == 0 {
		v.learn(tx, src, at)
	}
	to, known := v.hosts.Get(tx, all, in.EthDst())
	switch {
	case known && to == at: // it got there already
	case known:
		v.route(tx, in, edge, to)
	case edge: // on a link it would be a copy of what has left by all ports already
		v.flood(tx, at, in.Data)
	}
	return nil
}

// link notes a link that a probe has passed.
func (v *valiant) link(tx *app.Tx, a, b app.PortOf) {
	_, up := v.ports.Get(tx, all, b)
	if other, _ := v.ports.Get(tx, all, a); !up || other == b {
		return
	}
	for _, p := range []app.PortOf{a, b} { // which may have had another link
		if old, _ := v.ports.Get(tx, all, p); old != (app.PortOf{}) {
			v.ports.Put(tx, all, old, app.PortOf{})
		}
	}
	v.ports.Put(tx, all, a, b)
	v.ports.Put(tx, all, b, a)
	v.changed(tx)
	for mac, at := range v.hosts.All(tx, all) {
		if at == a || at == b { // learned there before the link was known
			v.hosts.Delete(tx, all, mac)
		}
	}
}

func (v *valiant) learn(tx *app.Tx, host app.MAC, at app.PortOf) {
	old, known := v.hosts.Get(tx, all, host)
	if known && old == at {
		return
	}
	v.hosts.Put(tx, all, host, at)
	if known { // it has moved
		for id := range tx.Switches() {
			tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
				OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: of13.Match(nil).WithEthDst(host)})
		}
	}
}

// route installs a path for the flow of a packet, and sends the packet along.
func (v *valiant) route(tx *app.Tx, in app.PacketIn, edge bool, to app.PortOf) {
	version, _ := v.version.Get(tx, all)
	if version != v.graph.version {
		v.graph = newGraph(version, v.ports.All(tx, all))
	}
	var path []app.PortOf // where it leaves each switch
	if edge {
		path = v.graph.detour(in.Switch, to.Switch)
	} else { // a switch on a path has lost the flow, or has not got it yet: straight on, so that no loop comes about
		path = v.graph.shortest(nil, in.Switch, to.Switch)
	}
	if path == nil && in.Switch != to.Switch {
		return // no way there
	}
	path = append(path, to)
	match := matchFlow(in.Data)
	entry := in.InPort
	for i, out := range path {
		port := out.Port
		if port == entry {
			port = of13.PortInPort // else a switch sends nothing back
		}
		m := of13.FlowMod{Command: of13.FlowAdd, Priority: flowPriority, IdleTimeout: IdleTimeout,
			BufferID: of13.NoBuffer,
			Match:    match.WithInPort(entry), Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(port,
				0))}
		tx.FlowMod(out.Switch, m)
		if i+1 < len(path) {
			peer, _ := v.ports.Get(tx, all, out)
			entry = peer.Port
		}
	}
	v.output(tx, path[0], in.Data)
}

// flood sends a packet to all ports of the edge but the one it came from.
func (v *valiant) flood(tx *app.Tx, from app.PortOf, frame []byte) {
	for port, peer := range v.ports.All(tx, all) {
		if (peer == app.PortOf{}) && port != from {
			v.output(tx, port, frame)
		}
	}
}

func (v *valiant) output(tx *app.Tx, port app.PortOf, frame []byte) {
	tx.PacketOut(port.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: frame,
		Actions: of13.Actions(nil).Output(port.Port, 0)})
}
