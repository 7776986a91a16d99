package bench

import "testing"

// The ranks are those of tables of the sign test: of 6 values the least and the greatest, of 20 the 6th and the 15th.
func TestMedianInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {16, 4, 13}, {20, 6, 15}} {
		var values []float64
		for i := range c.n {
			values = append(values, float64((i*7)%c.n+1)) // not in order, unless 7 divides n
		}
		low, high := medianInterval(values)
		if low != float64(c.low) || high != float64(c.high) {
			t.Errorf("of 1 to %d: %v to %v, want %d to %d", c.n, low, high, c.low, c.high)
		}
		if m, want := median(values), float64(c.n+1)/2; m != want {
			t.Errorf("the median of 1 to %d is %v, want %v", c.n, m, want)
		}
	}
}
