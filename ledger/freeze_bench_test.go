package ledger

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkFreeze encodes a state of a million rows of 16 cells, as the learning switch has them, with their digest.
func BenchmarkFreeze(b *testing.B) {
	const rows = 1_000_000
	c, err := New(nil, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	t := c.state.table(TableName{"learning", "ports"}).cells
	for range rows {
		t.Put(Key{A: rand.Uint64N(16) + 1}, Key{A: rand.Uint64() >> 16}, []byte{1, 2})
	}
	for b.Loop() {
		frozen, err := c.Freeze()
		if err != nil {
			b.Fatal(err)
		}
		frozen()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
