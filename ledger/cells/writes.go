package cells

// Writes are puts that wait to be executed together. What a put of a large map needs is seldom in the cache of the
// processor, and one put after the other would wait for it. Looking at the places of many puts first, which do not
// depend on each other, lets the processor load them side by side.
//
// The zero Writes are empty.
type Writes struct {
	list [MaxWrites]write
	n    int
	seen uint64 // of what was looked at, so that the compiler does not leave that out
}

// MaxWrites is how many puts wait at most.
const MaxWrites = 64

type write struct {
	table       *Table
	cell, field Key
	value       []byte
	keep        bool
	at          *bucket[short] // where it will probably be; nil if the map is small
	hash        uint64
}

// Add adds a Keep, or else a Put, of a value that must not change before Do. It reports whether there is room for
// another one: if not, Do must be next.
func (w *Writes) Add(t *Table, cell, field Key, b []byte, keep bool) (room bool) {
	at := &w.list[w.n]
	at.table, at.cell, at.field, at.value, at.keep = t, cell, field, b, keep
	w.n++
	return w.n < MaxWrites
}

// Do executes what waits, in its order.
func (w *Writes) Do() {
	list := w.list[:w.n]
	w.n = 0
	for i := range list {
		x := &list[i]
		x.at, x.hash = x.table.ahead(x.cell, x.field)
	}
	for i := range list {
		if b := list[i].at; b != nil {
			w.seen += uint64(b.tags[0]) + uint64(len(b.list))
		}
	}
	for i := range list {
		if x := &list[i]; x.at != nil {
			w.seen += x.at.ahead(x.field, x.hash)
		}
	}
	for i := range list {
		x := &list[i]
		if x.keep {
			x.table.Keep(x.cell, x.field, x.value)
		} else {
			x.table.Put(x.cell, x.field, x.value)
		}
	}
	clear(list)
}

// ahead returns the bucket of a field, and its hash; nil if its cell is not there or has few fields.
func (t *Table) ahead(cell, field Key) (*bucket[short], uint64) {
	c := t.cell(cell)
	if c == nil || c.fields == nil || field == (Key{}) || len(c.fields.dir) < smallDir {
		return nil, 0
	}
	h := hash(field)
	return c.fields.dir[h>>c.fields.shift], h
}

// ahead looks at the entry of a key, or where a new one would be.
func (b *bucket[V]) ahead(k Key, h uint64) uint64 {
	i := b.find(k, h)
	if i < 0 {
		i = len(b.list) - 1
	}
	if i < 0 {
		return 0
	}
	return b.list[i].a
}
