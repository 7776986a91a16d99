package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestHangingLeader stops the leader, with SIGSTOP, when it has commands that are committed and not sent. Another
// controller leads when it resumes and sends them: they are refused, since the agents, or switches, have seen a higher
// term.
func TestHangingLeader(t *testing.T) {
	inModes(t, everyModeAnd(stockTLS), func(t *testing.T, m mode) {
		if m == agentsTLS {
			t.Skip("TestTLSHangingLeader is that")
		}
		for range 3 {
			if hangLeader(t, m) {
				return
			}
		}
		t.Error("three times it took so long to elect another leader that the connections of the old one were " +
			"closed: is this machine busy?")
	})
}

// silence is how long a peer may be silent before its connection is closed, less some time to react.
const silence = 4 * time.Second

// hangLeader returns false if the old leader's connections may not have lasted long enough.
func hangLeader(t *testing.T, m mode) bool {
	tr := newTrap(t, crash.AfterEventAck, 6, true).later()
	var s *testCluster
	var refused func() int
	if m.stock {
		s = m.start(t, 2, cluster.Config{Env: tr.env})
		s.connect()
		before := s.stock.refusals()
		refused = func() int { return s.stock.refusals() - before }
	} else {
		s = startCluster(t, cluster.Config{Env: tr.env})
		w := s.connectWatched(2)
		refused = func() int { return w.count().refused }
	}
	tr.set(t)
	began := time.Now()
	s.play(8, nil) // the leader hangs with the sixth, and the rest is done without it
	old := s.victim(tr)
	if s.leader() == old {
		t.Fatalf("%s leads while it hangs", old.Name)
	}
	if n := refused(); n > 0 {
		t.Fatalf("%d blocks of commands were refused before the leader went on", n)
	}
	s.check(old.Signal(syscall.SIGCONT))
	if time.Since(began) > silence {
		return false
	}
	await.Until(t, "the commands of the old leader to be refused", func() bool { return refused() > 0 })
	s.play(10, nil)
	s.exact()
	if s.leader() == old {
		t.Errorf("%s leads again", old.Name)
	}
	s.agree(s.Controllers())
	return true
}
