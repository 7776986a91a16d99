// Package hub is the smallest application: it floods every packet. It keeps no state and installs no flow entries, so
// every packet takes the control path, which is useful for demonstrations. It is not for networks with loops.
package hub

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// New returns the application.
func New() *app.App {
	a := app.New("hub")
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)

	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.TableMiss(up.Switch)
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		out := of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: flood}
		if in.BufferID == of13.NoBuffer {
			out.Data = in.Data
		}
		tx.PacketOut(in.Switch, out)
		return nil
	}, app.Degraded())
	return a
}
