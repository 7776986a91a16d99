package failover

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// burstAt is the offset in a packet of the number of commands that it requests.
const burstAt = 23

// The flows that burst adds: no host sends this EtherType, and their number is bounded.
const (
	burstType  = 0x9000
	burstFlows = 1024
)

// NewBurst returns the application for measuring commands. It answers a packet-in with the requested number of
// commands: flows, which replace each other after a while, and at the end a packet-out that returns the packet.
func NewBurst() *app.App {
	a := app.New("burst")
	counts := app.NewTable[app.Switch, uint64](a, "flows")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, Priority: 1, BufferID: of13.NoBuffer,
			Match: of13.Match(nil).WithEthType(etherType),
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController,
				of13.MaxLenNoBuffer))})
		return nil
	})
	cells := func(in app.PacketIn) app.Cells { return app.Need(counts.Cell(in.Switch)) }
	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		if len(in.Data) <= burstAt {
			return nil
		}
		n, _ := counts.Get(tx, in.Switch)
		for i := byte(1); i < in.Data[burstAt]; i++ {
			var dst of13.MAC
			binary.BigEndian.PutUint16(dst[4:], uint16(n%burstFlows))
			n++
			tx.FlowMod(in.Switch, of13.FlowMod{Command: of13.FlowAdd, Cookie: n, Priority: 1, BufferID: of13.NoBuffer,
				Match: of13.Match(nil).WithEthType(burstType).WithEthDst(dst)})
		}
		counts.Put(tx, in.Switch, n)
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: in.Data,
			Actions: of13.Actions(nil).Output(in.InPort, 0)})
		return nil
	})
	return a
}
