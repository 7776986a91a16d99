// Package exchange is an application of which one actor handles everything: it knows where each host of the network is,
// and sends every packet to the switch of its destination. With a group for each controller, a packet goes from the
// group of the switch that received it to the group of the actor, and from there to the group of the switch that sends
// it out. So it is for tests and measurements of streams between groups.
//
// It is not for real networks: all packets pass one actor, and it ignores other EtherTypes than its own.
package exchange

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is the name of the application.
const Name = "exchange"

// EtherType is that of the packets that switches send to the controllers: the one for local experiments (IEEE 802),
// which no kernel answers.
const EtherType = 0x88b5

// network is the key of the only cell. It is not a switch, so the cell belongs to the actor of the whole application.
const network = uint64(0)

// New returns the application. A host is known once it has sent a packet; a packet to an unknown one goes out at every
// port where a host is known, except the one that it came from.
func New() *app.App {
	a := app.New(Name)
	hosts := app.NewMap[uint64, app.MAC, app.PortOf](a, "hosts")
	toController := of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))

	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(hosts.Cell(network)) },
		func(tx *app.Tx, up app.SwitchUp) error {
			tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, Priority: 1, BufferID: of13.NoBuffer,
				Match: of13.Match(nil).WithEthType(EtherType), Instructions: toController})
			return nil
		})
	app.Handle(a, func(app.PacketIn) app.Cells { return app.Need(hosts.Cell(network)) },
		func(tx *app.Tx, in app.PacketIn) error {
			from := app.PortOf{Switch: in.Switch, Port: in.InPort}
			if at, known := hosts.Get(tx, network, in.EthSrc()); !known || at != from {
				hosts.Put(tx, network, in.EthSrc(), from)
			}
			if at, known := hosts.Get(tx, network, in.EthDst()); known {
				send(tx, at, in.Data)
				return nil
			}
			var ports []app.PortOf
			for _, at := range hosts.All(tx, network) {
				if at != from {
					ports = append(ports, at)
				}
			}
			slices.SortFunc(ports, app.PortOf.Compare)
			for _, at := range slices.Compact(ports) {
				send(tx, at, in.Data)
			}
			return nil
		})
	return a
}

// send sends a packet out at a port, also if it came in there: a host may send to itself to be known.
func send(tx *app.Tx, at app.PortOf, packet []byte) {
	tx.PacketOut(at.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: packet,
		Actions: of13.Actions(nil).Output(at.Port, 0)})
}
