package failover

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Switches 1 and 2 lose their master at 100 ms, and 3 has another one.
func TestResumed(t *testing.T) {
	begin := time.Now()
	at := func(ms float64) time.Time { return begin.Add(time.Duration(ms * float64(time.Millisecond))) }
	var c commandClock
	for sw, times := range map[openflow.DatapathID][]float64{
		1: {80, 99, 101, 108, 109, 150}, // a command was in flight; the later silence is not the failover's
		2: {60, 95, 105.5, 106},         // the longest silence was over before
		3: {98, 99, 100, 160, 161},
		4: {80, 99}, // gets nothing more
		5: {99, 2000},
	} {
		for _, ms := range times {
			c.command(sw, at(ms))
		}
	}
	for _, test := range []struct {
		name     string
		switches []openflow.DatapathID
		want     float64 // 0: none
	}{
		{"one switch", []openflow.DatapathID{2}, 5.5},
		{"the last of two", []openflow.DatapathID{1, 2}, 8},
		{"one gets nothing", []openflow.DatapathID{1, 4}, 0},
		{"one gets something too late", []openflow.DatapathID{5}, 0},
		{"one that is unknown", []openflow.DatapathID{1, 7}, 0},
		{"no switches", nil, 0},
	} {
		got, ok := c.resumed(at(100), at(1100), test.switches)
		if ok != (test.want > 0) || got != at(test.want).Sub(begin) {
			t.Errorf("%s: %v, %v, want %v ms", test.name, got, ok, test.want)
		}
	}
}
