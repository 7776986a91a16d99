package liveness

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// View is the application's tables at one time, in order.
type View struct {
	Links   []Link
	Former  []app.PortOf // ports that led to another switch and no longer do
	Refused uint64       // links that are not monitored: there are too many
}

// Link is a link that should be monitored from both ends.
type Link struct {
	A, B    app.PortOf // A is the lower
	Up      bool       // both directions, according to topology
	Changed time.Time  // when it came up or went down
	Reason  topology.Reason

	RTT      time.Duration
	Measured time.Time // zero if it was not
}

// Of makes a view of the application's tables, whose rows may come in any order.
func Of(rows iter.Seq[ledger.Row]) (*View, error) {
	v := new(View)
	t := tablesOf(app.New(Name))
	err := app.Read(rows,
		t.links.Each(func(_ uint32, at app.PortOf, row linkRow) { v.Links = append(v.Links, row.view(at)) }),
		t.peers.Each(func(_ uint32, at app.PortOf, peer app.PortOf) {
			if peer == (app.PortOf{}) {
				v.Former = append(v.Former, at)
			}
		}),
		t.totals.Each(func(_ uint32, row totals) { v.Refused = row.Refused }))
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", Name, err)
	}
	slices.SortFunc(v.Links, func(a, b Link) int { return a.A.Compare(b.A) })
	slices.SortFunc(v.Former, app.PortOf.Compare)
	return v, nil
}

func (row *linkRow) view(at app.PortOf) Link {
	l := Link{A: at, B: row.To, Up: row.Up, Changed: time.Unix(0, row.Changed), Reason: row.Reason,
		RTT: time.Duration(row.RTT)}
	if row.Measured != 0 {
		l.Measured = time.Unix(0, row.Measured)
	}
	return l
}
