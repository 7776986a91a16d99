package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// cookies returns the cookies of the flow-mods that a switch has received.
func cookies(p player) (list []uint64) {
	for _, msg := range p.executed() {
		var mod of13.FlowMod
		if msg[1] == of13.TypeFlowMod && mod.Decode(msg) == nil && mod.Cookie != 0 {
			list = append(list, mod.Cookie)
		}
	}
	return list
}

// says makes a switch send packets, each after the learning switch has flooded the previous one.
func (r *ryuCluster) says(p player, words ...string) {
	r.t.Helper()
	for _, w := range words {
		r.played++
		text := fmt.Sprintf("packet %d %s", r.played, w)
		p.packetIn(text)
		r.await(text+" to be sent out", func(cluster.Status) bool { return slices.Contains(p.packetOuts(), text) })
	}
}

// TestRyuBadApplication: an application raises an exception, ends its process, and loops for ever. The other
// application and the network continue.
func TestRyuBadApplication(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.simple_switch_rest_13", ownApp(t, "bad")}})
	r.connect()
	sw := r.switches[0]
	r.says(sw, "good", "raise", "good")
	if got := cookies(sw); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("the application has sent %d: what it sent before it raised must not count, and what it knows must",
			got)
	}
	const raised = "no such packets, please"
	leader := r.leader()
	await.Until(t, "the failure in the log of the leader", func() bool {
		return r.countLines(leader.LogFile(), "level=ERROR", "app=Bad", "replayed input", "ValueError: "+raised) == 1 &&
			r.countLines(leader.LogFile(), "in do_raise") == 1
	})
	table := "/simpleswitch/mactable/" + dpid(1)
	for i, word := range []string{"exit", "loop"} {
		before := r.leftOut()
		r.played++
		sw.packetIn(fmt.Sprintf("packet %d %s", r.played, word))
		r.says(sw, "good", "good")
		if n := r.leftOut(); n != before+1 {
			t.Errorf("%s: %d inputs are left out, %d before", word, n, before)
		}
		// Both applications behave as if that packet had never arrived.
		if got, want := cookies(sw), []uint64{1, 3, 4, 5, 6, 7}; !slices.Equal(got, want[:4+2*i]) {
			t.Errorf("%s: the application has sent %d, want %d", word, got, want[:4+2*i])
		}
		r.running()
		for _, c := range r.Controllers() {
			if st, err := c.Status(r.ctx); err != nil || st.Replayed.Restarts == 0 {
				t.Errorf("%s: the host of %s is said to have lived: %+v, %v", word, c.Name, st.Replayed, err)
			}
		}
	}
	want := r.rest(r.leader(), "GET", table, "")
	r.strike()
	r.says(sw, "good")
	if got := r.rest(r.leader(), "GET", table, ""); got != want {
		t.Errorf("after a failover the table is %s, and was %s", got, want)
	}
	if got := cookies(sw); got[len(got)-1] != 8 {
		t.Errorf("after a failover the application has sent %d", got)
	}
	if res := r.exact(); res.Failures != 1 {
		t.Errorf("%d failures in the audit, not 1", res.Failures)
	}
}

// leftOut returns how many inputs were skipped by leaders.
func (r *ryuCluster) leftOut() (n int) {
	for _, c := range r.Controllers() {
		n += r.countLines(c.LogFile(), "level=ERROR", "all controllers skip it")
	}
	return n
}

// TestRyuDivergence: an application uses data that is not in its messages, so it differs between controllers. The
// operator is told.
func TestRyuDivergence(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for _, from := range []string{"proc", "socket"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.simple_switch_13", ownApp(t, "bad")}})
			r.connect()
			sw := r.switches[0]
			r.says(sw, "good", "good")
			for _, c := range r.Controllers() {
				if st, err := c.Status(r.ctx); err != nil || st.Replayed.Diverged != 0 {
					t.Errorf("%s: what is deterministic is said not to be: %+v, %v", c.Name, st.Replayed, err)
				}
			}
			r.says(sw, from)
			leader := r.leader()
			await.Until(t, "the followers to see that they differ", func() bool {
				for _, c := range r.Controllers() {
					if st, err := c.Status(r.ctx); c != leader && (err != nil || st.Replayed.Diverged == 0) {
						return false
					}
				}
				return true
			})
			for _, c := range r.followers() {
				if n := r.countLines(c.LogFile(), "level=ERROR", "is not deterministic"); n != 1 {
					t.Errorf("%d lines of %s say so", n, c.Name)
				}
			}
			out, err := r.Command(r.ctx, "status")
			r.check(err)
			if !strings.Contains(strings.ToLower(out), "diverge") && !strings.Contains(out, "deterministic") {
				t.Errorf("holdfast status does not say that the applications differ:\n%s", out)
			}
			r.says(sw, "good") // it continues with the results of the leader
			r.strike()
			r.says(sw, "good")
			r.exact()
		})
	}
}
