package e2e

import (
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestTwoOfThreeRestart kills two of three controllers at once under traffic, and restarts them at once, again and
// again. The third holds what switches without an agent have sent and the log lacks. Whoever leads, nothing of it is
// lost, and no epoch begins.
func TestTwoOfThreeRestart(t *testing.T) {
	const rounds = 4
	modes := []mode{stock}
	if everything {
		modes = append(modes, stockOVS, stockTLS)
	}
	inModes(t, modes, func(t *testing.T, m mode) {
		const switches = 2
		s := m.start(t, switches, cluster.Config{})
		s.expectDeaths()
		s.connect()
		stop := s.traffic()
		for i := range rounds {
			s.ready()
			die := slices.Delete(slices.Clone(s.Controllers()), i%3, i%3+1)
			for _, c := range die {
				s.check(c.Signal(syscall.SIGKILL))
			}
			for _, c := range die {
				c.WaitEnd()
			}
			if i%2 > 0 { // else they are back before the third knows that nobody leads
				await.Until(t, "the third to know no leader", func() bool {
					st, err := s.Controllers()[i%3].Status(s.ctx)
					return err == nil && st.Role == "no leader"
				})
			}
			for _, c := range die {
				s.check(c.Restart())
			}
		}
		s.ready()
		stop()
		if r := s.exact(); r.Epochs != switches {
			t.Errorf("%d epochs of %d switches: %+v", r.Epochs, switches, r)
		}
	})
}
