package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

type (
	whereIs struct{ Host string }
	isAt    struct {
		Host string
		Port app.Port
	}
)

// A reply reaches the actor that has emitted the message, and no other, in the same group or in another one.
func TestReply(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		hosts := app.New("hosts")
		at := app.NewTable[string, app.Port](hosts, "at", app.Sharded)
		app.HandleEmitted(hosts, func(m whereIs) app.Cells { return app.Need(at.Cell(m.Host)) },
			func(tx *app.Tx, m whereIs) error {
				port, _ := at.Get(tx, m.Host)
				at.Put(tx, m.Host, port+1)
				return tx.Reply(isAt{m.Host, port + 1})
			})
		// Another application hears no reply, although it handles the type.
		other := app.New("other")
		var got, overheard []string
		app.HandleReply(other, nil, func(_ *app.Tx, m isAt) error {
			overheard = append(overheard, m.Host)
			return nil
		})
		app.HandleEmitted(other, nil, func(_ *app.Tx, m isAt) error {
			overheard = append(overheard, m.Host)
			return nil
		})
		asks := app.New("asks")
		per := app.NewTable[app.Switch, uint64](asks, "per")
		app.Handle(asks, func(in app.PacketIn) app.Cells { return app.Need(per.Cell(in.Switch)) },
			func(tx *app.Tx, in app.PacketIn) error {
				per.Put(tx, in.Switch, uint64(in.InPort))
				return app.Emit(tx, whereIs{string(in.Data)})
			})
		for id := app.Switch(1); id <= 3; id++ {
			app.HandleReply(asks, nil, func(tx *app.Tx, m isAt) error {
				if id == 1 { // one handler suffices
					tx.PacketOut(app.Switch(len(m.Host)), of13.PacketOut{InPort: m.Port})
					got = append(got, fmt.Sprint(m.Host, m.Port))
				}
				return nil
			})
		}
		n := apptest.NewOf(t, groups, other, hosts, asks)
		var sent []app.Switch
		for id := app.Switch(1); id <= 3; id++ {
			n.SwitchUp(id)
		}
		for id := app.Switch(1); id <= 3; id++ {
			for _, s := range n.PacketIn(id, 1, of13.NoBuffer, "abc"[:id]) {
				sent = append(sent, s.Switch)
			}
		}
		if !slices.Equal(got, []string{"a1", "ab1", "abc1"}) || !slices.Equal(sent, []app.Switch{1, 2, 3}) ||
			len(overheard) > 0 {
			t.Errorf("%d groups: replies %v, commands to %v, overheard %v", groups, got, sent, overheard)
		}
	}
}

// A reply that is handled with the cells of another actor fails, and one to a switch too.
func TestReplyFails(t *testing.T) {
	a := app.New("a")
	per := app.NewTable[app.Switch, uint64](a, "per")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		if in.InPort == 1 {
			return tx.Reply(isAt{})
		}
		return app.Emit(tx, whereIs{})
	})
	app.HandleEmitted(a, nil, func(tx *app.Tx, m whereIs) error { return tx.Reply(isAt{}) })
	app.HandleReply(a, func(isAt) app.Cells { return app.Need(per.Cell(7)) }, func(*app.Tx, isAt) error { return nil })
	b := newBench(t, a)
	b.event(switchUp())
	b.fine()
	for port, want := range map[app.Port]string{1: "no application has sent", 2: "another actor (per[7])"} {
		b.event(packetIn(port, ""))
		if f := b.failures(); !strings.Contains(f, want) {
			t.Errorf("port %d: %q, want %q", port, f, want)
		}
	}
}

// What an aborted part of a handler did is undone, and the rest takes effect.
func TestTry(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		no := errors.New("no")
		a := app.New("a")
		per := app.NewTable[app.Switch, string](a, "per")
		var emitted []whereIs
		var rang []string
		app.HandleEmitted(a, nil, func(_ *app.Tx, m whereIs) error {
			emitted = append(emitted, m)
			return nil
		})
		app.Handle(a, nil, func(_ *app.Tx, m app.Timer) error {
			rang = append(rang, m.Name)
			return nil
		})
		app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(per.Cell(in.Switch)) },
			func(tx *app.Tx, in app.PacketIn) error {
				do := func(s string, result error) func() error {
					return func() error {
						old, _ := per.Get(tx, in.Switch)
						per.Put(tx, in.Switch, old+s)
						for id := app.Switch(1); id <= 2; id++ {
							tx.PacketOut(id, of13.PacketOut{Data: []byte(s)})
						}
						return errors.Join(result, tx.SetTimer(s, 1, nil), app.Emit(tx, whereIs{s}))
					}
				}
				_ = do("a", nil)()
				if err := tx.Try(do("b", no)); !errors.Is(err, no) {
					t.Errorf("aborted with %v", err)
				}
				if err := tx.Try(func() error {
					_ = do("c", nil)()
					_ = tx.Try(do("d", no))
					return do("e", nil)()
				}); err != nil {
					t.Errorf("committed with %v", err)
				}
				return do("f", nil)()
			})
		n := apptest.NewOf(t, groups, a)
		n.SwitchUp(1)
		n.SwitchUp(2)
		frames := map[app.Switch]string{}
		for _, s := range n.PacketIn(1, 1, of13.NoBuffer, "") {
			frames[s.Switch] += string(s.Message.(*of13.PacketOut).Data)
		}
		n.Advance(1000)
		if fmt.Sprint(emitted, rang, frames) != "[{a} {c} {e} {f}] [a c e f] map[0000000000000001:acef "+
			"0000000000000002:acef]" {
			t.Errorf("%d groups: emitted %v, timers %v, commands %v", groups, emitted, rang, frames)
		}
		if rows := n.Rows("a"); len(rows) != 1 || string(rows[0].Value) != "acef" {
			t.Errorf("%d groups: rows %v", groups, rows)
		}
	}
}
