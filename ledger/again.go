package ledger

// A row that is written again in the same entry is not logged again: its value in the entry is replaced. Replicas apply
// entries whole, so none sees the values between. An entry has many transactions, and often all of them write one row,
// for instance a counter. See docs/decisions/0154.

// lastPuts is where the entry that is being built has the values of some rows of a table.
type lastPuts [4]lastPut

// lastPut is where a value begins in batch.buf, and how many bytes it has. It is valid while the batch has this stamp.
type lastPut struct {
	stamp       uint64
	cell, field Key // without text, which would keep the memory where it is
	at, n       int
}

func (p *lastPuts) of(cell, field Key) *lastPut {
	x := cell.A + field.A + field.B
	return &p[(x^x>>2^x>>16)%uint64(len(p))]
}

// putAgain replaces the value of a row in the entry, after undoValue with the one before. It reports false if the entry
// has no value of the row that is known, or one of another length.
func (b *batch) putAgain(t *table, cell, field Key, value []byte) bool {
	p := t.puts.of(cell, field)
	if p.stamp != b.stamp || p.n != len(value) || p.cell != cell || p.field != field {
		return false
	}
	copy(b.buf[p.at:], value)
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

// stamp returns a number that no batch has had. Another one ends what is noted of puts.
func (c *Core) stamp() uint64 {
	c.stamps++
	return c.stamps
}

// forgetPuts is called when rows go without a put: the next put of one may not replace what the entry has before that.
func (t *table) forgetPuts() { t.puts = lastPuts{} }
