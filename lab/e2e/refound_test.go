package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// outOfReach is a term that a new cluster does not reach, unless elections fail repeatedly.
const outOfReach = 12

// TestClusterInitialisedAgain: all controllers have lost their folders and are initialised again by holdfast init,
// so their terms are lower than the one that the agent knows. The agent refuses them, which its log and the status
// report, until they have proved that nobody can lead in the later term. Then its switch begins a new epoch with
// them, without a restart of the agent.
func TestClusterInitialisedAgain(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1})
	s.connect()
	s.play(4, nil)
	for s.waitUp(1).Term < outOfReach {
		old := s.leader()
		s.inSync()
		_, err := s.Command(s.ctx, "drain", old.Name) // so that nothing waits for an election
		s.check(err)
		s.check(old.Kill())
		s.check(old.Restart())
	}
	s.play(4, nil)
	term := s.waitUp(1).Term
	s.exact()

	for _, c := range s.Controllers() {
		s.check(c.Kill())
	}
	for _, c := range s.Controllers() {
		s.check(s.Lose(c))
		_, err := s.Command(s.ctx, "init", "--name", c.Name)
		s.check(err)
		s.check(c.Restart())
	}
	st, err := s.leader().Status(s.ctx)
	s.check(err)
	if st.Term >= term {
		t.Skipf("the new cluster leads in term %d already, and the old one in %d: this machine is too busy to show "+
			"that agents refuse the new one", st.Term, term)
	}
	agent := s.Agents()[0]
	sw := s.switches[0].(*fakeSwitch)
	untilEnded(t, sw) // its events were acknowledged, and are in no log
	sw = dialSwitch(t, sw.id, "127.0.0.1", agent.Listen, nil)
	await.Until(t, "status to say why the switch is down", func() bool {
		out, err := s.Command(s.ctx, "status")
		return err == nil && strings.Contains(out, "0000000000000001: none: its agent has had a master with a "+
			"later term")
	})
	untilEnded(t, sw)
	for _, line := range []string{"the leader is fenced",
		"the controllers have lost their logs, or are a new cluster"} {
		await.Until(t, "the agent to say that "+line, func() bool {
			return s.countLines(agent.LogFile(), "msg=",
				line) > 0
		})
	}
	s.switches[0] = dialSwitch(t, sw.id, "127.0.0.1", agent.Listen, nil)
	s.waitUp(1)
	s.played = 0
	s.play(4, nil)
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
