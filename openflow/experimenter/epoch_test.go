package experimenter

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMaxEpoch(t *testing.T) {
	for _, c := range []struct{ last, want uint64 }{
		{0, 1 << 63},
		{1_800_000_000_000_000_000, 1 << 63}, // the year 2027
		{1 << 63, 1<<63 + 1<<20},
		{math.MaxUint64 - 1<<20, math.MaxUint64},
		{math.MaxUint64 - 5, math.MaxUint64},
	} {
		if got := MaxEpoch(c.last); got != c.want {
			t.Errorf("after epoch %d: %d, want %d", c.last, got, c.want)
		}
	}
}

// Whatever peers claim, the next epoch of an honest agent, which is one more than the last at least, is taken, for more
// claims than a peer can make in a hundred years.
func TestEpochsAreNotUsedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := uint64(0)
		for i := range rapid.IntRange(1, 1000).Draw(t, "claims") {
			if claim := rapid.Uint64().Draw(t, "epoch"); claim > last && claim <= MaxEpoch(last) {
				last = claim
			} else if i%2 == 0 {
				last = MaxEpoch(last) // the worst
			}
			if last+1 <= last || last+1 > MaxEpoch(last) {
				t.Fatalf("no epoch is taken after %d", last)
			}
		}
		if left := (math.MaxUint64 - last) / epochStep; left < 1<<42 {
			t.Fatalf("after 1000 claims %d more use up all epochs", left)
		}
	})
}
