package bench

import (
	"math"
	"strings"
	"testing"
)

func TestHighestRate(t *testing.T) {
	// Processes use some of the processors always, and less for each packet-in if there are many.
	of := func(always, each, exponent float64) func(float64) (float64, error) {
		return func(rate float64) (float64, error) {
			return min(100, always+each*math.Pow(rate, exponent)), nil
		}
	}
	for _, x := range []struct {
		name                    string
		always, each, exponent  float64
		most, percent, from, to float64
	}{
		{"enough processors", 1, 0.001, 1, 2000, 50, 2000, 2000},
		{"in proportion", 5, 0.05, 1, 2000, 50, 900, 990},
		{"less for each", 10, 0.9, 0.6, 2000, 50, 500, 700},
		{"always busy", 10, 1, 1, 2000, 50, 39, 45},
	} {
		rate, err := highestRate(x.most, x.percent, of(x.always, x.each, x.exponent))
		if err != nil || rate < x.from || rate > x.to {
			t.Errorf("%s: %v packet-ins a second, %v; from %v to %v are right", x.name, rate, err, x.from, x.to)
		}
	}
	if _, err := highestRate(100, 50, of(60, 1, 1)); err == nil || !strings.Contains(err.Error(), "--busy") {
		t.Errorf("processors that are busy without packet-ins: %v", err)
	}
}

func TestBusyTime(t *testing.T) {
	before := busyTime()
	for i := 0; busyTime() == before; i++ { // this is busy
		if i == 1e6 {
			t.Fatal("this process has used no processor")
		}
	}
}
