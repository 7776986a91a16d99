// Package hub is the smallest application: it floods every packet. It keeps no state and installs no flow entries, so
// every packet takes the control path, which is useful for demonstrations. It does nothing without a majority, so that
// each packet is flooded exactly once. It is not for networks with loops.
package hub

import "github.com/holdfast-sdn/holdfast/app"

// New returns the application.
func New() *app.App {
	a := app.New("hub")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.TableMiss(up.Switch)
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		tx.Flood(in)
		return nil
	})
	return a
}
