package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/relay"
)

// TestDeposedLeader stops a leader, and cuts it off from the others, until another has led for a while. When it resumes
// it believes for an election timeout that it still leads, and agents connect to it whose acknowledged events are not
// in its log. It must not take these events for lost.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	c := newChaos(1)
	c.start(t, 2*time.Second)
	old := c.leader()
	c.relaysOf(old, func(r *route) { r.Set(relay.Silent) }, "c")
	c.check(old.Signal(syscall.SIGSTOP))
	c.await("another leader with new events", func(st cluster.Status) bool {
		return st.Term > 0 && st.Switches[0].EventsLogged > 0 && c.leader() != old
	})
	time.Sleep(300 * time.Millisecond) // in which it acknowledges events
	c.relaysOf(old, (*route).Break, "agent")
	time.Sleep(300 * time.Millisecond) // in which the agents connect again
	c.check(old.Signal(syscall.SIGCONT))
	time.Sleep(500 * time.Millisecond) // in which the old leader has them
	st, err := old.Status(c.ctx)
	c.check(err)
	if st.Role != "leader" || len(lines(t, old.LogFile(), "switch attached")) < 2 {
		t.Log("the old leader knew that it leads no more, or no agent came to it: this run shows nothing")
	}
	c.relaysOf(old, (*route).heal, "c")
	c.finish()
}

// relaysOf changes the relays to and from a controller, for peers whose name has this prefix.
func (c *chaos) relaysOf(n *cluster.Controller, change func(*route), others string) {
	for _, r := range c.relays {
		if r.to == n.Name && strings.HasPrefix(r.from, others) || r.from == n.Name && strings.HasPrefix(r.to, others) {
			change(r)
		}
	}
}
