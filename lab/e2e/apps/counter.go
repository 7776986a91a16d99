// Package apps holds the applications of the end-to-end tests. Only builds with the tag
// crashpoints have them; they show what a lost or repeated event or command would do, and
// are not meant for networks.
package apps

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// CounterCommands is how many commands each switch gets for each packet.
const CounterCommands = 3

// counterType is the EtherType of the flows: not that of the packets of tests, so that those go on coming.
const counterType = 0x9000

// NewCounter counts packets in a table, and tells every switch each count: forget its
// flows, add one flow whose cookie is the count, send out the packet with the count behind it.
// Executed twice, left out or in another order, these leave other traces.
func NewCounter() *app.App {
	a := app.New("counter")
	match := of13.Match(nil).WithEthType(counterType)
	counts := app.NewTable[string, uint64](a, "counts")
	cell := app.Need(counts.Cell("packets"))
	app.Handle(a, func(app.PacketIn) app.Cells { return cell }, func(tx *app.Tx, in app.PacketIn) error {
		n, _ := counts.Get(tx, "packets")
		n++
		counts.Put(tx, "packets", n)
		for sw := range tx.Switches() {
			tx.FlowMod(sw, of13.FlowMod{Command: of13.FlowDelete, Match: match, BufferID: of13.NoBuffer,
				OutPort: of13.PortAny, OutGroup: of13.GroupAny})
			tx.FlowMod(sw, of13.FlowMod{Command: of13.FlowAdd, Match: match, BufferID: of13.NoBuffer, Cookie: n})
			tx.PacketOut(sw, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
				Actions: of13.Actions(nil).Output(1, 0), Data: binary.BigEndian.AppendUint64(in.Data, n)})
		}
		return nil
	})
	return a
}
