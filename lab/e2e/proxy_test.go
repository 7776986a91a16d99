package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// questions are packet-ins of switches that are answered with one packet-out each, of the switch.
type questions struct {
	*testCluster
	asked []int // by each switch
}

func newQuestions(s *testCluster) *questions { return &questions{s, make([]int, len(s.switches))} }

func (q *questions) ask(i int) {
	q.asked[i]++
	q.switches[i].packetIn(fmt.Sprintf("packet %d of switch %d", q.asked[i], i+1))
}

// answered asks, and waits for the answers to all questions of the switch.
func (q *questions) answered(i int) {
	q.t.Helper()
	q.ask(i)
	await.Until(q.t, fmt.Sprintf("the answers of switch %d", i+1), func() bool {
		return len(q.switches[i].packetOuts()) >= q.asked[i]
	})
}

// paths waits until the leader has each of the switches by the controller that it knows, with a guarantee.
func (q *questions) paths(guarantee string) (leader int, st cluster.Status) {
	q.t.Helper()
	leader = slices.Index(q.Controllers(), q.leader())
	return leader, q.await("the status of each path", func(st cluster.Status) bool {
		for i, sw := range st.Switches {
			via := q.Controllers()[i].Name
			if i == leader {
				via = ""
			}
			if sw.Role != "master" || sw.Via != via || sw.Guarantee != guarantee {
				return false
			}
		}
		return len(st.Switches) == len(q.switches)
	})
}

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
		q := newQuestions(s)
		for _, killed := range [][]int{{0}, {1}, {0, 1}, nil} { // from the leader on
			for i := range 3 {
				q.answered(i)
			}
			leader, before := q.paths("at-most-once")
			for i := range killed {
				killed[i] = (killed[i] + leader) % 3
				s.check(s.Controllers()[killed[i]].Kill())
			}
			if len(killed) == 1 { // else no majority is left
				q.answered((leader + 2) % 3)
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

// TestAgentsWithOneAddress: each of three agents knows another of the three controllers only. The leader is killed,
// then a follower, then both; then a follower hangs. The guarantee is the full one: events wait at an agent whose only
// controller is dead, and no epoch ends.
func TestAgentsWithOneAddress(t *testing.T) {
	notInShort(t)
	t.Parallel()
	nobody := 0 // ports that nobody listens on
	s := withAgents.start(t, 3, cluster.Config{Apps: []string{"learning"}, Route: func(from, to, addr string) string {
		agent, isAgent := strings.CutPrefix(from, "agent")
		if !isAgent || to == "c"+agent {
			return addr
		}
		nobody++
		return fmt.Sprintf("127.0.0.1:%d", nobody)
	}})
	s.connect()
	q := newQuestions(s)
	_, before := q.paths("exactly-once")
	for _, fault := range []struct {
		of      []int // from the leader on
		signals [2]syscall.Signal
	}{
		{[]int{0}, [2]syscall.Signal{syscall.SIGKILL}},
		{[]int{1}, [2]syscall.Signal{syscall.SIGKILL}},
		{[]int{0, 1}, [2]syscall.Signal{syscall.SIGKILL}},
		{[]int{1}, [2]syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT}},
	} {
		for i := range 3 {
			q.answered(i)
		}
		leader, _ := q.paths("exactly-once")
		var waits []int // switches whose only controller fails
		for _, i := range fault.of {
			i = (i + leader) % 3
			waits = append(waits, i)
			if fault.signals[0] == syscall.SIGKILL {
				s.check(s.Controllers()[i].Kill())
			} else {
				s.check(s.Controllers()[i].Signal(fault.signals[0]))
			}
			q.ask(i)
		}
		if len(waits) == 1 { // else no majority is left
			q.answered((leader + 2) % 3)
		}
		for _, i := range waits {
			if fault.signals[0] == syscall.SIGKILL {
				s.check(s.Controllers()[i].Restart())
			} else {
				s.check(s.Controllers()[i].Signal(fault.signals[1]))
			}
		}
	}
	_, after := q.paths("exactly-once")
	for i, sw := range after.Switches {
		if sw.Epoch != before.Switches[i].Epoch {
			t.Errorf("switch %d has a new epoch", i+1)
		}
	}
	s.exact()
}
