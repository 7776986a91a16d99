package sim

import (
	"testing"
	"time"
)

// All controllers but the leader of a group die, again and again. The leader serves hosts meanwhile, and nothing is
// lost or repeated.
func TestMinorities(t *testing.T) {
	for _, several := range []bool{false, true} {
		sc := quietScenario()
		sc.PerController, sc.FramesPerSecond, sc.Minorities = several, 5, true
		for i := range 4 {
			sc.Faults = append(sc.Faults, Fault{Kind: KillOthers, A: i, At: time.Duration(5+10*i) * time.Second,
				For: time.Duration(1+i) * time.Second})
		}
		r := holds(t, sc)
		if r.Degraded == 0 {
			t.Errorf("several groups %t: no command of a leader without a majority", several)
		}
	}
}
