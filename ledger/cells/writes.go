package cells

// Writes are puts that wait to be executed together, after what they need was loaded, as by Prefetch.
//
// The zero Writes are empty.
type Writes struct {
	list [MaxWrites]write
	n    int
}

// MaxWrites is how many puts wait at most.
const MaxWrites = 64

type write struct {
	look
	value []byte
	keep  bool
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
		list[i].loadDir()
	}
	for i := range list {
		list[i].loadBucket()
	}
	for i := range list {
		list[i].loadEntry()
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
