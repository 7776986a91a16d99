package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// An application says for each handler which tables keep its messages with one actor.
func TestExplain(t *testing.T) {
	a := app.New("te")
	stats := app.NewTable[app.Switch, int](a, "stats")
	matrix := app.NewTable[app.PortOf, int](a, "matrix", app.Together)
	count := app.NewTable[uint32, int](a, "count")
	names := app.NewTable[string, int](a, "names", app.Sharded)
	type spike struct{ N uint32 }
	app.Handle(a, func(r app.Reply) app.Cells { return app.Need(stats.Cell(r.Switch)) },
		func(*app.Tx, app.Reply) error { return nil })
	app.HandleEmitted(a, func(s spike) app.Cells { return app.Whole(matrix).With(count.Cell(s.N)) },
		func(*app.Tx, spike) error { return nil })
	app.Handle(a, nil, func(*app.Tx, app.PacketIn) error { return nil })
	app.HandleCall(a, func(s spike) app.Cells { return app.Need(names.Cell("x"), count.Cell(s.N)) },
		func(*app.Tx, spike) (int, error) { return 0, nil })
	want := []ledger.Mapping{
		{Kind: ledger.Message, Type: 19},
		{Kind: ledger.Emitted, All: []string{"matrix"}, Undivided: []string{"count"}},
		{Kind: ledger.Message, Type: 10, Unmapped: true},
		{Kind: ledger.Emitted, Undivided: []string{"count"}},
	}
	for i, m := range a.Explain() {
		w := want[i]
		if m.Kind != w.Kind || m.Type != w.Type || m.Unmapped != w.Unmapped || !slices.Equal(m.All, w.All) ||
			!slices.Equal(m.Undivided, w.Undivided) || !strings.Contains(m.Handler, "explain_test.go:") {
			t.Errorf("%+v, want %+v", m, w)
		}
	}
	whole := app.New("whole").Whole()
	app.Handle(whole, nil, func(*app.Tx, app.PacketIn) error { return nil })
	if !whole.Explain()[0].Whole {
		t.Error("an application that is one actor does not say so")
	}
}
