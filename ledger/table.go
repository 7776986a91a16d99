package ledger

import (
	"encoding/binary"
	"maps"
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
// undo list may keep old ones. No value is nil.
type content map[Key]map[Key][]byte

func (c content) put(cell, field Key, value []byte) {
	fields := c[cell]
	if fields == nil {
		fields = make(map[Key][]byte, 1)
		c[cell] = fields
	}
	fields[field] = value
}

func (c content) delete(cell, field Key) {
	fields := c[cell]
	delete(fields, field)
	if len(fields) == 0 {
		delete(c, cell)
	}
}

// table is one dictionary. While it is frozen, cells does not change, so another goroutine may read it, and changes go
// to over, where nil is a deletion.
type table struct {
	name  TableName
	cells content
	over  content // nil unless frozen

	number   uint64 // in the entry being built, plus 1; 0 is none
	revision uint64 // of the state, when an entry last changed the table
}

func (t *table) get(cell, field Key) ([]byte, bool) {
	if t.over != nil {
		if v, ok := t.over[cell][field]; ok {
			return v, v != nil
		}
	}
	v, ok := t.cells[cell][field]
	return v, ok
}

func (t *table) put(cell, field Key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	if t.over != nil {
		t.over.put(cell, field, value)
		return
	}
	t.cells.put(cell, field, value)
}

func (t *table) delete(cell, field Key) {
	if t.over != nil {
		t.over.put(cell, field, nil)
		return
	}
	t.cells.delete(cell, field)
}

// fields returns the keys of a cell's fields, in order.
func (t *table) fields(cell Key) []Key {
	keys := slices.Collect(maps.Keys(t.cells[cell]))
	for k, v := range t.over[cell] {
		if _, below := t.cells[cell][k]; v != nil && !below {
			keys = append(keys, k)
		}
	}
	keys = slices.DeleteFunc(keys, func(k Key) bool { _, there := t.get(cell, k); return !there })
	slices.SortFunc(keys, Key.Compare)
	return keys
}

func (t *table) freeze() { t.over = content{} }

// thaw merges the changes in over into cells. No other goroutine may read cells any more.
func (t *table) thaw() {
	for cell, fields := range t.over {
		for field, v := range fields {
			if v == nil {
				t.cells.delete(cell, field)
			} else {
				t.cells.put(cell, field, v)
			}
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
func (c content) appendSorted(b []byte, name TableName, n uint64) []byte {
	b = appendTableName(b, name)
	for _, cell := range slices.SortedFunc(maps.Keys(c), Key.Compare) {
		for _, field := range slices.SortedFunc(maps.Keys(c[cell]), Key.Compare) {
			b = appendPut(b, n, cell, field, c[cell][field])
		}
	}
	return b
}

// append is appendSorted in any order, which is several times faster.
func (c content) append(b []byte, name TableName, n uint64) []byte {
	b = appendTableName(b, name)
	for cell, fields := range c {
		for field, value := range fields {
			b = appendPut(b, n, cell, field, value)
		}
	}
	return b
}
