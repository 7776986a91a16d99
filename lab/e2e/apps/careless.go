package apps

import (
	"bytes"
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// What careless sends with each packet, in which the switch is to find a mistake.
const (
	CarelessMatch = "match" // an address of IPv4 in what need not be IPv4
	CarelessGroup = "group" // a group that is not there
	CarelessFull  = "full"  // an entry for CarelessTable, if that is full
	CarelessTable = 7
)

// CarelessFlows is the EtherType of the flows that it adds.
const CarelessFlows = 0x9001

// NewCareless answers a packet whose text is one of these mistakes with three flows for switch 1, the second of them
// bad, and one for switch 2. What it hears of refusals it has switch 2 send out: the mistake, and the type and code of
// the error; "not mine" if that is not about the bad command.
func NewCareless() *app.App {
	a := app.New("careless")
	bad := app.NewMap[string, uint32, string](a, "bad") // mistakes by xid
	cell := app.Need(bad.Cell("commands"))
	app.Handle(a, func(app.PacketIn) app.Cells { return cell }, func(tx *app.Tx, in app.PacketIn) error {
		mistake := string(bytes.TrimRight(in.Data[14:], "\x00"))
		good := flow(1, of13.Match(nil).WithEthType(CarelessFlows), 1)
		m := flow(2, of13.Match(nil).WithEthType(CarelessFlows), 1)
		switch mistake {
		case CarelessMatch:
			m.Match = of13.Match(nil).WithIPv4Src([4]byte{10}, [4]byte{255})
		case CarelessGroup:
			m.Instructions = of13.Instructions(nil).Apply(of13.Actions(nil).Group(77))
		case CarelessFull:
			m.TableID = CarelessTable
		}
		tx.FlowMod(1, good)
		bad.Put(tx, "commands", tx.FlowMod(1, m), mistake)
		good.Priority = 3
		tx.FlowMod(1, good)
		tx.FlowMod(2, good)
		return nil
	})
	app.Handle(a, func(app.Refused) app.Cells { return cell }, func(tx *app.Tx, r app.Refused) error {
		text := "not mine"
		if mistake, ok := bad.Get(tx, "commands", r.XID); ok && len(r.Command) > openflow.HeaderLen &&
			openflow.XID(r.Command) == r.XID {
			text = fmt.Sprintf("%s %d %d", mistake, r.ErrType, r.Code)
		}
		tx.PacketOut(2, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
			Actions: of13.Actions(nil).Output(1, 0),
			Data:    append(make([]byte, 14), text...)})
		return nil
	})
	return a
}
