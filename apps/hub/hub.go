// Package hub is the smallest application: every packet that reaches it leaves its switch
// by all ports but the one it came in by. It keeps no state and installs no forwarding, so
// that every packet takes the control path; that is what demonstrations want.
package hub

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// New returns the application.
func New() *app.App {
	a := app.New("hub")
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	toController := of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))

	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer, Instructions: toController})
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		out := of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: flood}
		if in.BufferID == of13.NoBuffer {
			out.Data = in.Data
		}
		tx.PacketOut(in.Switch, out)
		return nil
	})
	return a
}
