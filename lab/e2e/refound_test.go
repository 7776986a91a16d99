package e2e

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestClusterInitialisedAgain: all controllers of a cluster whose switch has moved have lost their folders, and are
// begun again by holdfast init, with one group. Their first term is that of the clock, and the version in their
// claims is that of the last claim that the switch accepted, so the switch does not refuse them as stale. The switch
// behind an agent has had events acknowledged that are in no log: it begins a new epoch after some seconds, without a
// restart of the agent. A switch without an agent, which remembers the highest generation_id, begins one without a
// restart too. Then the cluster gets several groups again: by holdfast regroup, and by another loss of all folders.
func TestClusterInitialisedAgain(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		s := m.start(t, 1, cluster.Config{Sections: groupsOfEach})
		s.check(s.WaitHome(s.ctx))
		s.connect()
		s.play(4, nil)
		version := s.moveOn(2)
		s.check(s.leader().Kill())
		s.play(4, nil)
		st := s.waitUp(1)

		s.beginAnew(1)
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
		if now := s.waitUp(1).Term; now <= st.Term {
			t.Errorf("the new cluster leads in term %d, and the old one led in term %d", now, st.Term)
		}
		s.play(4, nil)
		if m != stock { // the rest takes a while
			return
		}

		s.regroup()
		s.waitUp(1)
		s.ready() // before that nobody may hold what the switch sends
		s.play(4, nil)
		regrouped := s.moveOn(1)
		s.beginAnew(3)
		s.waitUp(1)
		s.play(4, nil)
		again := s.waitUp(1).Switches[0].Assignment
		if version < 3 || regrouped <= version || again <= regrouped {
			t.Errorf("the versions are %d, %d and %d", version, regrouped, again)
		}
	})
}

const groupsOfEach = "groups: per-controller\n"

// moveOn moves the only switch to the next group, several times, and returns the version of its assignment.
func (s *testCluster) moveOn(times int) (version uint64) {
	s.t.Helper()
	sw := s.waitUp(1).Switches[0]
	for group := sw.Group; times > 0; times-- {
		group = group%3 + 1 // not what a status says now: it may be of a controller that has not heard of the last move
		s.move(s.ctx, []string{"--switch", sw.Switch}, group)
		s.await("the switch to be up there", func(st cluster.Status) bool {
			now := st.Switches[0]
			version = now.Assignment
			return now.Group == group && now.Role == "master" && now.State == "up"
		})
	}
	return version
}

// beginAnew removes the folders of all controllers, and makes them a new cluster with one group, or several.
func (s *testCluster) beginAnew(groups int) {
	s.t.Helper()
	for _, c := range s.Controllers() {
		if c.Running() {
			s.check(c.Kill())
		}
	}
	text, err := os.ReadFile(s.ClusterFile())
	s.check(err)
	text = bytes.ReplaceAll(text, []byte(groupsOfEach), nil)
	if groups > 1 {
		text = append(text, groupsOfEach...)
	}
	s.check(os.WriteFile(s.ClusterFile(), text, 0o600))
	for _, c := range s.Controllers() {
		s.check(s.Lose(c))
		_, err := s.Command(s.ctx, "init", "--name", c.Name)
		s.check(err)
		s.check(c.Restart())
	}
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
