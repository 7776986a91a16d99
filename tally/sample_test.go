package tally

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestSamplingCountsAll: whatever the times are, and whichever transactions are undone, those that are counted stand
// for all that were not undone, but for fewer than twice SampleEvery. Those of a slow source are all counted.
func TestSamplingCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tl, s := New[int](), new(Sampling)
		second, all, counted := uint32(1), 0, 0
		for range rapid.IntRange(1, 8).Draw(t, "seconds") {
			inSecond := rapid.OneOf(rapid.IntRange(0, sampleAgain), rapid.IntRange(0, 300)).Draw(t, "transactions")
			for range inSecond {
				n := 0
				if !s.Skip(second) {
					n = tl.Next(s, second)
				}
				if rapid.IntRange(0, 9).Draw(t, "undone") == 0 {
					s.Undo(n)
					continue
				}
				all, counted = all+1, counted+n
				if all <= sampleFirst/2 && n != 1 { // half: undone ones are among the first, too
					t.Fatalf("transaction %d stands for %d", all, n)
				}
			}
			if lacks := all - counted; lacks < 0 || lacks > 2*SampleEvery-2 {
				t.Fatalf("%d transactions are counted of %d", counted, all)
			}
			second += uint32(rapid.IntRange(1, 3).Draw(t, "later"))
		}
	})
}

// TestSamplingIsFair: of a busy source one transaction in SampleEvery is counted, and what a part of its transactions
// causes is estimated as closely as the documentation says, also if that follows a pattern.
func TestSamplingIsFair(t *testing.T) {
	const transactions = 1_000_000
	for _, every := range []int{2, 7, SampleEvery, 100} {
		tl, s := New[int](), new(Sampling)
		sampled, estimate := 0, 0
		for i := range transactions {
			if s.Skip(1) {
				continue
			}
			sampled++
			if n := tl.Next(s, 1); i%every == 0 {
				estimate += n
			}
		}
		if want := transactions / SampleEvery; sampled < want*98/100 || sampled > want*102/100 {
			t.Errorf("%d of %d transactions are counted, want about %d", sampled, transactions, want)
		}
		p := 1 / float64(every)
		want, deviation := transactions*p, 6.5*math.Sqrt(transactions*p*(1-p))
		if math.Abs(float64(estimate)-want) > 3*deviation {
			t.Errorf("%d of %.0f are estimated, the standard error is %.0f", estimate, want, deviation)
		}
	}
}

// TestSamplingOfSlow: each of the first transactions in a second is counted, also after busy ones.
func TestSamplingOfSlow(t *testing.T) {
	tl, s := New[int](), new(Sampling)
	for second := uint32(1); second <= 20; second++ {
		transactions := sampleAgain
		if second%2 == 1 {
			transactions = 1000
		}
		for i := range transactions {
			skipped := s.Skip(second)
			if skipped && i < sampleAgain {
				t.Fatalf("transaction %d in second %d is not counted", i+1, second)
			}
			if !skipped {
				tl.Next(s, second)
			}
		}
	}
}
