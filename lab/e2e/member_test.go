package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// traffic sends packet-ins from all switches until stop is called; after that all have arrived.
func (s *testCluster) traffic() (stop func()) {
	s.t.Helper()
	end := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			for _, sw := range s.switches {
				sw.packetIn(fmt.Sprintf("packet %d", s.played))
				s.played++
			}
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	var once sync.Once
	ended := func() { once.Do(func() { close(end); sending.Wait() }) }
	s.t.Cleanup(ended)
	return func() {
		s.t.Helper()
		ended()
		s.arrived()
	}
}

// group is what holdfast member prints with --json.
type group struct{ Members []groupMember }

type groupMember struct {
	Name  string
	ID    uint64
	Votes bool
}

func (g group) voters() (names []string) {
	for _, m := range g.Members {
		if m.Votes {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// member runs holdfast member, which must succeed.
func (s *testCluster) member(args ...string) group {
	s.t.Helper()
	out, err := s.Command(s.ctx, append([]string{"member", "--json"}, args...)...)
	s.check(err)
	var g group
	s.check(json.Unmarshal([]byte(out), &g))
	return g
}

// caughtUp waits until a controller has applied all that the leader has now.
func (s *testCluster) caughtUp(c *cluster.Controller) {
	s.t.Helper()
	now := s.await("a leader", func(cluster.Status) bool { return true })
	s.await(c.Name+" to catch up", func(cluster.Status) bool {
		st, err := c.Status(s.ctx)
		return err == nil && st.Reached(now)
	})
}

// ends waits until a controller has ended by itself, with a line in its log that contains all of parts.
func (s *testCluster) ends(c *cluster.Controller, parts ...string) {
	s.t.Helper()
	await.Until(s.t, c.Name+" to end", func() bool { return !c.Running() })
	if c.Ended().ExitCode() != 1 || s.countLines(c.LogFile(), parts...) == 0 {
		s.t.Errorf("%s ended with %v, and no log line has %q\n%s", c.Name, c.Ended(), parts, s.Logs())
	}
}

// TestReplaceController: a controller has lost its folder. Under its old id it does not start; under a new one it
// replaces its old self, while traffic flows, and may lead.
func TestReplaceController(t *testing.T) {
	notInShort(t)
	t.Parallel()
	replaceController(t, cluster.Config{Agents: 2})
}

// TestTLSReplaceController: the same over TLS, where the other controllers do not have the new id in their cluster
// file.
func TestTLSReplaceController(t *testing.T) {
	notInShort(t)
	t.Parallel()
	replaceController(t, cluster.Config{Agents: 2, TLS: true})
}

func replaceController(t *testing.T, cfg cluster.Config) {
	s := startCluster(t, cfg)
	if cfg.TLS {
		s.connectTLS(credentials(t, s.Authority(), pki.Switch, "s1"))
	} else {
		s.connect()
	}
	stop := s.traffic()
	lost := s.leader()
	lost.ExpectEnd()
	s.check(lost.Kill())
	s.check(s.Lose(lost))
	s.check(lost.Restart())
	lost.ExpectEnd()
	s.ends(lost, "there is no log here", "holdfast member replace")

	s.check(s.Rename(lost, 4711))
	s.check(lost.Join())
	g := s.member("replace", lost.Name, lost.Name)
	renewed := func(m groupMember) bool { return m.Name == lost.Name && m.ID == 4711 }
	if !slices.Equal(g.voters(), []string{"c1", "c2", "c3"}) || !slices.ContainsFunc(g.Members, renewed) {
		t.Errorf("members %+v", g)
	}
	s.caughtUp(lost)
	stop()
	s.inSync()
	s.lead(lost)
	s.play(4, nil)
	s.exact()
}

// begunByMistake begins a controller by init that is to join the running cluster: it takes part in nothing, and its log
// and status say why. Then its folder is removed.
func (s *testCluster) begunByMistake(c *cluster.Controller) {
	s.t.Helper()
	term := s.await("a leader", func(cluster.Status) bool { return true }).Term
	_, err := s.Command(s.ctx, "init", "--name", c.Name)
	s.check(err)
	s.check(c.Restart())
	const why = "it was begun by holdfast init, and must join instead: stop it, remove the folder"
	await.Until(s.t, c.Name+" to say that it must join", func() bool {
		out, err := s.Command(s.ctx, "status")
		return err == nil && strings.Contains(out, "controller "+c.Name+" takes part in nothing: ") &&
			strings.Contains(out, why) && s.countLines(c.LogFile(), "level=ERROR", why) == 1
	})
	if now := s.await("a leader", func(cluster.Status) bool { return true }).Term; now != term {
		s.t.Errorf("the term was %d, and is %d", term, now)
	}
	s.check(c.Kill())
	s.check(s.Lose(c))
}

// TestAddAndRemoveControllers: two controllers join and two leave, while traffic flows. Five survive the loss of two.
func TestAddAndRemoveControllers(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Controllers: 5, Later: 2, Agents: 2})
	s.connect()
	stop := s.traffic()
	four, five := s.Controllers()[3], s.Controllers()[4]
	s.begunByMistake(four)
	s.check(four.Join())
	if g := s.member("add", four.Name); len(g.Members) != 4 || len(g.voters()) != 3 {
		t.Errorf("four members, of which three are to vote: %+v", g)
	}
	s.check(five.Join())
	if g := s.member("add", five.Name); len(g.voters()) != 5 {
		t.Errorf("five are to vote: %+v", g)
	}
	down := s.followers()[:1]
	down = append(down, s.leader())
	for _, c := range down {
		s.check(c.Kill())
	}
	s.leader()
	for _, c := range down {
		s.check(c.Restart())
		s.caughtUp(c)
	}
	for _, c := range []*cluster.Controller{five, four} {
		c.ExpectEnd()
		if g := s.member("remove", c.Name); len(g.voters()) != 3 || slices.Contains(g.voters(), c.Name) {
			t.Errorf("three are to vote, without %s: %+v", c.Name, g)
		}
		s.ends(c, "removed from the group")
	}
	s.check(five.Restart())
	five.ExpectEnd()
	s.ends(five, "removed from the group")
	if _, err := s.Command(s.ctx, "member", "remove", "c3"); err == nil ||
		!strings.Contains(err.Error(), "replace the member by another") {
		t.Errorf("one of three is removed: %v", err)
	}
	stop()
	s.play(4, nil)
	s.exact()
}

// TestRollingRestart: the controllers are drained, stopped and started in turn, as for an upgrade.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2})
	s.connect()
	stop := s.traffic()
	for _, c := range s.Controllers() {
		_, err := s.Command(s.ctx, "drain", c.Name)
		s.check(err)
		if s.leader() == c {
			t.Fatalf("%s leads, and was drained", c.Name)
		}
		s.check(c.Signal(syscall.SIGTERM))
		c.WaitEnd()
		if c.Ended().ExitCode() != 0 {
			t.Errorf("%s ended with %v", c.Name, c.Ended())
		}
		s.check(c.Restart())
		s.caughtUp(c)
	}
	stop()
	s.exact()
}

// TestDrain: a drained controller transfers its leadership, stays a follower while a controller that is not drained
// runs, and leads if only drained ones are left.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1})
	s.connect()
	first := s.leader()
	out, err := s.Command(s.ctx, "drain") // whoever leads
	s.check(err)
	second := s.leader()
	if second == first || !strings.HasPrefix(out, first.Name+" is drained") ||
		!strings.HasSuffix(out, second.Name+" leads\n") {
		t.Errorf("%s led, then %s: %q", first.Name, second.Name, out)
	}
	s.play(2, nil)
	s.check(second.Kill())
	third := s.leader()
	if third == first {
		t.Errorf("%s leads, and was drained", first.Name)
	}
	s.play(2, nil)
	s.check(second.Restart())
	s.caughtUp(second)
	_, err = s.Command(s.ctx, "drain", second.Name)
	s.check(err)
	s.check(third.Kill())
	s.play(2, nil) // one of the two leads all the same
	s.exact()
}
