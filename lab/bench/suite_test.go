package bench

import "testing"

// A measurement during which the leader changes is repeated, a few times.
func TestSuiteMeasuresUnderOneLeader(t *testing.T) {
	for _, c := range []struct {
		terms    []uint64 // before and after each measurement
		want     float64  // the measurement that counts
		attempts int
	}{
		{[]uint64{7, 7}, 1, 1},
		{[]uint64{7, 8, 8, 8}, 2, 2},
		{[]uint64{7, 8, 8, 9, 9, 10, 10, 10}, 0, maxMeasured},
	} {
		n := 0
		found, err := underOneLeader(func() (lineRun, error) {
			n++
			return lineRun{map[string]float64{"leader_us_per_path": float64(n)}, c.terms[2*n-2], c.terms[2*n-1]}, nil
		})
		if found["leader_us_per_path"] != c.want || (err == nil) != (c.want > 0) || n != c.attempts {
			t.Errorf("terms %v: %v, %v, after %d measurements", c.terms, found, err, n)
		}
	}
}
