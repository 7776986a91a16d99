package experimenter

import "testing"

// Generations grow with the version, within a version with the term, and within a term with the path, until there are
// too many paths.
func TestGeneration(t *testing.T) {
	const term = 1<<36 - 1 // of the year 2187
	last := uint64(0)
	for _, g := range []uint64{Generation(1, 3, 0), Generation(1, 3, 1), Generation(1, 3, MaxPath), Generation(1, 4, 0),
		Generation(1, term, MaxPath), Generation(2, 1, 0), Generation(2, term, 0), Generation(1<<15, 1, 0),
		Generation(1<<16-1, term, MaxPath), Generation(1<<16, 1, 0), Generation(1<<16+1, 1, 0)} {
		if !Later(g, last) || Later(last, g) || Later(g, g) {
			t.Errorf("generation %#x follows %#x", g, last)
		}
		last = g
	}
	if g := Generation(2, 3, MaxPath+5); g != Generation(2, 3, MaxPath) || Term(g) != 3 || Version(g) != 2 {
		t.Errorf("generation %#x", g)
	}
	if g := Generation(1<<16-1, term, 7); Term(g) != term || Version(g) != 1<<16-1 {
		t.Errorf("generation %#x has version %d and term %d", g, Version(g), Term(g))
	}
	if Generation(1, 0, 0) != 0 {
		t.Error("no term has a generation")
	}
}
