package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A handler without cells belongs to the actor of the switch whose message it handles, also if an actor of another
// group has asked for the message. So its timers do too, and say so.
func TestActorOfAnAnswer(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := app.New("asks")
		cells := app.NewTable[uint32, string](a, "cells")
		app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(cells.Cell(0)) },
			func(tx *app.Tx, up app.SwitchUp) error {
				tx.Send(up.Switch, &of13.BarrierRequest{})
				return nil
			})
		app.Handle(a, nil, func(tx *app.Tx, m app.BarrierReply) error { return tx.SetTimer("soon", 1, nil) })
		var rang []app.Switch
		app.Handle(a, nil, func(_ *app.Tx, m app.Timer) error {
			rang = append(rang, m.Switch)
			return nil
		})
		n := apptest.NewOf(t, groups, a)
		for id := app.Switch(1); id <= 3; id++ {
			for _, s := range n.SwitchUp(id) {
				n.Message(id, &of13.BarrierReply{}, s.XID)
			}
		}
		n.Advance(time.Second)
		slices.Sort(rang)
		if !slices.Equal(rang, []app.Switch{1, 2, 3}) {
			t.Errorf("%d groups: timers of switches %v", groups, rang)
		}
	}
}

// The timers of an actor without a switch say that it has none, and those of a switch which it is.
func TestTimersSayTheirSwitch(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := app.New("timers")
		all := app.NewTable[uint32, string](a, "all")
		each := app.NewTable[app.Switch, app.Switch](a, "each")
		app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(all.Cell(0)) },
			func(tx *app.Tx, up app.SwitchUp) error { return tx.SetTimer("", time.Second, nil) })
		app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(each.Cell(in.Switch)) },
			func(tx *app.Tx, in app.PacketIn) error { return tx.SetTimer("", time.Second, nil) })
		var rang []app.Switch
		app.Handle(a, func(m app.Timer) app.Cells { return app.Need(each.Cell(m.Switch)) },
			func(tx *app.Tx, m app.Timer) error {
				each.Put(tx, m.Switch, m.Switch)
				rang = append(rang, m.Switch)
				return nil
			})
		n := apptest.NewOf(t, groups, a)
		n.SwitchUp(1)
		n.SwitchUp(2)
		n.PacketIn(2, 1, of13.NoBuffer, "frame")
		n.Advance(time.Second)
		slices.Sort(rang)
		if !slices.Equal(rang, []app.Switch{0, 2}) {
			t.Errorf("%d groups: timers of switches %v", groups, rang)
		}
	}
}
