package cells

import (
	"bytes"
	"iter"
	"slices"
)

// Table is cells, each of which has fields, and each field a value. A plain value is the field Key{} of its cell. A
// cell without fields is not there. The zero Table is empty. It is for one goroutine; a Clone may be used by another.
type Table struct {
	cells *hashed[Cell]
	owner *owner // of what is of this table only; nil before the first change

	// The cell that was looked up last, which often is the next one too; nil if there is none. owned: it may be
	// modified in place.
	last    *Cell
	lastKey Key
	owned   bool

	rows  int    // fields of all cells
	loops int    // over this table, whose nodes may not change now
	short []byte // where Get puts short values
}

// Cell is the fields of a cell that is in no table. Its nodes may be those of the table where it was.
type Cell struct {
	plain  value // of the field Key{}
	fields *hashed[short]
}

// Len returns how many fields there are.
func (c *Cell) Len() int {
	if c == nil {
		return 0
	}
	if c.plain.none() {
		return c.fields.len()
	}
	return c.fields.len() + 1
}

// find returns the value of a field; none if it is not there.
func (c *Cell) find(field Key) value {
	if c == nil {
		return value{}
	}
	if field == (Key{}) {
		return c.plain
	}
	if at := c.fields.find(field); at.in != nil {
		return valueAt(at)
	}
	return value{}
}

// all yields the fields, in any order.
func (c *Cell) all(yield func(Key, value) bool) bool {
	if !c.plain.none() && !yield(Key{}, c.plain) {
		return false
	}
	for k, at := range c.fields.all() {
		if !yield(k, valueAt(at)) {
			return false
		}
	}
	return true
}

// Clone returns a copy, in constant time. The table and the copy share memory that neither modifies from then on: the
// first change of a cell copies its directory, which has 8 bytes for about 20 fields, and a bucket.
func (t *Table) Clone() *Table {
	t.share()
	return &Table{cells: t.cells, rows: t.rows}
}

// share makes every change copy the nodes that there are now.
func (t *Table) share() { t.owner, t.owned, t.loops = nil, false, 0 }

// changes returns the owner for a change.
func (t *Table) changes() *owner {
	if t.loops > 0 {
		t.share()
	}
	if t.owner == nil {
		t.owner = new(owner)
	}
	return t.owner
}

// cell returns a cell; nil if it is not there.
func (t *Table) cell(cell Key) *Cell {
	if t.last != nil && t.lastKey == cell {
		return t.last
	}
	at := t.cells.find(cell)
	if at.in == nil {
		return nil
	}
	t.last, t.lastKey, t.owned = at.v(), cell, false
	return t.last
}

// change returns a cell that may be changed, and that is there afterwards.
func (t *Table) change(o *owner, cell Key) *Cell {
	if t.owned && t.last != nil && t.lastKey == cell {
		return t.last
	}
	t.cells = t.cells.owned(o)
	t.last, t.lastKey, t.owned = t.cells.put(cell).v(), cell, true
	return t.last
}

// Len returns how many cells there are.
func (t *Table) Len() int { return t.cells.len() }

// Rows returns how many fields all cells have.
func (t *Table) Rows() int { return t.rows }

// Count returns how many fields a cell has: none if it is not there.
func (t *Table) Count(cell Key) int { return t.cell(cell).Len() }

// Get returns a value, which must not be modified. It remains as it is when the field changes.
func (t *Table) Get(cell, field Key) ([]byte, bool) {
	v := t.cell(cell).find(field)
	if v.none() {
		return nil, false
	}
	return t.bytes(v), true
}

// shorts is how many bytes are allocated for short values at a time.
const shorts = 512

// bytes returns the bytes of a value.
func (t *Table) bytes(v value) []byte {
	if v.p != nil {
		return v.long()
	}
	if len(t.short) < 8 {
		t.short = make([]byte, shorts)
	}
	room := (*[8]byte)(t.short)
	t.short = t.short[8:]
	return v.in(room)
}

// Put writes a copy of a value.
func (t *Table) Put(cell, field Key, b []byte) {
	if len(b) > maxShort {
		b = bytes.Clone(b)
	}
	t.Keep(cell, field, b)
}

// Keep is Put for a value that nobody changes afterwards.
func (t *Table) Keep(cell, field Key, b []byte) {
	s := t.place(cell, field)
	if s.get().none() {
		t.rows++
	}
	s.set(valueOf(b))
}

// slot is where the value of a field is to be written, until the next change.
type slot struct {
	plain *value // nil: at
	at    place[short]
}

func (s *slot) get() value {
	if s.plain != nil {
		return *s.plain
	}
	return valueAt(s.at)
}

func (s *slot) set(v value) {
	if s.plain != nil {
		*s.plain = v
		return
	}
	v.write(s.at)
}

// place returns the slot of a field, which has no value if the field is new.
func (t *Table) place(cell, field Key) (s slot) {
	o := t.changes()
	c := t.change(o, cell)
	if field == (Key{}) {
		s.plain = &c.plain
		return s
	}
	c.fields = c.fields.owned(o)
	s.at = c.fields.put(field)
	return s
}

// Swap is Put, or Keep, and Get before that, in the time of one of them. It reports whether the value is another one
// now: if not, the old bytes stay.
func (t *Table) Swap(cell, field Key, b []byte, keep bool) (old []byte, existed, changed bool) {
	s := t.place(cell, field)
	v := s.get()
	if existed = !v.none(); existed {
		if old = t.bytes(v); bytes.Equal(old, b) {
			return old, true, false
		}
	} else {
		t.rows++
	}
	if !keep && len(b) > maxShort {
		b = bytes.Clone(b)
	}
	s.set(valueOf(b))
	return old, existed, true
}

// Delete removes a field, if it is there.
func (t *Table) Delete(cell, field Key) {
	if t.cell(cell).find(field).none() {
		return
	}
	o := t.changes()
	c := t.change(o, cell)
	if field == (Key{}) {
		c.plain = value{}
	} else {
		c.fields = c.fields.without(o, field)
	}
	t.rows--
	if c.Len() == 0 {
		t.remove(o, cell)
	}
}

func (t *Table) remove(o *owner, cell Key) {
	t.cells = t.cells.without(o, cell)
	t.last = nil
}

// Take removes a cell and returns what it had, in the time of one change; an empty Cell if it is not there.
func (t *Table) Take(cell Key) Cell {
	c := t.cell(cell)
	if c == nil {
		return Cell{}
	}
	taken := *c
	t.rows -= taken.Len()
	t.remove(t.changes(), cell)
	return taken
}

// Set gives a cell the fields that Take has returned, and no others, in the time of one change. They belong to the
// table afterwards.
func (t *Table) Set(cell Key, fields Cell) {
	if fields.Len() == 0 {
		t.Take(cell)
		return
	}
	c := t.change(t.changes(), cell)
	t.rows += fields.Len() - c.Len()
	*c = fields
}

// Cells yields the keys of the cells, in any order: those that there are when the loop begins. The body may change the
// table.
func (t *Table) Cells() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		defer t.endLoop(t.loop())
		for k := range t.cells.all() {
			if !yield(k) {
				return
			}
		}
	}
}

// Fields yields the keys of the fields of a cell likewise.
func (t *Table) Fields(cell Key) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		if c := t.cell(cell); c != nil {
			defer t.endLoop(t.loop())
			c.all(func(k Key, _ value) bool { return yield(k) })
		}
	}
}

// CellsInParts returns a function that yields the keys of the cells that there are now, some in each call, in any
// order, and false at the end. The table may change between two calls. A slice is valid until the next one.
func (t *Table) CellsInParts() func() ([]Key, bool) {
	t.share()
	return t.cells.inParts()
}

// FieldsInParts yields the keys of the fields of a cell likewise.
func (t *Table) FieldsInParts(cell Key) func() ([]Key, bool) {
	c := t.cell(cell)
	rest, more := func() ([]Key, bool) { return nil, false }, false
	var first []Key
	if c.Len() > few {
		t.share()
		rest = c.fields.inParts()
		if !c.plain.none() {
			first = []Key{{}}
		}
	} else {
		first = slices.Collect(t.Fields(cell)) // so few that sharing all nodes would cost more
	}
	more = len(first) > 0
	return func() ([]Key, bool) {
		if more {
			more = false
			return first, true
		}
		return rest()
	}
}

// All yields everything, in any order, as it is when the loop begins. The body may change the table.
func (t *Table) All() iter.Seq2[[2]Key, []byte] {
	return func(yield func([2]Key, []byte) bool) {
		defer t.endLoop(t.loop())
		for cell, at := range t.cells.all() {
			if !at.v().all(func(k Key, v value) bool { return yield([2]Key{cell, k}, t.bytes(v)) }) {
				return
			}
		}
	}
}

// Scan is All without allocating: a value is valid until the next one is yielded.
func (t *Table) Scan() iter.Seq2[[2]Key, []byte] {
	return func(yield func([2]Key, []byte) bool) {
		defer t.endLoop(t.loop())
		var room [8]byte
		for cell, at := range t.cells.all() {
			if !at.v().all(func(k Key, v value) bool { return yield([2]Key{cell, k}, v.in(&room)) }) {
				return
			}
		}
	}
}

// Sizes yields the fields of all cells as All does, and how many bytes the value of each has.
func (t *Table) Sizes() iter.Seq2[[2]Key, int] {
	return func(yield func([2]Key, int) bool) {
		defer t.endLoop(t.loop())
		for cell, at := range t.cells.all() {
			if !at.v().all(func(k Key, v value) bool { return yield([2]Key{cell, k}, v.len()) }) {
				return
			}
		}
	}
}

// Contents yields the cells, in any order, for Set of another table. This one must not change any more.
func (t *Table) Contents() iter.Seq2[Key, Cell] {
	return func(yield func(Key, Cell) bool) {
		for k, at := range t.cells.all() {
			if !yield(k, *at.v()) {
				return
			}
		}
	}
}

// Sorted is All in the order of cells, and of fields within them.
func (t *Table) Sorted() iter.Seq2[[2]Key, []byte] {
	return func(yield func([2]Key, []byte) bool) {
		for _, cell := range slices.SortedFunc(t.Cells(), Key.Compare) {
			for field, v := range t.Range(cell, Key{}) {
				if !yield([2]Key{cell, field}, v) {
					return
				}
			}
		}
	}
}

// few is how many fields are sorted each time that they are asked for in order. More are kept in order from then on.
const few = 64

// Range yields the fields of a cell from one on, in order: those that there are when the loop begins, unless its body
// deletes them. The first time it sorts the fields, later it begins in the time of one change.
func (t *Table) Range(cell, from Key) iter.Seq2[Key, []byte] {
	return func(yield func(Key, []byte) bool) {
		c := t.cell(cell)
		if c == nil {
			return
		}
		if c.fields.len() > few && !c.fields.sorted {
			o := t.changes()
			c = t.change(o, cell)
			c.fields = c.fields.owned(o)
			c.fields.sort()
		}
		o, was := t.loop(), *c
		defer t.endLoop(o)
		each := func(k Key) bool {
			v := was.find(k)
			if t.owner != o { // the body has changed the table
				v = t.cell(cell).find(k)
			}
			return v.none() || yield(k, t.bytes(v))
		}
		if from == (Key{}) && !was.plain.none() && !each(Key{}) {
			return
		}
		if was.fields.len() > few {
			was.fields.order.from(from, each)
			return
		}
		for _, k := range was.fields.few(from) {
			if !each(k) {
				return
			}
		}
	}
}

// loop begins a loop, during which no node is modified.
func (t *Table) loop() *owner {
	t.loops++
	return t.owner
}

// endLoop ends a loop, unless a change has ended all of them, by sharing the nodes.
func (t *Table) endLoop(o *owner) {
	if t.loops > 0 && t.owner == o {
		t.loops--
	}
}
