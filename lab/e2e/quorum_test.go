package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

func TestTwoOfThree(t *testing.T) {
	inModes(t, everyModeAnd(stockTLS), func(t *testing.T, m mode) {
		without := func(name string, which func(s *testCluster) *cluster.Controller) {
			t.Run("without "+name, func(t *testing.T) {
				s := m.start(t, 2, cluster.Config{})
				s.connect()
				s.play(4, nil)
				s.check(which(s).Kill())
				s.play(10, nil)
				s.exact()
			})
		}
		if everything || !m.tls {
			without("a follower", func(s *testCluster) *cluster.Controller { return s.followers()[0] })
		}
		if everything || !m.ovs { // TestTrial kills the leaders of these
			without("the leader", (*testCluster).leader)
		}
	})
}

// TestOneOfThree leaves one controller alone, and observes its agent: the controller sends nothing.
func TestOneOfThree(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{})
	w := s.connectWatched(2)
	s.play(6, nil)
	s.inSync()
	down := s.followers()
	for _, c := range down {
		s.check(c.Kill())
	}
	before := w.count()
	s.burst(1)
	time.Sleep(time.Second) // in which nothing must happen
	if after := w.count(); after.acked != before.acked || after.commands != before.commands {
		t.Errorf("one of three controllers acknowledged events or sent commands: %+v, before %+v", after, before)
	}
	for _, sw := range s.switches {
		if got := len(sw.executed()); got != s.counted()-2*s.counted()/s.played {
			t.Errorf("switch %s has %d commands", sw.name(), got)
		}
	}
	s.check(down[0].Restart())
	s.arrived()
	s.play(6, nil)
	s.exact()
}

// TestCatchUp keeps a controller down while the others continue, and then makes it lead.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	t.Run("log", func(t *testing.T) {
		s := startCluster(t, cluster.Config{Agents: 2})
		behind := s.fallBehind()
		s.check(behind.Restart())
		s.inSync()
		if n := s.restored(behind); n > 0 {
			t.Errorf("%s took a snapshot, at %d: the log was to do", behind.Name, n)
		}
		s.leadAgain(behind)
	})
	t.Run("snapshot", func(t *testing.T) {
		s := startCluster(t, cluster.Config{Agents: 2, SnapshotEvery: 5})
		behind := s.fallBehind()
		for _, c := range s.followersAndLeader() { // whose memory still holds what their disks have forgotten
			s.check(c.Kill())
			s.check(c.Restart())
			s.leader()
			s.inSync()
		}
		s.check(behind.Restart())
		s.inSync()
		if s.restored(behind) == 0 { // which snapshot, says the pace of the disks
			t.Errorf("%s took no snapshot: the log it asks for is no longer there", behind.Name)
		}
		s.leadAgain(behind)
	})
}

// fallBehind kills the follower that ranks first for election, and continues without it.
func (s *testCluster) fallBehind() *cluster.Controller {
	s.t.Helper()
	s.connect()
	s.play(4, nil)
	behind := s.followers()[0]
	if f := s.followers(); s.id(f[1]) < s.id(behind) {
		behind = f[1]
	}
	s.check(behind.Kill())
	s.play(40, nil)
	s.inSync()
	return behind
}

func (s *testCluster) leadAgain(c *cluster.Controller) {
	s.t.Helper()
	s.lead(c)
	s.play(10, nil)
	s.exact()
}

func (s *testCluster) followersAndLeader() []*cluster.Controller {
	return append(s.followers(), s.leader())
}

var atIndex = regexp.MustCompile(` index=(\d+)`)

// restored returns the index of the last snapshot that a controller installed.
func (s *testCluster) restored(c *cluster.Controller) (index uint64) {
	s.t.Helper()
	for _, line := range lines(s.t, c.LogFile(), "restored from a snapshot") {
		if m := atIndex.FindStringSubmatch(line); m != nil {
			index, _ = strconv.ParseUint(m[1], 10, 64) // digits
		}
	}
	return index
}

// TestAllKilledAndRestarted kills all controllers with events and commands in transit. Without agents nobody would have
// these events: then there are none.
func TestAllKilledAndRestarted(t *testing.T) {
	inModes(t, everyModeAnd(), func(t *testing.T, m mode) {
		for _, durability := range []string{"memory", "disk"} {
			if stays := (durability == "disk") == m.ovs; m.stock && !stays && !everything {
				continue // those with agents run with both
			}
			t.Run(durability, func(t *testing.T) {
				s := m.start(t, 2, cluster.Config{Durability: durability})
				s.connect()
				for range 3 {
					s.play(5, nil)
					if m.stock {
						s.inSync()
					} else {
						s.burst(20)
					}
					for _, c := range s.Controllers() {
						s.check(c.Kill())
					}
					for _, c := range s.Controllers() {
						s.check(c.Restart())
					}
					s.arrived()
					if m.stock {
						s.waitUp(2)
						s.inSync()
					}
				}
				s.play(5, nil)
				s.exact()
			})
		}
	})
}

// burst sends n packet-ins from each switch.
func (s *testCluster) burst(n int) {
	for range n {
		for _, sw := range s.switches {
			sw.packetIn(fmt.Sprintf("packet %d", s.played))
			s.played++
		}
	}
}
