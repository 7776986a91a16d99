package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestOneAddress: each of three switches knows another of the three controllers only. So at any time two of them are
// reached through followers. The leader is killed, then a follower, then both, and the switches whose controllers live
// go on. No event and no command is lost or repeated. A switch whose only controller was killed has a new epoch. The
// status says through which controller the leader reaches each switch, and that the guarantee is less.
func TestOneAddress(t *testing.T) {
	notInShort(t)
	inModes(t, []mode{stock, stockOVS}, func(t *testing.T, m mode) {
		s := m.start(t, 3, cluster.Config{Apps: []string{"learning"}}) // it answers the sender only
		s.stock.single = true
		s.connect()
		packets := 0
		play := func(from int) {
			t.Helper()
			sw := s.switches[from]
			before := len(sw.executed())
			packets++
			sw.packetIn(fmt.Sprintf("packet %d", packets))
			if err := sw.wait(before + 1); err != nil {
				t.Fatalf("packet %d: %v\n%s", packets, err, s.Logs())
			}
		}
		for _, killed := range [][]int{{0}, {1}, {0, 1}, nil} { // from the leader on
			for i := range 3 {
				play(i)
			}
			leader := slices.Index(s.Controllers(), s.leader())
			before := s.await("the status of each path", func(st cluster.Status) bool {
				for i, sw := range st.Switches {
					via := s.Controllers()[i].Name
					if i == leader {
						via = ""
					}
					if sw.Role != "master" || sw.Via != via || sw.Guarantee != "at-most-once" {
						return false
					}
				}
				return len(st.Switches) == 3
			})
			for i := range killed {
				killed[i] = (killed[i] + leader) % 3
				s.check(s.Controllers()[killed[i]].Kill())
			}
			if len(killed) == 1 { // else no majority is left
				play((leader + 2) % 3)
			}
			for _, i := range killed {
				s.check(s.Controllers()[i].Restart())
			}
			s.await("new epochs", func(st cluster.Status) bool {
				for i, sw := range st.Switches {
					if (sw.Epoch != before.Switches[i].Epoch) != slices.Contains(killed, i) || sw.Role != "master" {
						return false
					}
				}
				return len(st.Switches) == 3
			})
		}
		s.exact()
	})
}
