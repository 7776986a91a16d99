package controller

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// Whose digest is that of a majority goes on, and takes a snapshot once. Whose digest differs from it begins anew. As
// long as there is none, nothing happens.
func TestJudge(t *testing.T) {
	const mine, other, third = 1, 2, 3
	for name, c := range map[string]struct {
		members  uint64
		sums     map[uint64]uint64 // of the others
		equal    bool
		diverged bool
	}{
		"alone":                    {1, nil, true, false},
		"nobody else is known":     {3, nil, false, false},
		"a majority":               {3, map[uint64]uint64{2: mine}, true, false},
		"all":                      {3, map[uint64]uint64{2: mine, 3: mine}, true, false},
		"another differs":          {3, map[uint64]uint64{2: mine, 3: other}, true, false},
		"this one differs":         {3, map[uint64]uint64{2: other, 3: other}, false, true},
		"one of two":               {2, map[uint64]uint64{2: other}, false, false},
		"all differ":               {3, map[uint64]uint64{2: other, 3: third}, false, false},
		"two of five":              {5, map[uint64]uint64{2: mine, 3: other, 4: other}, false, false},
		"three of five, other":     {5, map[uint64]uint64{2: other, 3: other, 4: other}, false, true},
		"three of five":            {5, map[uint64]uint64{2: mine, 3: mine, 4: other, 5: other}, true, false},
		"who is no member":         {3, map[uint64]uint64{7: other, 8: other}, false, false},
		"who is no member, agrees": {3, map[uint64]uint64{7: mine, 8: mine}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			names := map[uint64]string{}
			for id := range c.members {
				names[id+1] = string(rune('a' + id))
			}
			s := newStand(t, CoreConfig{ID: 1, Names: names})
			s.digest(2, math.MaxUint64, other) // an index that this replica never has keeps it from no comparison
			for from, sum := range c.sums {    // some may come before this replica is there itself
				s.digest(from, 10, sum)
			}
			s.core.digested(10, mine)
			_, diverged := errors.AsType[*divergedError](s.core.comparison.err)
			if s.core.comparison.equal != c.equal || diverged != c.diverged {
				t.Errorf("equal %v, %v; want %v, diverged %v", s.core.comparison.equal, s.core.comparison.err, c.equal,
					c.diverged)
			}
			s.core.comparison.equal = false // it has taken its snapshot
			for from, sum := range c.sums {
				s.digest(from, 10, sum)
				s.digest(from, 9, other)
			}
			if s.core.comparison.equal || s.core.comparison.index != 10 {
				t.Errorf("a digest that comes again counts again, or an old one does: %+v", s.core.comparison)
			}
		})
	}
}

// digest delivers the digest of another replica.
func (s *stand) digest(from, index, sum uint64) {
	b := binary.BigEndian.AppendUint64([]byte{digestPayload}, index)
	s.core.Payload(s.now, from, binary.BigEndian.AppendUint64(b, sum))
}
