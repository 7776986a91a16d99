package ledger

// A put of a row that the entry has already may replace the value there, in place of another record. Replicas apply
// entries whole, so none sees the values between. An entry has many transactions, and often all of them write one row,
// for instance a counter. See docs/decisions/0154.

// lastPuts is where the entry that is being built has the values of some rows of a table.
type lastPuts [4]lastPut

// lastPut is where a value begins in batch.buf, and how many bytes it has. It is valid while the batch has this stamp.
type lastPut struct {
	stamp       uint64
	cell, field Key // without text: no string is kept for it
	at, n       int
}

func (p *lastPuts) of(cell, field Key) *lastPut {
	x := cell.A + field.A + field.B
	return &p[(x^x>>2^x>>16)%uint64(len(p))]
}

// replacing is what a replaced value counts for in the size of an entry, beside its bytes: what can be undone has the
// same bounds as without.
const replacing = 16

// putAgain replaces the value of a row in the entry. The caller has just appended the undoValue of this put. It reports
// false if no value of the row is noted, or one of another length.
func (b *batch) putAgain(t *table, cell, field Key, value []byte) bool {
	p := t.puts.of(cell, field)
	if p.stamp != b.stamp || p.n != len(value) || p.cell != cell || p.field != field {
		return false
	}
	copy(b.buf[p.at:], value)
	b.replaced += replacing + len(value)
	b.undo[len(b.undo)-1].before = uint64(p.at)
	return true
}

// notePut notes that the entry ends with the value of a row.
func (b *batch) notePut(t *table, cell, field Key, n int) {
	if cell.S == "" && field.S == "" {
		*t.puts.of(cell, field) = lastPut{b.stamp, cell, field, len(b.buf) - n, n}
	}
}

// restorePuts puts back the values of the entry that were replaced since a savepoint.
func (b *batch) restorePuts(m savepoint) {
	list := b.undo[m.undo:]
	for i := len(list) - 1; i >= 0; i-- {
		if u := &list[i]; u.kind == undoValue && u.before > 0 && u.before < uint64(m.buf) {
			copy(b.buf[u.before:], u.value.value)
		}
	}
}

// newStamp returns a number that no batch has had, which ends what is noted of puts to all tables.
func (c *Core) newStamp() uint64 {
	c.stamps++
	return c.stamps
}

// forgetPuts is called when rows are removed, or replaced other than by a put: the next put of one must come after that
// in the entry.
func (t *table) forgetPuts() {
	for i := range t.puts {
		t.puts[i].stamp = 0
	}
}
