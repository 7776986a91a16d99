package ledger_test

import (
	"bytes"
	"reflect"
	"slices"

	. "github.com/holdfast-sdn/holdfast/ledger"
)

// reading is the result of Rows at a revision.
type reading struct {
	revision uint64
	rows     []Row
}

// compareRows checks that Rows returns what is committed, whatever is executed, proposed or frozen, and that the
// result changes only with the revision.
func (n *simNode) compareRows() {
	want := map[string][]Row{"counting": {}, "chaos": {}, "mayhem": {}}
	if n.c.site != nil {
		want["roll"] = []Row{}
	}
	_, err := Walk(n.c.oracle.snaps[n.applied], func(r *Record) error {
		if r.Op == OpPut {
			want[r.Table.App] = append(want[r.Table.App], Row{r.Table.Name, r.Cell, r.Field, bytes.Clone(r.Bytes)})
		}
		return nil
	})
	n.must(err)
	for app := range want {
		got, err := n.core.Rows(app, 1<<20)
		n.must(err)
		slices.SortFunc(got, Row.Compare)
		if !reflect.DeepEqual(got, want[app]) {
			n.c.fatalf("node %d after %d entries: rows of %s\n got %v\nwant %v", n.id, n.applied, app, got, want[app])
		}
		revision, last := n.core.Revision(app), n.read[app]
		if last.rows != nil && (revision < last.revision ||
			revision == last.revision && !reflect.DeepEqual(got, last.rows)) {
			n.c.fatalf("node %d: rows of %s at revision %d\n%v, then at %d\n%v", n.id, app, last.revision, last.rows,
				revision, got)
		}
		n.read[app] = reading{revision, got}
	}
}
