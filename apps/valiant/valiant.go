// Package valiant spreads flows over all paths of a network, after L. Valiant's two-phase routing: a flow goes to a
// switch that is chosen at random, and from there to its destination, on shortest paths both times, and without
// visiting a switch twice. It measures no load, and no pattern of traffic is the worst one.
//
// It shows what weaker consistency levels are for (Ravana, section 7.4): the path of a flow is not stored, so
// packet-ins are Unordered, and answered without waiting for the other controllers. A flow that is lost with a leader
// is asked for again by its next packet. Links and hosts are exactly once: package topology finds them, and tells.
//
// It routes packets to one host that topology knows. Package edge carries what hosts use to find each other; packets to
// an unknown host, and other broadcasts, go nowhere.
package valiant

import (
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// IdleTimeout is how long an unused flow stays in a switch, in seconds.
const IdleTimeout = 30

// Cookie is that of all flow entries of this package.
const Cookie uint64 = 0x686676616c // "hfval"

// Entries with ports of TCP or UDP, and those without, which match the same packets and more.
const flowPriority, widePriority = 10, 9

// New returns the application. It needs topology and edge, before it in the list of applications.
func New() *app.App {
	a := app.New("valiant")
	v := &valiant{
		links:   app.NewMap[uint32, app.PortOf, app.PortOf](a, "links"),
		hosts:   app.NewMap[uint32, app.MAC, app.PortOf](a, "hosts"),
		version: app.NewTable[uint32, uint64](a, "version"),
	}
	v.cells = app.Need(v.links.Cell(all), v.hosts.Cell(all), v.version.Cell(all))
	app.Handle(a, func(app.SwitchUp) app.Cells { return v.cells }, v.switchUp)
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return v.cells }, v.linkUp)
	app.HandleEmitted(a, func(topology.LinkDown) app.Cells { return v.cells }, v.linkDown)
	app.HandleEmitted(a, func(topology.HostSeen) app.Cells { return v.cells }, v.hostSeen)
	app.HandleEmitted(a, func(topology.HostGone) app.Cells { return v.cells }, v.hostGone)
	app.Handle(a, func(in app.PacketIn) app.Cells {
		if toMany(&in) {
			return app.Cells{} // so that it stays in the group of the switch
		}
		return v.cells
	}, v.packetIn, app.At(app.Unordered))
	return a
}

// all is the one cell of each table: a path needs the whole network.
const all = 0

type valiant struct {
	links   app.Map[uint32, app.PortOf, app.PortOf] // each direction that topology says is up
	hosts   app.Map[uint32, app.MAC, app.PortOf]
	version app.Table[uint32, uint64] // of links: another number after each change
	cells   app.Cells

	graph   *paths.Graph
	graphOf uint64 // the version that graph was made from
}

// switchUp begins without flows. A switch of OpenFlow 1.0 refuses the deletion, because it cannot tell entries by their
// cookie; there they end by their timeout.
func (v *valiant) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
		Cookie: Cookie, CookieMask: 1<<64 - 1, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	toController := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
	tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, Cookie: Cookie, BufferID: of13.NoBuffer,
		Instructions: of13.Instructions(nil).Apply(toController)})
	return nil
}

func (v *valiant) linkUp(tx *app.Tx, l topology.LinkUp) error {
	v.links.Put(tx, all, l.From, l.To)
	v.changed(tx)
	return nil
}

func (v *valiant) linkDown(tx *app.Tx, m topology.LinkDown) error {
	for _, l := range m.Links {
		v.links.Delete(tx, all, l.From)
		v.deleteFlows(tx, of13.FlowMod{OutPort: l.From.Port}, l.From.Switch)
		v.deleteFlows(tx, of13.FlowMod{OutPort: l.To.Port}, l.To.Switch) // or one that is up is used one way only
	}
	v.changed(tx)
	return nil
}

// changed makes graph of no use, at every controller. The number is random: one that a leader who was
// deposed has counted up to may be reached again, by another way.
func (v *valiant) changed(tx *app.Tx) { v.version.Put(tx, all, rand.Uint64()) }

func (v *valiant) hostSeen(tx *app.Tx, seen topology.HostSeen) error {
	old, known := v.hosts.Get(tx, all, seen.MAC)
	if known && old == seen.At {
		return nil // it has another address
	}
	v.hosts.Put(tx, all, seen.MAC, seen.At)
	if known {
		v.deleteFlowsOf(tx, seen.MAC)
	}
	return nil
}

func (v *valiant) hostGone(tx *app.Tx, gone topology.HostGone) error {
	for _, mac := range gone.Hosts {
		v.hosts.Delete(tx, all, mac)
		v.deleteFlowsOf(tx, mac)
	}
	return nil
}

// deleteFlowsOf deletes the flows to a host, and those from it: they would hide from topology that it is back.
func (v *valiant) deleteFlowsOf(tx *app.Tx, host app.MAC) {
	for id := range tx.Switches() {
		v.deleteFlows(tx, of13.FlowMod{OutPort: of13.PortAny, Match: of13.Match(nil).WithEthDst(host)}, id)
		v.deleteFlows(tx, of13.FlowMod{OutPort: of13.PortAny, Match: of13.Match(nil).WithEthSrc(host)}, id)
	}
}

// deleteFlows deletes the entries of a switch that have the match and the output of m.
func (v *valiant) deleteFlows(tx *app.Tx, m of13.FlowMod, id app.Switch) {
	m.Command, m.TableID, m.BufferID, m.OutGroup = of13.FlowDelete, of13.TableAll, of13.NoBuffer, of13.GroupAny
	tx.FlowMod(id, m)
}

// toMany reports whether a frame is for several hosts, such as those that edge carries, or is a probe.
func toMany(in *app.PacketIn) bool { return in.EthDst()[0]&1 != 0 }

func (v *valiant) packetIn(tx *app.Tx, in app.PacketIn) error {
	if toMany(&in) {
		return nil
	}
	at := app.PortOf{Switch: in.Switch, Port: in.InPort}
	to, known := v.hosts.Get(tx, all, in.EthDst())
	if !known || to == at { // it got there already
		return nil
	}
	g, err := v.network(tx)
	if err != nil {
		return err
	}
	var path []paths.Link
	if _, inside := v.links.Get(tx, all, at); inside {
		// A switch on a path has lost the flow, or has not got it yet: straight on, so that no loop comes about.
		path = shortest(g, in.Switch, to.Switch)
	} else {
		path = detour(g, in.Switch, to.Switch)
	}
	if path != nil || in.Switch == to.Switch {
		v.install(tx, in, path, to)
	}
	return nil
}

// network returns the graph of the links that are up in both directions.
func (v *valiant) network(tx *app.Tx) (*paths.Graph, error) {
	version, _ := v.version.Get(tx, all)
	if v.graph != nil && version == v.graphOf {
		return v.graph, nil
	}
	links := topology.Both(v.links.All(tx, all))
	var switches []app.Switch
	for _, l := range links {
		switches = append(switches, l.From.Switch)
	}
	g, err := paths.NewGraph(switches, links)
	if err != nil {
		return nil, fmt.Errorf("graph of the network: %w", err)
	}
	v.graph, v.graphOf = g, version
	return g, nil
}

// install puts the flow of a packet into the switches of a path, at whose end is a host, and sends the packet along. It
// drops a packet that has no flow.
func (v *valiant) install(tx *app.Tx, in app.PacketIn, path []paths.Link, to app.PortOf) {
	match, priority, ok := matchFlow(in.Data)
	if !ok {
		return
	}
	entry := in.InPort
	forward := func(id app.Switch, out app.Port) {
		if out == entry {
			out = of13.PortInPort // else a switch sends nothing back
		}
		tx.FlowMod(id, of13.FlowMod{Command: of13.FlowAdd, Cookie: Cookie, Priority: priority,
			IdleTimeout: IdleTimeout, BufferID: of13.NoBuffer, Match: match.WithInPort(entry),
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(out, 0))})
	}
	for _, l := range path {
		forward(l.From.Switch, l.From.Port)
		entry = l.To.Port
	}
	forward(to.Switch, to.Port)
	first := to.Port
	if len(path) > 0 {
		first = path[0].From.Port
	}
	tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: in.Data,
		Actions: of13.Actions(nil).Output(first, 0)})
}
