package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
	"github.com/holdfast-sdn/holdfast/lab/relay"
)

// TestBundleRejected: one transaction sends three commands to an Open vSwitch, of which the switch refuses the
// second. Another transaction sends a valid one. None of the three is executed, the valid one is, and the
// application learns which command was refused and why.
func TestBundleRejected(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	s := stockOVS.start(t, 2, cluster.Config{Apps: []string{"careless"}})
	s.connect()
	first, other := s.switches[0].(*ovsPlayer), s.switches[1].(*ovsPlayer)
	s.check(first.sw.LimitFlows(apps.CarelessTable, 1))
	_, err := first.sw.OFCtl("add-flow", fmt.Sprintf("table=%d,priority=9,actions=drop", apps.CarelessTable))
	s.check(err)
	for i, c := range []struct{ mistake, answer string }{
		{apps.CarelessMatch, "match 4 9"}, // OFPET_BAD_MATCH, OFPBMC_BAD_PREREQ
		{apps.CarelessGroup, "group 2 9"}, // OFPET_BAD_ACTION, OFPBAC_BAD_OUT_GROUP
		{apps.CarelessFull, "full 5 1"},   // OFPET_FLOW_MOD_FAILED, OFPFMFC_TABLE_FULL
	} {
		first.packetIn(c.mistake)
		if err := other.wait(2 * (i + 1)); err != nil { // a flow, and the answer to the application
			t.Fatal(err)
		}
		outs := other.packetOuts()
		if got := strings.TrimRight(outs[len(outs)-1], "\x00"); got != c.answer {
			t.Errorf("%s: the application hears %q, want %q", c.mistake, got, c.answer)
		}
		if n := careless(t, first); n != 0 {
			t.Errorf("%s: the first switch has %d flows of the bad transaction", c.mistake, n)
		}
		if n := careless(t, other); n != 1 {
			t.Errorf("%s: the other switch has %d flows, want 1", c.mistake, n)
		}
		_, err := other.sw.OFCtl("del-flows", fmt.Sprintf("table=0,dl_type=%#x", apps.CarelessFlows))
		s.check(err)
	}
	s.exact()
}

// careless counts the flows of the application careless.
func careless(t *testing.T, p *ovsPlayer) (n int) {
	t.Helper()
	flows, err := p.sw.Flows()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		if strings.Contains(f, fmt.Sprintf("dl_type=%#x", apps.CarelessFlows)) {
			n++
		}
	}
	return n
}

// TestDeposedLeaderStock is TestDeposedLeader without agents: the old leader finds that it has been slave for a
// while, and that switches which reconnect to it refuse it as master.
func TestDeposedLeaderStock(t *testing.T) {
	inModes(t, []mode{stock, stockOVS}, func(t *testing.T, m mode) {
		c := &chaos{}
		s := m.start(t, 2, cluster.Config{Election: 2 * time.Second, Route: c.route(t)})
		c.testCluster = s
		s.connect()
		s.play(6, nil)
		s.inSync()
		old := s.leader()
		c.relaysOf(old, func(r *route) { r.Set(relay.Silent) }, "c")
		s.check(old.Signal(syscall.SIGSTOP))
		await.Until(t, "another leader", func() bool { return s.leader() != old })
		s.play(6, nil)
		s.stock.cut(old)
		s.check(old.Signal(syscall.SIGCONT))
		s.play(6, nil)
		st, err := old.Status(s.ctx)
		s.check(err)
		if st.Role != "leader" {
			t.Log("the old leader knew that it leads no more: this run shows nothing")
		}
		time.Sleep(500 * time.Millisecond) // in which the switches connect to it
		s.play(6, nil)
		c.relaysOf(old, (*route).heal, "c")
		await.Until(t, "the old leader to follow", func() bool {
			st, err := old.Status(s.ctx)
			return err == nil && st.Role == "follower"
		})
		s.play(6, nil)
		s.exact()
		s.agree(s.Controllers())
	})
}
