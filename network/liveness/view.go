package liveness

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// View is the application's tables at one time, in order.
type View struct {
	Links   []Link
	Former  []app.PortOf // ports that led to another switch and do not any more
	Refused uint64       // links that are not watched, since there are too many
}

// Link is a link that is to be watched, from both ends.
type Link struct {
	A, B    app.PortOf // A is the lower
	Up      bool       // by what topology says, in both directions
	Changed time.Time  // when it came up or went down
	Reason  topology.Reason

	RTT      time.Duration
	Measured time.Time // zero if it was not
}

// Of makes a view of the application's tables, whose rows may come in any order.
func Of(rows iter.Seq[ledger.Row]) (*View, error) {
	v := new(View)
	for r := range rows {
		if err := v.add(r); err != nil {
			return nil, fmt.Errorf("table %s of application %s: %w", r.Table, Name, err)
		}
	}
	slices.SortFunc(v.Links, func(a, b Link) int { return a.A.Compare(b.A) })
	slices.SortFunc(v.Former, app.PortOf.Compare)
	return v, nil
}

func (v *View) add(r ledger.Row) error {
	at := app.FromKey[app.PortOf](r.Field)
	switch r.Table {
	case "links":
		var row linkRow
		err := cbor.Unmarshal(r.Value, &row)
		l := Link{A: at, B: row.To, Up: row.Up, Changed: time.Unix(0, row.Changed), Reason: row.Reason,
			RTT: time.Duration(row.RTT)}
		if row.Measured != 0 {
			l.Measured = time.Unix(0, row.Measured)
		}
		v.Links = append(v.Links, l)
		return err
	case "peers":
		var peer app.PortOf
		err := cbor.Unmarshal(r.Value, &peer)
		if peer == (app.PortOf{}) {
			v.Former = append(v.Former, at)
		}
		return err
	case "totals":
		var sum totals
		err := cbor.Unmarshal(r.Value, &sum)
		v.Refused = sum.Refused
		return err
	}
	return nil
}
