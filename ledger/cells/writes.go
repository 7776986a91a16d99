package cells

// Writes are puts that wait to be executed together, after what they need was prefetched.
//
// The zero Writes are empty.
type Writes struct {
	fields Prefetch
	puts   [MaxPrefetch]put // of these fields
}

type put struct {
	value []byte
	keep  bool
}

// Add adds a Keep, or else a Put, of a value that must not change before Do. It reports whether there is room for
// another one: if not, Do must be next.
func (w *Writes) Add(t *Table, cell, field Key, b []byte, keep bool) (room bool) {
	w.puts[w.fields.n] = put{b, keep}
	w.fields.Add(t, cell, field)
	return w.fields.Room()
}

// Do executes what waits, in its order.
func (w *Writes) Do() {
	w.fields.load()
	for i := range w.fields.n {
		x, put := &w.fields.list[i], &w.puts[i]
		if put.keep {
			x.table.Keep(x.cell, x.field, put.value)
		} else {
			x.table.Put(x.cell, x.field, put.value)
		}
	}
	clear(w.puts[:w.fields.n])
	w.fields.empty()
}
