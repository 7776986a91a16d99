package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// add is the message that puts a number into a table, and ask the one that asks for all numbers.
type (
	add struct {
		Key   string
		Value uint64
	}
	ask  struct{ Number uint64 }
	sees struct {
		Number uint64
		Keys   []string
	}
)

// adders is an application in which packets "KEY VALUE" add to a table, and packets "?" ask for what actors have. It
// returns what they have seen, one line for each of them.
func adders(cells func(app.Table[string, uint64]) func(ask) app.Cells, options ...app.TableOption) (*app.App,
	*[]string) {
	a := app.New("adders")
	values := app.NewTable[string, uint64](a, "values", options...)
	lines := &[]string{}
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		var m add
		if string(in.Data) == "?" {
			return app.Emit(tx, ask{1})
		}
		if _, err := fmt.Sscan(string(in.Data), &m.Key, &m.Value); err != nil {
			return err
		}
		return app.Emit(tx, m)
	})
	app.HandleEmitted(a, func(m add) app.Cells { return app.Need(values.Cell(m.Key)) },
		func(tx *app.Tx, m add) error {
			v, _ := values.Get(tx, m.Key)
			values.Put(tx, m.Key, v+m.Value)
			return nil
		})
	app.HandleEmitted(a, cells(values), func(tx *app.Tx, m ask) error {
		s := sees{Number: m.Number}
		for k, v := range values.All(tx) {
			s.Keys = append(s.Keys, fmt.Sprint(k, "=", v))
		}
		return app.Emit(tx, s)
	})
	app.HandleEmitted(a, nil, func(_ *app.Tx, s sees) error {
		*lines = append(*lines, strings.Join(s.Keys, " "))
		return nil
	})
	return a, lines
}

// asks returns what actors say of the table in a network of so many groups.
func asks(t *testing.T, groups uint64, a *app.App, lines *[]string, packets ...string) []string {
	t.Helper()
	n := apptest.NewOf(t, groups, a)
	for id := app.Switch(1); id <= 3; id++ {
		n.SwitchUp(id)
	}
	for i, p := range append(packets, "?") {
		n.PacketIn(app.Switch(1+i%3), 1, of13.NoBuffer, p)
	}
	slices.Sort(*lines)
	return *lines
}

// A table with a map function by hand is handled by one actor as a whole, or by each of its actors for itself, or by
// nobody, in one group as in several.
func TestMapFunctions(t *testing.T) {
	packets := []string{"c 1", "a 1", "b 2", "a 3", "d 4"}
	type table = app.Table[string, uint64]
	whole := func(v table) func(ask) app.Cells { return func(ask) app.Cells { return app.Whole(v) } }
	each := func(v table) func(ask) app.Cells { return func(ask) app.Cells { return app.Each(v) } }
	drop := func(v table) func(ask) app.Cells { return func(ask) app.Cells { return app.Drop() } }
	for _, groups := range []uint64{1, 3} {
		for _, c := range []struct {
			name    string
			cells   func(table) func(ask) app.Cells
			options []app.TableOption
			want    []string
		}{
			{"whole", whole, nil, []string{"a=4 b=2 c=1 d=4"}},
			{"each of one", each, nil, []string{"a=4 b=2 c=1 d=4"}},
			{"each of keys", each, []app.TableOption{app.Sharded}, []string{"a=4", "b=2", "c=1", "d=4"}},
			{"each of one bucket", each, []app.TableOption{app.Buckets(1)}, []string{"a=4 b=2 c=1 d=4"}},
			{"each of two buckets", each, []app.TableOption{app.Buckets(2)}, []string{"a=4 b=2 c=1", "d=4"}},
			{"dropped", drop, nil, nil},
		} {
			t.Run(fmt.Sprint(c.name, "/", groups), func(t *testing.T) {
				a, lines := adders(c.cells, c.options...)
				if got := asks(t, groups, a, lines, packets...); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		}
	}
}

// Each of a table that is keyed by switches, or by their ports, is handled at each switch that has cells, with those.
// If the handler fails at one switch, that is undone there alone.
func TestEachSwitch(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := app.New("ports")
		ports := app.NewTable[app.PortOf, uint32](a, "ports")
		rounds := app.NewTable[uint32, uint32](a, "rounds")
		cell := func(in app.PacketIn) app.PortOf { return app.PortOf{Switch: in.Switch, Port: in.InPort} }
		app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(ports.Cell(cell(in))) },
			func(tx *app.Tx, in app.PacketIn) error {
				ports.Put(tx, cell(in), 1)
				return nil
			})
		app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(rounds.Cell(0)) },
			func(tx *app.Tx, up app.SwitchUp) error { return tx.SetTimer("round", time.Second, nil) })
		var seen []string
		app.Handle(a, func(app.Timer) app.Cells { return app.Each(ports) },
			func(tx *app.Tx, _ app.Timer) error {
				for p, n := range ports.All(tx) {
					seen = append(seen, fmt.Sprint(uint64(p.Switch), "/", p.Port, ":", n))
					ports.Put(tx, p, n+1)
				}
				tx.Send(3, &of13.BarrierRequest{})
				return nil
			})
		n := apptest.NewOf(t, groups, a)
		for id := app.Switch(1); id <= 4; id++ {
			n.SwitchUp(id)
		}
		n.PacketIn(1, 7, of13.NoBuffer, "")
		n.PacketIn(1, 8, of13.NoBuffer, "")
		n.PacketIn(3, 7, of13.NoBuffer, "")
		if sent := n.Advance(time.Second); len(sent) != 2 {
			t.Errorf("%d groups: sent %v, want a barrier of each of two switches", groups, sent)
		}
		slices.Sort(seen)
		if want := []string{"1/7:1", "1/8:1", "3/7:1"}; !slices.Equal(seen, want) {
			t.Errorf("%d groups: %v, want %v", groups, seen, want)
		}
	}
}

// What can never be is refused when the application is made, with the handler and the remedy.
func TestContradictions(t *testing.T) {
	for want, make := range map[string]func(a *app.App){
		`the handler of app.Timer at cells_test.go:`: func(a *app.App) {
			sharded := app.NewTable[string, uint64](a, "t", app.Sharded)
			app.Handle(a, func(app.Timer) app.Cells { return app.Whole(sharded) },
				func(*app.Tx, app.Timer) error { return nil })
		},
		`table "t", which is divided by switches: use Each, or make the table Together`: func(a *app.App) {
			t := app.NewMap[app.Switch, uint64, uint64](a, "t")
			app.HandleEmitted(a, func(add) app.Cells { return app.Whole(t) }, func(*app.Tx, add) error { return nil })
		},
		`leave out Sharded`: func(a *app.App) { app.NewTable[app.PortOf, uint64](a, "t", app.Sharded) },
		`0 Buckets`:         func(a *app.App) { app.NewTable[string, uint64](a, "t", app.Buckets(0)) },
		`only a Table can`:  func(a *app.App) { app.NewMap[string, string, uint64](a, "t", app.Buckets(2)) },
	} {
		func() {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), want) {
					t.Errorf("%v, want %q", r, want)
				}
			}()
			make(app.New("a"))
		}()
	}
	a := app.New("fine")
	t1 := app.NewTable[app.Switch, uint64](a, "together", app.Together)
	app.Handle(a, func(app.Timer) app.Cells { return app.Whole(t1) }, func(*app.Tx, app.Timer) error { return nil })
	b := app.New("one").Whole()
	t2 := app.NewTable[string, uint64](b, "sharded", app.Sharded)
	app.Handle(b, func(app.Timer) app.Cells { return app.Whole(t2) }, func(*app.Tx, app.Timer) error { return nil })
}

// A message for each actor that fails in one of them takes effect in all others.
func TestEachFailsAlone(t *testing.T) {
	a := app.New("a")
	values := app.NewTable[string, uint64](a, "values", app.Sharded)
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(values.Cell(string(in.Data))) },
		func(tx *app.Tx, in app.PacketIn) error {
			values.Put(tx, string(in.Data), 1)
			return nil
		})
	app.Handle(a, func(app.PortStatus) app.Cells { return app.Each(values) },
		func(tx *app.Tx, in app.PortStatus) error {
			for k, n := range values.All(tx) {
				values.Put(tx, k, n+1)
				if k == "bad" {
					return fmt.Errorf("as it must")
				}
			}
			return nil
		})
	b := newBench(t, a)
	b.event(switchUp())
	for _, k := range []string{"a", "bad", "c"} {
		b.event(packetIn(1, k))
	}
	b.event((&of13.PortStatus{}).Append(nil, 0))
	if got := b.failures(); got != "as it must" {
		t.Errorf("failures: %q", got)
	}
	var got []string
	rows, err := b.core.Rows("a", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Cell, r.Value[0]))
	}
	slices.Sort(got)
	if want := []string{"a 2", "bad 1", "c 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
