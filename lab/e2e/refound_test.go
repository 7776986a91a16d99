package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestClusterInitialisedAgain: all controllers have lost their folders and are begun again by holdfast init. Their
// first term is that of the clock, so the switches do not refuse it as stale. The switch behind an agent has had events
// acknowledged that are in no log: it begins a new epoch after some seconds, without a restart of the agent. A switch
// without an agent, which remembers the highest generation_id, begins one without a restart too.
func TestClusterInitialisedAgain(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		s := m.start(t, 1, cluster.Config{})
		s.connect()
		s.play(4, nil)
		s.check(s.leader().Kill())
		s.play(4, nil)
		term := s.waitUp(1).Term

		for _, c := range s.Controllers() {
			if c.Running() {
				s.check(c.Kill())
			}
		}
		for _, c := range s.Controllers() {
			s.check(s.Lose(c))
			_, err := s.Command(s.ctx, "init", "--name", c.Name)
			s.check(err)
			s.check(c.Restart())
		}
		if !m.stock {
			sw := s.switches[0].(*fakeSwitch)
			untilEnded(t, sw)
			agent := s.Agents()[0]
			await.Until(t, "the agent to say why", func() bool {
				return s.countLines(agent.LogFile(), "msg=", "the controllers have lost their logs") > 0
			})
			s.switches[0] = dialSwitch(t, sw.id, "127.0.0.1", agent.Listen, nil)
			s.played = 0
		}
		if now := s.waitUp(1).Term; now <= term {
			t.Errorf("the new cluster leads in term %d, and the old one led in term %d", now, term)
		}
		s.play(4, nil)
	})
}

// untilEnded waits until the switch's connection is closed.
func untilEnded(t *testing.T, sw *fakeSwitch) {
	t.Helper()
	select {
	case <-sw.ended:
	case <-time.After(patience):
		t.Fatalf("waited %v for the agent to close the connection of switch %s", patience, sw.id)
	}
}
