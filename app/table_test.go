package app_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/app"
)

// transact runs f in one transaction of an application with the tables that make adds, and
// then again in a later one, in which what f wrote must be there.
func transact(t *testing.T, f func(a *app.App) (app.Cells, func(tx *app.Tx, again bool))) string {
	t.Helper()
	a := app.New("a")
	cells, do := f(a)
	again := false
	run(cells, func(tx *app.Tx, in app.PacketIn) error { do(tx, again); again = true; return nil })(a)
	b := newBench(t, a)
	b.event(switchUp())
	b.event(packetIn(1, "x"))
	b.event(packetIn(1, "x"))
	return b.failures()
}

func keys[K app.Key](t *testing.T, list ...K) {
	t.Helper()
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table, fields := app.NewTable[K, uint64](a, "t"), app.NewMap[uint64, K, int](a, "m")
		cells := []app.Cell{fields.Cell(1), fields.Cell(2)}
		for _, k := range list {
			cells = append(cells, table.Cell(k))
		}
		return app.Need(cells...), func(tx *app.Tx, again bool) {
			want := map[K]int{}
			for i, k := range list {
				if v, ok := table.Get(tx, k); ok != again || again && v != uint64(i) {
					t.Errorf("%T %v: got %v %v", k, k, v, ok)
				}
				table.Put(tx, k, uint64(i))
				fields.Put(tx, 1, k, -i)
				want[k] = -i
			}
			if got := maps.Collect(fields.All(tx, 1)); !maps.Equal(got, want) {
				t.Errorf("%T: fields %v, want %v", list[0], got, want)
			}
			fields.Delete(tx, 1, list[0])
			if _, ok := fields.Get(tx, 1, list[0]); ok {
				t.Errorf("%T: deleted field is there", list[0])
			}
			for range fields.All(tx, 2) {
				t.Errorf("%T: a field in an empty cell", list[0])
			}
			if again {
				table.Delete(tx, list[0])
				if _, ok := table.Get(tx, list[0]); ok {
					t.Errorf("%T: deleted value is there", list[0])
				}
			}
		}
	})
	if failed != "" {
		t.Error(failed)
	}
}

func TestKeys(t *testing.T) {
	keys(t, "", "a", "two words", "\x00")
	keys[uint64](t, 0, 1, math.MaxUint64)
	keys[uint32](t, 0, 1, math.MaxUint32)
	keys[app.Switch](t, 0, 1, math.MaxUint64)
	keys[app.Port](t, 0, 1, math.MaxUint32)
	keys(t, app.MAC{}, app.MAC{1, 2, 3, 4, 5, 6}, app.MAC{255, 255, 255, 255, 255, 255})
	keys(t, app.PortOf{}, app.PortOf{Switch: 1, Port: 2}, app.PortOf{Switch: 2, Port: 1},
		app.PortOf{Switch: math.MaxUint64, Port: math.MaxUint32})
}

func values[V any](t *testing.T, list ...V) {
	t.Helper()
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table := app.NewTable[uint64, V](a, "t")
		var cells []app.Cell
		for i := range list {
			cells = append(cells, table.Cell(uint64(i)))
		}
		return app.Need(cells...), func(tx *app.Tx, again bool) {
			for i, v := range list {
				if got, ok := table.Get(tx, uint64(i)); ok != again || again && !cmp.Equal(got, v) {
					t.Errorf("%T: got %v, want %v", v, got, v)
				}
				table.Put(tx, uint64(i), v)
			}
		}
	})
	if failed != "" {
		t.Error(failed)
	}
}

type host struct {
	Name string
	At   app.PortOf
	MACs []app.MAC
	Tags map[string]int
}

func TestValues(t *testing.T) {
	values[uint64](t, 0, 1, math.MaxUint64)
	values[uint32](t, 0, math.MaxUint32)
	values[uint16](t, 0, math.MaxUint16)
	values[int64](t, 0, -1, math.MinInt64, math.MaxInt64)
	values[int](t, 0, -1, math.MinInt, math.MaxInt)
	values[app.Port](t, 0, math.MaxUint32)
	values[app.Switch](t, 0, math.MaxUint64)
	values(t, app.MAC{}, app.MAC{1, 2, 3, 4, 5, 6})
	values(t, "", "text", "\x00")
	values(t, []byte("bytes"))
	values(t, true, false)
	values(t, 1.5, math.Inf(1))
	values(t, app.PortOf{Switch: 1, Port: 2})
	values(t, []string{"a", "b"})
	values(t, host{"x", app.PortOf{Switch: 1, Port: 2}, []app.MAC{{1}}, map[string]int{"a": 1}})
}

// What Get returned is the handler's: changing it changes nothing that is stored.
func TestBytesAreCopies(t *testing.T) {
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table := app.NewTable[string, []byte](a, "t")
		return app.Need(table.Cell("k")), func(tx *app.Tx, again bool) {
			v := []byte("value")
			if !again {
				table.Put(tx, "k", v)
			}
			for range 2 {
				got, _ := table.Get(tx, "k")
				if string(got) != "value" {
					t.Errorf("stored %q", got)
				}
				v[0], got[0] = 'X', 'X'
			}
		}
	})
	if failed != "" {
		t.Error(failed)
	}
}

func TestUnnamedCellFails(t *testing.T) {
	for name, f := range map[string]func(tx *app.Tx, table app.Table[string, int],
		m app.Map[app.Switch, app.PortOf, int]){
		"get": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			table.Get(tx, "no")
		},
		"put": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			table.Put(tx, "no", 1)
		},
		"delete": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			table.Delete(tx, "no")
		},
		"all": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			m.All(tx, 9)(nil)
		},
		"map get": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			m.Get(tx, 9, app.PortOf{})
		},
		"map other": func(tx *app.Tx, table app.Table[string, int], m app.Map[app.Switch, app.PortOf, int]) {
			m.Put(tx, 9, app.PortOf{}, 1)
		},
	} {
		failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
			table, m := app.NewTable[string, int](a, "t"), app.NewMap[app.Switch, app.PortOf, int](a, "m")
			return app.Need(table.Cell("yes"), m.Cell(1)), func(tx *app.Tx, again bool) { f(tx, table, m) }
		})
		cell := "t[no]"
		if strings.Contains(name, "map") || name == "all" {
			cell = "m[9]"
		}
		if !strings.Contains(failed, "uses cell "+cell+", which its map function does not name: add it to Need(…)") {
			t.Errorf("%s: %q", name, failed)
		}
	}
}

func TestManyCells(t *testing.T) {
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table := app.NewTable[uint64, uint64](a, "t")
		var cells []app.Cell
		for i := range uint64(9) {
			cells = append(cells, table.Cell(i))
		}
		return app.Need(cells...), func(tx *app.Tx, again bool) {
			for i := range uint64(9) {
				table.Put(tx, i, i)
			}
		}
	})
	if failed != "" {
		t.Error(failed)
	}
}

func TestCellNames(t *testing.T) {
	a := app.New("a")
	got := []string{
		app.NewTable[string, int](a, "1").Cell("x").String(), app.NewTable[uint64, int](a, "2").Cell(255).String(),
		app.NewTable[app.PortOf, int](a, "3").Cell(app.PortOf{Switch: 16, Port: 3}).String(),
	}
	if want := []string{"1[x]", "2[ff]", "3[10/3]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A value of another type than before fails the handler, and says what to do.
func TestChangedType(t *testing.T) {
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		was := app.NewTable[string, string](a, "t")
		is := app.NewTable[string, uint16](app.New("a"), "t")
		return app.Need(was.Cell("k"), is.Cell("k")), func(tx *app.Tx, again bool) {
			if !again {
				was.Put(tx, "k", "text")
				return
			}
			is.Get(tx, "k")
		}
	})
	if !strings.Contains(failed, "value of cell t[k] is not a uint16") {
		t.Error(failed)
	}
}

func TestValueThatCannotBeStored(t *testing.T) {
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table := app.NewTable[string, func()](a, "t")
		return app.Need(table.Cell("k")), func(tx *app.Tx, again bool) { table.Put(tx, "k", func() {}) }
	})
	if !strings.Contains(failed, "value of type func() cannot be stored") {
		t.Error(failed)
	}
}

// picky cannot be stored if it is true.
type picky bool

func (p picky) MarshalCBOR() ([]byte, error) {
	if p {
		return nil, errors.New("picky")
	}
	return []byte{0xf4}, nil
}

func (p *picky) UnmarshalCBOR([]byte) error { return nil }

// A value that could not be stored is not part of the next one that is read.
func TestFailedValueIsForgotten(t *testing.T) {
	type value struct {
		A map[string]int
		B picky
	}
	failed := transact(t, func(a *app.App) (app.Cells, func(*app.Tx, bool)) {
		table := app.NewTable[string, value](a, "t")
		return app.Need(table.Cell("k")), func(tx *app.Tx, again bool) {
			if again {
				func() {
					defer func() { _ = recover() }()
					table.Put(tx, "k", value{A: map[string]int{"x": 1}, B: true})
				}()
				if v, _ := table.Get(tx, "k"); len(v.A) != 1 || v.A["y"] != 2 {
					t.Errorf("read %v", v)
				}
				return
			}
			table.Put(tx, "k", value{A: map[string]int{"y": 2}})
		}
	})
	if failed != "" {
		t.Error(failed)
	}
}

func TestTableTwice(t *testing.T) {
	a := app.New("a")
	app.NewTable[string, int](a, "t")
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), `application a: table "t" is there twice`) {
			t.Errorf("recovered %v", r)
		}
	}()
	app.NewMap[string, string, int](a, "t")
}
