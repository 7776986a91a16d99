package experimenter

import "testing"

// Generations grow with the term, and within a term with the path, until there are too many.
func TestGeneration(t *testing.T) {
	const term = 1 << 36 // of the year 2187
	last := uint64(0)
	for _, g := range []uint64{Generation(3, 0), Generation(3, 1), Generation(3, MaxPath), Generation(4, 0),
		Generation(term-1, MaxPath), Generation(term, 0)} {
		if g <= last || int64(g-last) < 0 {
			t.Errorf("generation %#x follows %#x", g, last)
		}
		last = g
	}
	if g := Generation(3, MaxPath+5); g != Generation(3, MaxPath) || Term(g) != 3 {
		t.Errorf("generation %#x", g)
	}
	if Term(last) != term || last >= 1<<48+1 {
		t.Errorf("generation %#x has term %d", last, Term(last))
	}
	if Generation(0, 0) != 0 {
		t.Error("no term has a generation")
	}
}
