package sim

import (
	"testing"
	"time"
)

// A row changes in the memory of a replica that follows, again and again: it is noticed, named by the others and begins
// anew, and nothing is lost or repeated.
func TestDamagedReplicas(t *testing.T) {
	for _, several := range []bool{false, true} {
		sc := quietScenario()
		sc.PerController, sc.FramesPerSecond, sc.SnapshotEvery = several, 5, 20
		sc.Duration = 20 * time.Second
		for i := range 3 {
			sc.Faults = append(sc.Faults, Fault{Kind: DamageState, A: i + 1, B: i, At: time.Duration(3+6*i) * time.Second})
		}
		if r := holds(t, sc); r.Rebuilt < 3 {
			t.Errorf("several groups %t: of 3 replicas that differed, %d began anew", several, r.Rebuilt)
		}
	}
}
