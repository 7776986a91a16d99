package ledger

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// On one processor the loop of the group goes on while a large state is encoded.
func TestEncodingYields(t *testing.T) {
	const rows = 20 * yieldRows
	var table cells.Table
	for i := range uint64(rows) {
		table.Put(Key{A: 1}, Key{A: i + 1}, make([]byte, 8))
	}
	n := await.Turns(func() { appendTable(nil, TableName{}, 0, table.Rows(), table.Scan()) })
	if n < rows/yieldRows/2 {
		t.Errorf("others run %d times while %d rows are encoded", n, rows)
	}
}

// Nor does a small table behind large ones keep it from that.
func TestLastTableYields(t *testing.T) {
	var table cells.Table
	table.Put(Key{A: 1}, Key{S: "field"}, make([]byte, 10*yieldBytes)) // more than the room for its name
	before := bytes.Repeat([]byte("holdfast"), 20*yieldBytes/8)
	n := await.Turns(func() { appendTable(before, TableName{}, 1, table.Rows(), table.Scan()) })
	if n < 30 {
		t.Errorf("others run %d times while 20 pieces are copied for a name and for a row", n)
	}
}

func TestRoomYields(t *testing.T) {
	b := bytes.Repeat([]byte("holdfast"), 20*yieldBytes/8)
	var larger []byte
	if n := await.Turns(func() { larger = withRoom(b, 5) }); n < 10 {
		t.Errorf("others run %d times while 20 pieces are copied", n)
	}
	if !bytes.Equal(larger, b) || cap(larger)-len(larger) < 5 {
		t.Errorf("%d bytes of %d, with room for %d", len(larger), len(b), cap(larger)-len(larger))
	}
	if same := withRoom(larger, 5); &same[0] != &larger[0] {
		t.Error("bytes that have room are copied")
	}
}
