package ledger

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// TableName names a dictionary of an application.
type TableName struct{ App, Name string }

func (n TableName) compare(o TableName) int {
	if c := strings.Compare(n.App, o.App); c != 0 {
		return c
	}
	return strings.Compare(n.Name, o.Name)
}

// content is cells, each with its fields. A plain value is the field Key{}. Values are never modified in place, so the
// undo list may keep old ones. No value of a cell is nil, but where a content overrides another one, nil is a deletion.
type content struct{ cells keyed[*keyed[[]byte]] }

// cell returns the fields of a cell: nil if there are none.
func (c *content) cell(cell Key) *keyed[[]byte] {
	if c == nil {
		return nil
	}
	fields, _ := c.cells.get(cell)
	return fields
}

func (c *content) put(cell, field Key, value []byte) {
	fields := c.cell(cell)
	if fields == nil {
		fields = new(keyed[[]byte])
		c.cells.put(cell, fields)
	}
	fields.put(field, value)
}

func (c *content) delete(cell, field Key) {
	if fields := c.cell(cell); fields != nil {
		if fields.delete(field); fields.len() == 0 {
			c.cells.delete(cell)
		}
	}
}

// values yields everything, in any order. The body of the loop must not change the content.
func (c *content) values() iter.Seq2[[2]Key, []byte] {
	return func(yield func([2]Key, []byte) bool) {
		if c == nil {
			return
		}
		for cell, fields := range c.cells.all() {
			for field, value := range fields.all() {
				if !yield([2]Key{cell, field}, value) {
					return
				}
			}
		}
	}
}

// table is one dictionary. While it is frozen, base does not change, so another goroutine may read it, and changes go
// to over.
type table struct {
	name TableName
	base *content
	over *content // nil unless frozen

	number   uint64 // in the entry being built, plus 1; 0 is none
	revision uint64 // of the state, when an entry last changed the table
}

func (t *table) get(cell, field Key) ([]byte, bool) {
	if t.over != nil {
		if v, ok := t.over.cell(cell).get(field); ok {
			return v, v != nil
		}
	}
	return t.base.cell(cell).get(field)
}

func (t *table) put(cell, field Key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	if t.over != nil {
		t.over.put(cell, field, value)
		return
	}
	t.base.put(cell, field, value)
}

func (t *table) delete(cell, field Key) {
	if t.over != nil {
		t.over.put(cell, field, nil)
		return
	}
	t.base.delete(cell, field)
}

// swap replaces all fields of a cell, none if fields is nil, and returns those before. The table must not be frozen.
func (t *table) swap(cell Key, fields *keyed[[]byte]) (old *keyed[[]byte]) {
	old = t.base.cell(cell)
	if fields == nil {
		t.base.cells.delete(cell)
	} else {
		t.base.cells.put(cell, fields)
	}
	return old
}

// drop removes a cell, and passes the inverse of each change to undone.
func (t *table) drop(cell Key, undone func(undo)) {
	if t.over == nil {
		undone(undo{kind: undoCell, value: &oldValue{table: t, cell: cell, fields: t.swap(cell, nil)}})
		return
	}
	for _, f := range t.fields(cell) {
		value, _ := t.get(cell, f)
		undone(undo{kind: undoValue, value: &oldValue{table: t, cell: cell, field: f, value: value}, existed: true})
		t.delete(cell, f)
	}
}

// add adds a cell that is not there. Its fields belong to the table afterwards.
func (t *table) add(cell Key, fields *keyed[[]byte], undone func(undo)) {
	if t.over == nil && t.base.cell(cell) == nil {
		undone(undo{kind: undoCell, value: &oldValue{table: t, cell: cell, fields: t.swap(cell, fields)}})
		return
	}
	for f, value := range fields.all() {
		before, existed := t.get(cell, f)
		undone(undo{kind: undoValue, value: &oldValue{table: t, cell: cell, field: f, value: before}, existed: existed})
		t.put(cell, f, value)
	}
}

// clear removes all cells, and passes the inverse of each change to undone.
func (t *table) clear(undone func(undo)) {
	if t.over == nil {
		t.replace(new(content), undone)
		return
	}
	for _, cell := range slices.Collect(t.keys()) {
		t.drop(cell, undone)
	}
}

// adopt adds cells, which are not there. They belong to the table afterwards.
func (t *table) adopt(cells *content, undone func(undo)) {
	if t.over == nil && t.base.cells.len() == 0 {
		t.replace(cells, undone)
		return
	}
	for cell, fields := range cells.cells.all() {
		t.add(cell, fields, undone)
	}
}

// replace replaces everything, at once. The table must not be frozen.
func (t *table) replace(with *content, undone func(undo)) {
	undone(undo{kind: undoTable, value: &oldValue{table: t, all: t.base}})
	t.base = with
}

// has reports whether a cell has fields.
func (t *table) has(cell Key) bool {
	return t.over == nil && t.base.cell(cell).len() > 0 || t.over != nil && len(t.anyFields(cell)) > 0
}

// len returns how many cells have fields.
func (t *table) len() (n int) {
	if t.over == nil {
		return t.base.cells.len()
	}
	for range t.keys() {
		n++
	}
	return n
}

// keys yields the keys of the cells that have fields, in any order. The body of the loop must not change the table.
func (t *table) keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for cell := range t.base.cells.all() {
			if (t.over == nil || t.has(cell)) && !yield(cell) {
				return
			}
		}
		if t.over == nil {
			return
		}
		for cell := range t.over.cells.all() {
			if t.base.cell(cell) == nil && t.has(cell) && !yield(cell) {
				return
			}
		}
	}
}

// fields returns the keys of a cell's fields, in order.
func (t *table) fields(cell Key) []Key {
	keys := t.anyFields(cell)
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// anyFields is fields in any order.
func (t *table) anyFields(cell Key) []Key {
	return slices.AppendSeq(make([]Key, 0, t.base.cell(cell).len()), t.eachField(cell))
}

// eachField yields what anyFields returns. The body of the loop must not change the table.
func (t *table) eachField(cell Key) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		base, over := t.base.cell(cell), t.over.cell(cell)
		for k := range base.all() {
			if v, changed := over.get(k); (!changed || v != nil) && !yield(k) {
				return
			}
		}
		for k, v := range over.all() {
			if _, below := base.get(k); v != nil && !below && !yield(k) {
				return
			}
		}
	}
}

func (t *table) freeze() { t.over = new(content) }

// thaw merges the changes in over into base. No other goroutine may read base any more.
func (t *table) thaw() {
	for at, v := range t.over.values() {
		if v == nil {
			t.base.delete(at[0], at[1])
		} else {
			t.base.put(at[0], at[1], v)
		}
	}
	t.over = nil
}

func appendTableName(b []byte, name TableName) []byte {
	return appendString(appendString(append(b, byte(OpTable)), name.App), name.Name)
}

func appendPut(b []byte, table uint64, cell, field Key, value []byte) []byte {
	b = binary.AppendUvarint(append(b, byte(OpPut)), table)
	return appendBytes(field.append(cell.append(b)), value)
}

// appendSorted encodes the content as operations on table n of an entry, in order.
func (c *content) appendSorted(b []byte, name TableName, n uint64) []byte {
	b = appendTableName(b, name)
	for _, cell := range c.cells.sorted() {
		fields := c.cell(cell)
		for _, field := range fields.sorted() {
			value, _ := fields.get(field)
			b = appendPut(b, n, cell, field, value)
		}
	}
	return b
}

// append is appendSorted in any order, which is several times faster.
func (c *content) append(b []byte, name TableName, n uint64) []byte {
	b = appendTableName(b, name)
	for at, value := range c.values() {
		b = appendPut(b, n, at[0], at[1], value)
	}
	return b
}
