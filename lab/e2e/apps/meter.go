package apps

import (
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// NewMeter counts the packets of each switch in an actor of its own, and returns each packet to its switch with the
// count behind it. All actors begin in the first group, wherever their switches are, so that there is something to
// optimize.
func NewMeter() *app.App {
	a := app.New("meter")
	match := of13.Match(nil).WithEthType(counterType)
	counts := app.NewTable[uint64, uint64](a, "counts", app.Sharded)
	app.Place(a, func(_ uint64, groups []app.Group) app.Group { return slices.Min(groups) })
	of := func(sw app.Switch) app.Cells { return app.Need(counts.Cell(uint64(sw))) }
	app.Handle(a, func(up app.SwitchUp) app.Cells { return of(up.Switch) }, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, Match: match, BufferID: of13.NoBuffer})
		return nil
	})
	app.Handle(a, func(in app.PacketIn) app.Cells { return of(in.Switch) }, func(tx *app.Tx, in app.PacketIn) error {
		n, _ := counts.Get(tx, uint64(in.Switch))
		counts.Put(tx, uint64(in.Switch), n+1)
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
			Actions: of13.Actions(nil).Output(1, 0), Data: binary.BigEndian.AppendUint64(in.Data, n+1)})
		return nil
	})
	return a
}
