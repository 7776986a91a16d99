package apps

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The network of the rerouter is a triangle. What comes to switch 1 is for the host at switch 2: port 2
// leads there directly, port 3 by way of switch 3.
const (
	ReroutePrimary = app.Port(2)
	RerouteBackup  = app.Port(3)
)

// NewRerouter sends packets the direct way as long as its link is up, else by the other (Ravana, figure 2b).
func NewRerouter() *app.App {
	const source = app.Switch(1)
	onward := map[app.Switch]app.Port{source: ReroutePrimary, 2: 1, 3: 3}
	a := app.New("rerouter")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, flow(1, nil, onward[up.Switch]))
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, s app.PortStatus) error {
		if s.Switch != source || s.Port.Port != ReroutePrimary {
			return nil
		}
		out := RerouteBackup
		if s.Reason != of13.PortDelete && s.Port.Up() {
			out = ReroutePrimary
		}
		tx.FlowMod(source, flow(1, nil, out))
		return nil
	})
	return a
}
