package calm

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHarmful(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		alarms, lost []time.Duration
		want         int
	}{
		{nil, []time.Duration{s}, 0},
		{[]time.Duration{10 * s, 60 * s}, []time.Duration{8 * s, 9 * s}, 1},
		{[]time.Duration{10 * s, 11 * s}, []time.Duration{12 * s}, 2},
		{[]time.Duration{10 * s}, []time.Duration{20 * s}, 0},
	} {
		if got := harmful(c.alarms, c.lost); got != c.want {
			t.Errorf("alarms %v, lost %v: %d, want %d", c.alarms, c.lost, got, c.want)
		}
	}
}

func TestTally(t *testing.T) {
	s := &streams{sentAt: [][]time.Duration{{1, 2, 3}, {2, 4}}, arrived: [][]bool{{true, false, true}, {false, false}}}
	if sent, lost := s.tally(2, 4); sent != 3 || len(lost) != 2 {
		t.Errorf("%d sent, lost %v", sent, lost)
	}
}
