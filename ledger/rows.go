package ledger

import (
	"cmp"
	"fmt"
	"strings"
	"unsafe"
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
		layers := [...]*content{t.base, t.over, before[t]} // later layers override earlier ones
		for i, layer := range layers {
			for at, value := range layer.values() {
				if value == nil || within(layers[i+1:], at[0], at[1]) {
					continue
				}
				row := Row{name.Name, at[0], at[1], value}
				if size += row.size(); size > most {
					return nil, fmt.Errorf("the tables of application %s have more than %d bytes", app, most)
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func within(layers []*content, cell, field Key) bool {
	for _, l := range layers {
		if _, ok := l.cell(cell).get(field); ok {
			return true
		}
	}
	return false
}

// before returns the committed values of rows with uncommitted changes.
func (c *Core) before(app string) map[*table]*content {
	before := map[*table]*content{}
	take := func(list []undo) {
		for i := len(list) - 1; i >= 0; i-- { // newest first: the oldest overrides
			u := list[i]
			ofTable := u.kind == undoValue || u.kind == undoCell || u.kind == undoTable
			if !ofTable || u.value.table.name.App != app {
				continue
			}
			v := u.value
			if before[v.table] == nil {
				before[v.table] = new(content)
			}
			switch b := before[v.table]; {
			case u.kind == undoCell:
				b.replace(v.table, v.cell, v.fields)
			case u.kind == undoTable:
				b.replaceAll(v.table, v.all)
			case !u.existed:
				b.put(v.cell, v.field, nil)
			default:
				b.put(v.cell, v.field, v.value)
			}
		}
	}
	take(c.batch.undo)
	for i := len(c.inflight) - 1; i >= 0; i-- {
		take(c.inflight[i].undo)
	}
	return before
}

// replace makes c say that a cell of a table, over which it is, has these fields and no others.
func (c *content) replace(t *table, cell Key, fields *keyed[[]byte]) {
	for _, f := range t.fields(cell) {
		c.put(cell, f, nil)
	}
	for f := range c.cell(cell).all() {
		c.put(cell, f, nil)
	}
	for f, v := range fields.all() {
		c.put(cell, f, v)
	}
}

// replaceAll makes c say that a table, over which it is, has these cells and no others.
func (c *content) replaceAll(t *table, all *content) {
	for cell := range t.keys() {
		if all.cell(cell) == nil {
			c.replace(t, cell, nil)
		}
	}
	for _, cell := range c.cells.sorted() {
		c.replace(t, cell, all.cell(cell))
	}
	for cell, fields := range all.cells.all() {
		c.replace(t, cell, fields)
	}
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
