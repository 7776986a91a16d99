package controller

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/controller/advice"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// spike is a switch that carries more than before.
type spike struct{ Switch app.Switch }

// engineering is the traffic engineering of Beehive's figure 1. Naive, one actor has the statistics of all switches.
func engineering(naive bool) *app.App {
	a := app.New("te")
	var options []app.TableOption
	if naive {
		options = append(options, app.Together)
	}
	stats := app.NewTable[app.Switch, uint64](a, "stats", options...)
	matrix := app.NewTable[app.Switch, uint64](a, "matrix", app.Together)
	app.Handle(a, func(m app.PacketIn) app.Cells {
		if naive {
			return app.Whole(stats, matrix)
		}
		return app.Need(stats.Cell(m.Switch))
	}, func(tx *app.Tx, m app.PacketIn) error {
		n, _ := stats.Get(tx, m.Switch)
		stats.Put(tx, m.Switch, n+1)
		if n != 100 || naive {
			return nil
		}
		return app.Emit(tx, spike{m.Switch})
	})
	app.HandleEmitted(a, func(spike) app.Cells { return app.Whole(matrix) }, func(tx *app.Tx, s spike) error {
		matrix.Put(tx, s.Switch, 1)
		return nil
	})
	return a
}

// advised runs an application on 5 switches that send 200 messages each, and returns the advice.
func advised(t *testing.T, a *app.App) Advice {
	core, err := ledger.New([]ledger.Application{a}, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	core.Instrument(func() time.Duration { return 0 })
	if err := core.Lead(1, 1); err != nil {
		t.Fatal(err)
	}
	commit := func() {
		for entry, more := core.Cut(); more; entry, more = core.Cut() {
			if err := core.Commit(bytes.Clone(entry)); err != nil {
				t.Fatal(err)
			}
			core.Releases()
		}
	}
	m := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1)}
	for id := app.Switch(1); id <= 5; id++ {
		for seq := uint64(1); seq <= 201; seq++ {
			msg := m.Append(nil, 0)
			if seq == 1 {
				msg = apptest.Up(id)
			}
			if err := core.Event(id, 1, seq, msg); err != nil {
				t.Fatal(err)
			}
			commit()
		}
	}
	r, _ := core.Report()
	return joinAdvice("c1", []answered[Tally]{said("c1", DescribeReport(1, 1, &r))}, reasonsOf(a))
}

// TestAdvice: the naive application is told which handler is centralised, and which tables make it so. Of the decoupled
// one, hardly any messages depend on one actor. Of 1,005 inputs, up to 62 of each of five switches are not counted yet.
func TestAdvice(t *testing.T) {
	a := advised(t, engineering(true))
	if len(a.Items) != 1 || a.Items[0].Kind != advice.Centralised || a.Items[0].Message != "PACKET_IN" ||
		!strings.Contains(a.Items[0].Why, "needs all cells of tables stats, matrix") || a.Inputs < 600 {
		t.Errorf("naive: %+v", a)
	}
	if a := advised(t, engineering(false)); len(a.Items) != 0 || a.Inputs < 600 {
		t.Errorf("decoupled: %+v", a)
	}
}
