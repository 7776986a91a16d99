package ledger

import (
	"cmp"
	"fmt"
	"strings"
	"unsafe"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// Row is a value of an application's tables.
type Row struct {
	Table string `json:"table"`
	Cell  Key    `json:"cell,omitzero"`
	Field Key    `json:"field,omitzero"`
	Value []byte `json:"value"`
}

// SecretTable is the name of an application's table of secrets such as keys. It is logged, but the API does not return
// it.
const SecretTable = "secret"

// Compare orders rows by table, cell and field.
func (r Row) Compare(o Row) int {
	return cmp.Or(strings.Compare(r.Table, o.Table), r.Cell.Compare(o.Cell), r.Field.Compare(o.Field))
}

func (r Row) size() int {
	return int(unsafe.Sizeof(r)) + len(r.Cell.S) + len(r.Field.S) + len(r.Value)
}

// Rows returns the committed rows of an application's tables, in any order. What a leader has executed and not yet
// committed is not included. More than most bytes of rows are an error. The values are shared with the tables and must
// not be modified.
func (c *Core) Rows(app string, most int) ([]Row, error) {
	rows, size := []Row{}, 0
	before := c.before(app)
	for name, t := range c.state.tables {
		if name.App != app {
			continue
		}
		committed := before[t]
		if committed == nil {
			committed = t.cells
		}
		for at, value := range committed.All() {
			row := Row{name.Name, at[0], at[1], value}
			if size += row.size(); size > most {
				return nil, fmt.Errorf("the tables of application %s have more than %d bytes", app, most)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// before returns what is committed of the tables with uncommitted changes.
func (c *Core) before(app string) map[*table]*cells.Table {
	before := map[*table]*cells.Table{}
	revert := func(list []undo) {
		for i := len(list) - 1; i >= 0; i-- {
			u := &list[i]
			ofTable := u.kind == undoValue || u.kind == undoCell || u.kind == undoTable
			if !ofTable || u.value.table.name.App != app {
				continue
			}
			t := u.value.table
			switch {
			case u.kind == undoTable:
				before[t] = u.value.all.Clone()
				continue
			case before[t] == nil:
				before[t] = t.cells.Clone()
			}
			u.revertIn(before[t])
		}
	}
	revert(c.batch.undo)
	for i := len(c.inflight) - 1; i >= 0; i-- {
		revert(c.inflight[i].undo)
	}
	return before
}

// Revision returns a number that grows whenever Rows of the application may have changed. It is not comparable between
// Cores.
func (c *Core) Revision(app string) uint64 {
	newest := c.state.restored
	for name, t := range c.state.tables {
		if name.App == app {
			newest = max(newest, t.revision)
		}
	}
	return newest
}
