package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestRegroup: a cluster with one group becomes one with several, one controller after the other, while packets arrive.
// Nothing is lost or repeated, and switches that connect then get other groups.
func TestRegroup(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 3, SnapshotEvery: 200})
	late := s.Agents()[2]
	s.connectTo(s.Agents()[:2]...)
	stop := s.traffic()
	s.regroup()
	s.waitUp(2)
	stop()
	s.member("replication", "3") // until all groups have begun
	s.connectTo(late)
	st := s.waitUp(3)
	if len(st.Groups) != 4 {
		t.Errorf("groups %+v", st.Groups)
	}
	for i, sw := range st.Switches {
		if old := i < 2; (sw.Group == 1) != old {
			t.Errorf("switch %s is in group %d", sw.Switch, sw.Group)
		}
	}
	s.exact()
}

// TestRegroupRyu: applications of Ryu keep their state when their cluster gets several groups.
func TestRegroupRyu(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.simple_switch_13"}})
	r.connect()
	inputs := func(least uint64) uint64 {
		return r.await("the applications to get the packets", func(s cluster.Status) bool {
			return s.Replayed != nil && s.Replayed.Inputs >= least
		}).Replayed.Inputs
	}
	play := func(before uint64) uint64 {
		for range 10 {
			r.switches[0].packetIn("hello")
		}
		inputs(before + 10)
		r.settled()
		return inputs(0)
	}
	before := play(2) // its arrival is two inputs
	r.regroup()
	r.waitUp(1)
	r.running()
	if after := play(before); after != before+10 {
		t.Errorf("the applications have %d inputs, and had %d before", after, before)
	}
	if e := r.exact().Epochs; e != 1 {
		t.Errorf("the switch has begun %d epochs", e)
	}
}

// regroup gives the cluster several groups, one controller after the other.
func (s *testCluster) regroup() {
	s.t.Helper()
	text, err := os.ReadFile(s.ClusterFile())
	s.check(err)
	if out, err := s.Command(s.ctx, "regroup", "--name", "c1"); err == nil || !strings.Contains(err.Error(), "groups: 1") {
		s.t.Errorf("with the old file: %q, %v", out, err)
	}
	s.check(os.WriteFile(s.ClusterFile(), append(text, "groups: per-controller\n"...), 0o600))
	for _, c := range s.Controllers() {
		s.check(c.Signal(syscall.SIGTERM))
		c.WaitEnd()
		for _, says := range []string{"several groups now", "several groups already"} {
			if out, err := s.Command(s.ctx, "regroup", "--name", c.Name); err != nil || !strings.Contains(out, says) {
				s.t.Fatalf("%q, %v, want %q", out, err, says)
			}
		}
		s.auditRegrouped(c)
		s.check(c.Restart())
	}
}

// auditRegrouped changes the number of the group in what a controller has audited so far.
func (s *testCluster) auditRegrouped(c *cluster.Controller) {
	s.t.Helper()
	file := filepath.Join(s.dir, c.Name+".audit")
	text, err := os.ReadFile(file)
	s.check(err)
	s.check(os.WriteFile(file, bytes.ReplaceAll(text, []byte(`{"index":`), []byte(`{"group":1,"index":`)), 0o600))
}
