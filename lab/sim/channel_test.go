package sim

import (
	"testing"
	"time"
)

// The network between agents and one controller after the other loses everything for some time. Nothing is lost or
// repeated.
func TestLostChannels(t *testing.T) {
	for _, several := range []bool{false, true} {
		sc := quietScenario()
		sc.PerController, sc.FramesPerSecond = several, 5
		for c := range sc.Controllers {
			for edge := range sc.Switches {
				sc.Faults = append(sc.Faults, Fault{Kind: Partition, A: c, B: sc.Controllers + edge,
					At: time.Duration(5+15*c) * time.Second, For: time.Duration(8+edge) * time.Second})
			}
		}
		holds(t, sc)
	}
}
