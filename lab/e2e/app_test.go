package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestTimersSurviveFailover sets timers, kills the leader, and checks that each fires once.
func TestTimersSurviveFailover(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"alarm"}})
	s.connect()
	sw := s.switches[0]
	sw.packetIn("early 1ms")
	if err := sw.wait(1); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"late 3s", "never 3s", "moved 1h", "later 3500ms", "never off", "moved 3s"} {
		sw.packetIn(text)
	}
	s.await("the timers to be set", func(st cluster.Status) bool { return st.Switches[0].EventsLogged == 8 })
	s.check(s.leader().Kill())
	if n := len(sw.executed()); n > 1 {
		t.Fatalf("%d timers rang before the leader died: the machine is too slow for this test", n-1)
	}
	if err := sw.wait(4); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // in which nothing must ring again
	rang := sw.packetOuts()
	slices.Sort(rang)
	if want := []string{"early rings", "late rings", "later rings", "moved rings"}; !slices.Equal(rang, want) {
		t.Errorf("rang: %q, want %q", rang, want)
	}
	s.exact()
}

// TestFailingApplication shows that a failed handler has no effect, that the other applications continue, and that the
// failure is in the log and in the audit.
func TestFailingApplication(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"fragile", "counter"}})
	s.connect()
	sw := s.switches[0]
	for i, text := range []string{"good", "panic", "error", "good"} {
		sw.packetIn(text)
		if err := sw.wait([]int{4, 7, 10, 14}[i]); err != nil { // 3 of counter, 1 of fragile
			t.Fatal(err)
		}
	}
	leader := s.leader()
	if r := s.exact(); r.Failures != 2 {
		t.Errorf("%d failures are in the audit, not 2", r.Failures)
	}
	var fragile []string
	for _, out := range sw.packetOuts() {
		if strings.HasPrefix(out, "+") {
			fragile = append(fragile, out)
		}
	}
	if want := []string{"+", "++"}; !slices.Equal(fragile, want) {
		t.Errorf("fragile sent %q, want %q: what it did when it failed must not count", fragile, want)
	}
	for _, reason := range []string{"panic: runtime error", "this is not a packet that I like"} {
		if n := s.countLines(leader.LogFile(), "level=ERROR", "app=fragile", reason); n != 1 {
			t.Errorf("%d lines about %q in the log of the leader, not 1", n, reason)
		}
		if !slices.ContainsFunc(s.audit(leader), func(r audit.Record) bool {
			return r.Kind == audit.Failure && r.App == "fragile" && strings.Contains(r.Error, reason)
		}) {
			t.Errorf("no record of %q in the audit", reason)
		}
	}
	s.agree(s.Controllers())
	s.check(leader.Kill()) // a failure must not trip those that read it from the log
	sw.packetIn("good")
	if err := sw.wait(18); err != nil {
		t.Fatal(err)
	}
	s.exact()
	if outs := fmt.Sprint(sw.packetOuts()); !strings.Contains(outs, "+++") {
		t.Errorf("the next leader has another count: %s", outs)
	}
}
