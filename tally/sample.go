package tally

// Sampling chooses which transactions of one source, a switch, are counted. The first ones are, and the first ones of
// each second, so what a slow source causes is exact. Of the others one in SampleEvery is, at random distances, so that
// no pattern of messages fits them. A transaction that is counted stands for itself and for those of its source since
// the one before.
//
// So the counts of what a source sends lack at most 2*SampleEvery-2 transactions, until it sends again in a later
// second. What they cause is as exact as they are alike: if a share p of n such transactions causes a message, the
// standard error of its count is about 6.5*sqrt(n*p*(1-p)).
type Sampling struct {
	second uint32 // in which the last one was counted; 0: none was
	left   uint16 // how many are counted one by one before the rest of the second is sampled
	skip   uint16 // how many are not counted before the next one that is
	gap    uint16 // what skip was
}

const (
	// SampleEvery is of how many transactions one is counted, on average.
	SampleEvery = 32
	sampleFirst = 64 // are counted at first
	sampleAgain = 8  // are counted at first in each second
)

// Skip reports whether the next transaction of the source is not counted. If it is, Next follows. second counts from 1.
func (s *Sampling) Skip(second uint32) bool {
	if s.skip == 0 || s.second != second {
		return false
	}
	s.skip--
	return true
}

// Next returns for how many transactions of the source the next one stands, which is counted.
func (t *Tally[ID]) Next(s *Sampling, second uint32) (n int) {
	n = int(s.gap-s.skip) + 1
	switch {
	case s.second == 0:
		s.left = sampleFirst
	case s.second != second:
		s.left = max(s.left, sampleAgain)
	}
	s.second, s.skip = second, 0
	if s.left > 0 {
		s.left--
	} else {
		s.skip = uint16(t.below(2*SampleEvery - 1))
	}
	s.gap = s.skip
	return n
}

// Undo undoes the last Skip, or Next if that returned n, since the transaction is undone and comes again.
func (s *Sampling) Undo(n int) {
	if n == 0 {
		s.skip++
		return
	}
	s.skip, s.gap = 0, uint16(n-1)
}
