package e2e

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Packet-ins of this many hosts are sent while a controller is down. A host that lacks more than 4,096 inputs
// counts as catching up.
const (
	missedInputs   = 10_000
	snapshotInputs = 3_000
	rejoinHosts    = 500
)

// missed sends packet-ins of many hosts, and waits until all are executed.
func (r *ryuCluster) missed(n int) {
	r.t.Helper()
	sw := r.switches[0].(*fakeSwitch)
	before := len(sw.packetOuts())
	for i := range n {
		in := packetIn(of13.Port(1+i%2), r.label())
		src := stranger(i % rejoinHosts)
		copy(in.Data[6:], src[:])
		sw.event(in)
	}
	r.await("all packets to be sent on", func(cluster.Status) bool { return len(sw.packetOuts()) >= before+n })
	r.settled()
}

// takesOver makes a controller that was down the leader. Its applications have the state of the others.
func (r *ryuCluster) takesOver(c *cluster.Controller) {
	r.t.Helper()
	table := "/simpleswitch/mactable/" + dpid(1)
	before := r.rest(r.leader(), "GET", table, "")
	r.lead(c)
	r.running()
	if after := r.rest(c, "GET", table, ""); after != before || len(before) < 20*rejoinHosts {
		r.t.Errorf("%s answers %.200s…, and before the answer was %.200s…", c.Name, after, before)
	}
	r.missed(10)
	if res := r.exact(); res.Failures > 0 {
		r.t.Errorf("%d failures", res.Failures)
	}
	for _, c := range r.Controllers() {
		if st, err := c.Status(r.ctx); err != nil || st.Replayed.Diverged != 0 || st.Replayed.Restarts != 0 {
			r.t.Errorf("%s: %+v, %v", c.Name, st.Replayed, err)
		}
	}
}

// TestRyuRejoin: a controller was down for many inputs. Its host catches up, and the controller becomes the leader.
func TestRyuRejoin(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.simple_switch_rest_13"}})
	r.connect()
	r.missed(10)
	behind := r.followers()[0]
	r.check(behind.Kill())
	r.missed(missedInputs)
	r.check(behind.Restart())
	seen := map[string]bool{}
	r.await(behind.Name+" to be where the others are", func(leader cluster.Status) bool {
		st, err := behind.Status(r.ctx)
		if err != nil {
			return false
		}
		seen[st.Replayed.State] = true
		return st.Replayed.State == "running" && st.Replayed.Executed == leader.Replayed.Inputs
	})
	if !seen["catching up"] {
		t.Errorf("%s was never seen to catch up, but %v", behind.Name, seen)
	}
	r.takesOver(behind)
}

// TestRyuSnapshot: a controller has lost its folder. It receives a snapshot with what its host needs, and becomes
// the leader.
func TestRyuSnapshot(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.simple_switch_rest_13"}, SnapshotEvery: 100})
	r.connect()
	r.missed(snapshotInputs)
	lost := r.leader()
	r.check(lost.Kill())
	r.check(r.Lose(lost))
	r.leader()
	r.missed(snapshotInputs)
	r.check(r.Rename(lost, 4711))
	r.check(lost.Join())
	r.member("replace", lost.Name, lost.Name)
	r.caughtUp(lost)
	r.running()
	if r.restored(lost) == 0 {
		t.Errorf("%s got no snapshot", lost.Name)
	}
	r.takesOver(lost)
}
