package ledger

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"runtime"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/internal/collector"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// TableName names a dictionary of an application.
type TableName struct{ App, Name string }

func (n TableName) compare(o TableName) int {
	if c := strings.Compare(n.App, o.App); c != 0 {
		return c
	}
	return strings.Compare(n.Name, o.Name)
}

// slots is how many tables are found without hashing their names. Handlers of several applications take turns, and use
// some tables each.
const slots = 64

// slot returns the same number below slots for the same name, and often another one for another name.
func (n TableName) slot() int {
	sum := 3*len(n.App) + 5*len(n.Name)
	if n.App != "" {
		sum += 7 * int(n.App[0])
	}
	if n.Name != "" {
		sum += 11*int(n.Name[0]) + 13*int(n.Name[len(n.Name)-1])
	}
	return sum % slots
}

// table is one dictionary.
type table struct {
	name  TableName
	cells *cells.Table

	number   uint64 // in the entry being built, plus 1; 0 is none
	puts     lastPuts
	revision uint64 // of the state, when an entry last changed the table
}

func newTable(name TableName) *table { return &table{name: name, cells: new(cells.Table)} }

// drop removes a cell, and passes the inverse to undone.
func (t *table) drop(cell Key, undone func(undo)) {
	t.forgetPuts()
	undone(undo{kind: undoCell, value: &oldValue{table: t, cell: cell, fields: t.cells.Take(cell)}})
}

// add adds a cell, which is not there. Its fields belong to the table afterwards.
func (t *table) add(cell Key, fields cells.Cell, undone func(undo)) {
	t.drop(cell, undone)
	t.cells.Set(cell, fields)
}

// adopt adds cells, which are not there. They belong to the table afterwards.
func (t *table) adopt(all *cells.Table, undone func(undo)) {
	if t.cells.Len() == 0 {
		t.replace(all, undone)
		return
	}
	for cell, fields := range all.Contents() {
		t.add(cell, fields, undone)
	}
}

// replace replaces everything, at once, and passes the inverse to undone.
func (t *table) replace(with *cells.Table, undone func(undo)) {
	t.forgetPuts()
	undone(undo{kind: undoTable, value: &oldValue{table: t, all: t.cells}})
	t.cells = with
}

func appendTableName(b []byte, name TableName) []byte {
	return appendString(appendString(append(b, byte(OpTable)), name.App), name.Name)
}

func appendPut(b []byte, table uint64, cell, field Key, value []byte) []byte {
	b = binary.AppendUvarint(append(b, byte(OpPut)), table)
	return appendBytes(field.Append(cell.Append(b)), value)
}

// sampled is after how many rows of a table the memory for the others is allocated: to let that of a large snapshot
// grow as append does took longer than to encode it. It is what the others need if they are as large as these, but no
// more than thrice what these have taken, and the same is done again after four times the rows.
const sampled = 1024

// keyOverhead is how many bytes cells.Key.Append needs at most, besides those of a string.
const keyOverhead = 3 * binary.MaxVarintLen64

// mix is a factor that makes of the hash of a row and that of its table one of both: an odd number without a pattern.
const mix = 0x9e3779b97f4a7c15

// appendTable encodes what a table has as operations on table n of an entry. It has so many rows. The digest does not
// depend on n, or on the order of the rows.
func appendTable(b []byte, name TableName, n uint64, rows int, all iter.Seq2[[2]Key, []byte]) ([]byte, uint64) {
	at := len(b)
	b = appendTableName(withRoom(b, 1+2*binary.MaxVarintLen64+len(name.App)+len(name.Name)), name)
	of, digest := xxhash.Sum64(b[at:]), uint64(0)
	put := binary.AppendUvarint([]byte{byte(OpPut)}, n)
	var cell Key
	row := cell.Append(put) // how each row of the cell begins
	start, done, grow := len(b), 0, sampled
	for key, value := range all {
		if key[0] != cell {
			cell = key[0]
			row = cell.Append(row[:len(put)])
		}
		if need := len(row) + keyOverhead + len(key[1].S) + binary.MaxVarintLen64 + len(value); cap(b)-len(b) < need {
			b = withRoom(b, need)
		}
		at := len(b) + len(put)
		b = appendBytes(key[1].Append(append(b, row...)), value)
		high, low := bits.Mul64(xxhash.Sum64(b[at:])^of, mix)
		digest += high ^ low
		if done++; done == grow {
			size := int64(len(b) - start)
			b = withRoom(b, int(min(int64(rows-done)*size/int64(done)*9/8, 3*size)))
			grow *= 4
		}
		if done%yieldRows == 0 {
			runtime.Gosched()
		}
	}
	return b, digest
}

// A large snapshot is encoded beside the loop of the group, which may have to share one processor with it. If what it
// does at a time were longer, the leader would miss heartbeats on a busy machine.
const (
	yieldRows  = 8192      // are encoded at a time, in less than a millisecond
	yieldBytes = 256 << 10 // are copied at a time
)

// withRoom returns b with capacity for n more bytes; if it has to be copied, for at least a quarter of its length more.
// append and slices.Grow clear and copy a hundred megabytes in one piece, which neither the scheduler nor the garbage
// collector can interrupt.
func withRoom(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	size := len(b) + max(n, len(b)/4)
	allocated := collector.Expect(size)
	to := make([]byte, len(b), size)
	allocated()
	for at := 0; at < len(b); at += yieldBytes {
		copy(to[at:], b[at:min(at+yieldBytes, len(b))])
		runtime.Gosched()
	}
	return to
}
