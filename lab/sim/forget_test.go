package sim

import (
	"testing"
	"time"
)

// Switches go away for seconds, and operators forget them, in one group and in several. Each comes back as a new
// switch, and nothing is executed twice.
func TestForgets(t *testing.T) {
	for _, several := range []bool{false, true} {
		sc := quietScenario()
		sc.PerController, sc.FramesPerSecond, sc.SwitchTimeout = several, 2, 200*time.Millisecond
		sc.Duration, sc.ForgetEvery = 30*time.Second, 30*time.Millisecond
		for i := range 6 {
			sc.Faults = append(sc.Faults, Fault{Kind: []FaultKind{IsolateAgent, KillSwitch, KillAgent}[i%3], A: i,
				At: time.Duration(5+4*i) * time.Second, For: 2 * time.Second},
				Fault{Kind: KillLeader, A: i, At: time.Duration(4*i+6) * time.Second, For: time.Second})
		}
		r := holds(t, sc)
		if r.Forgotten < 3 {
			t.Errorf("several groups %t: %d switches were forgotten", several, r.Forgotten)
		}
		t.Logf("several groups %t: %d switches were forgotten, %d events", several, r.Forgotten, r.Events)
	}
}
