package apps

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// NewRedirect has overlapping rules by source address, and replaces them when a packet comes to
// it (Ravana, figure 2c):
//
//	2  10.0.0.21/32  to port 2        3  10.0.0.21/32  to port 2
//	1  10.0.0.0/8    to port 2   →    2  10.0.0.0/16   to port 3
//	                                  1  10.0.0.0/8    to port 2
//
// Done once, 10.0.0.21 never reaches port 3. Done twice, it does: the first command removes the rule
// that keeps it from there.
func NewRedirect() *app.App {
	from := func(addr [4]byte, bits int) of13.Match {
		mask := ^uint32(0) << (32 - bits)
		return of13.Match(nil).WithEthType(0x0800).WithIPv4Src(addr,
			[4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)})
	}
	h1, near, all := from([4]byte{10, 0, 0, 21}, 32), from([4]byte{10}, 16), from([4]byte{10}, 8)
	a := app.New("redirect")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, flow(9, of13.Match(nil).WithEthType(0x88b5), of13.PortController))
		tx.FlowMod(up.Switch, flow(2, h1, 2))
		tx.FlowMod(up.Switch, flow(1, all, 2))
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		tx.FlowMod(in.Switch, of13.FlowMod{Command: of13.FlowDelete, Match: h1, BufferID: of13.NoBuffer,
			OutPort: of13.PortAny, OutGroup: of13.GroupAny})
		tx.FlowMod(in.Switch, flow(3, h1, 2))
		tx.FlowMod(in.Switch, flow(2, near, 3))
		return nil
	})
	return a
}
