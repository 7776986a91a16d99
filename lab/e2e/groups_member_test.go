package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
)

// exchanges sends packets between all hosts until stop is called; after that all have arrived. It
// waits for them now and then: on a slow machine ever more would be on their way.
func (s *streamCluster) exchanges() (stop func()) {
	s.t.Helper()
	const most = 50 // to a host, between two waits
	end := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := 1; ; n++ {
			for from := range s.switches {
				s.packet(from, (from+1)%len(s.switches), fmt.Sprintf("packet %d", n))
			}
			for sent := false; !sent; sent = n%most != 0 || s.haveAll() {
				select {
				case <-end:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		}
	})
	var once sync.Once
	ended := func() { once.Do(func() { close(end); sending.Wait() }) }
	s.t.Cleanup(ended)
	return func() {
		s.t.Helper()
		ended()
		for i := range s.switches {
			s.arrive(i)
		}
	}
}

// placed waits until the home groups have so many replicas each, and none at a controller that is not named.
func (s *streamCluster) placed(replicas int, on ...string) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d replicas of each group on %v", replicas, on), func(st cluster.Status) bool {
		for _, g := range st.Groups {
			if g.Home != "" && len(g.Replicas) != replicas || slices.ContainsFunc(g.Replicas, func(name string) bool {
				return !slices.Contains(on, name)
			}) {
				return false
			}
		}
		return len(st.Groups) > 1
	})
}

// moves moves the actor and the switches to one group after the other until stop is called. That waits until they have
// moved so often: while members change, a move may wait for the leader of a group.
func (s *streamCluster) moves() (stop func(enough int64)) {
	ctx, cancel := context.WithCancel(s.ctx)
	var moving sync.WaitGroup
	var moved atomic.Int64
	moving.Go(func() {
		what := [][]string{{exchange.Name}}
		for _, sw := range s.switches {
			what = append(what, []string{"--switch", sw.name().String()})
		}
		for n := 0; ctx.Err() == nil; n++ {
			group := strconv.Itoa(1 + (n+n/len(what))%3)
			if _, err := s.Command(ctx, append(append([]string{"move"}, what[n%len(what)]...), group)...); err == nil {
				moved.Add(1)
			}
		}
	})
	s.t.Cleanup(func() { cancel(); moving.Wait() })
	return func(enough int64) {
		s.t.Helper()
		await.Until(s.t, "moves", func() bool { return moved.Load() >= enough })
		cancel()
		moving.Wait()
		s.t.Logf("%d moves", moved.Load())
	}
}

// TestMembersOfGroups: while packets pass several groups, and their actor and the switches move, a controller joins
// and gets a group and replicas of others, another one takes the place of one that has lost its disk, the number of
// replicas changes, and one leaves.
func TestMembersOfGroups(t *testing.T) {
	t.Parallel()
	s := withAgents.startStreams(t, cluster.Config{Controllers: 5, Later: 2})
	stop := s.exchanges()
	stopMoves := s.moves()
	three, four, five := s.Controllers()[2], s.Controllers()[3], s.Controllers()[4]
	s.check(four.Join())
	s.member("add", "c4")
	s.placed(4, "c1", "c2", "c3", "c4")
	s.member("replication", "3")
	s.placed(3, "c1", "c2", "c3", "c4")

	s.check(three.Kill())
	s.check(five.Join())
	s.member("replace", "c3", "c5")
	s.placed(3, "c1", "c2", "c4", "c5")

	four.ExpectEnd()
	s.member("remove", "c4")
	s.ends(four, "removed from the group")
	s.placed(3, "c1", "c2", "c5")
	stopMoves(10)
	stop()
	s.residence("application " + exchange.Name)
	for _, sw := range s.switches {
		s.residence("switch " + sw.name().String())
	}
	t.Logf("%+v", s.exactStreams())
}
