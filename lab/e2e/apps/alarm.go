package apps

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// NewAlarm keeps appointments: a packet whose text is "NAME DURATION" sets a timer, "NAME off" cancels it;
// when it is due, the switch that asked sends out a packet with the text "NAME rings".
func NewAlarm() *app.App {
	a := app.New("alarm")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		var name, what string
		if _, err := fmt.Sscan(string(in.Data[14:]), &name, &what); err != nil {
			return err
		}
		if what == "off" {
			tx.CancelTimer(name)
			return nil
		}
		after, err := time.ParseDuration(what)
		if err != nil {
			return err
		}
		return tx.SetTimer(name, after, binary.BigEndian.AppendUint64(nil, uint64(in.Switch)))
	})
	app.Handle(a, nil, func(tx *app.Tx, t app.Timer) error {
		frame := append(make([]byte, 12, 64), 0x88, 0xb5)
		tx.PacketOut(app.Switch(binary.BigEndian.Uint64(t.Data)),
			of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
				Actions: of13.Actions(nil).Output(1, 0), Data: append(frame, t.Name+" rings"...)})
		return nil
	})
	return a
}
