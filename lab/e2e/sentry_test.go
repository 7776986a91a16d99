package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// A sentry that is stopped for a while does not report its links as dead, because it knows that it slept. It
// reports a link that is cut. When it ends, it withdraws its reports.
func TestSentry(t *testing.T) {
	t.Parallel()
	lab := netlab.ForTest(t)
	var switches [2]*netlab.Switch
	for i := range switches {
		var err error
		switches[i], err = lab.AddSwitch([]string{"s1", "s2"}[i], uint64(i+1))
		check(t, err)
	}
	cable, err := lab.Connect(switches[0], switches[1])
	check(t, err)
	for _, sw := range switches {
		check(t, exec.Command("ovs-vsctl", "--db="+sw.Database(), "set", "interface", "p1", "bfd:enable=true",
			"bfd:min_tx=1000", "bfd:min_rx=1000").Run())
	}
	forwarding := func(when string) {
		t.Helper()
		for _, sw := range switches {
			await.Until(t, when+", switch "+sw.Name+" to forward", func() bool { return forwards(t, sw, "p1") })
		}
	}
	forwarding("with BFD")

	s := startSentry(t, "--interval-ms", "100", "--switch", switches[0].Control(), "--switch", switches[1].Control())
	s.await("up", "alive", 2)
	for range 5 {
		s.signal(syscall.SIGSTOP)
		time.Sleep(600 * time.Millisecond) // longer than three intervals
		s.signal(syscall.SIGCONT)
		time.Sleep(400 * time.Millisecond)
	}
	s.await("after standstills", "alive", 2)
	s.await("after standstills", "", 2)

	check(t, cable.CutSilently())
	s.await("cut", "dead", 2)
	for _, sw := range switches {
		await.Until(t, "switch "+sw.Name+" to be told", func() bool { return !forwards(t, sw, "p1") })
	}
	check(t, cable.Restore())
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if !s.cmd.ProcessState.Success() {
		t.Errorf("it ended with %v", s.cmd.ProcessState)
	}
	forwarding("with the sentry ended")
}

// forwards reports whether the groups of a switch use an interface.
func forwards(t *testing.T, sw *netlab.Switch, name string) bool {
	t.Helper()
	ctl, err := appctl.Dial(sw.Control(), 10*time.Second)
	check(t, err)
	defer ctl.Close()
	text, err := ctl.Call("bfd/show")
	check(t, err)
	return appctl.Sessions(text)[name].Forwarding
}

// sentryProcess is holdfast sentry.
type sentryProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	events string        // path of the file with events
	ended  chan struct{} // closed when the process has ended
}

// startSentry starts a sentry that writes events as JSON, until the end of the test.
func startSentry(t *testing.T, args ...string) *sentryProcess {
	t.Helper()
	s := &sentryProcess{t: t, events: filepath.Join(t.TempDir(), "events"), ended: make(chan struct{})}
	events, err := os.Create(s.events)
	check(t, err)
	defer events.Close()
	var log strings.Builder // to read after ended
	s.cmd = exec.Command(plain, append([]string{"sentry", "--json"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = events, &log
	check(t, lifeline.Start(s.cmd, func() { _ = s.cmd.Wait(); close(s.ended) })) // how it ended is in its ProcessState
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // fails if it has ended
		<-s.ended
		if t.Failed() {
			t.Log(log.String(), strings.Join(lines(t, s.events), "\n"))
		}
	})
	return s
}

func (s *sentryProcess) signal(sig os.Signal) {
	s.t.Helper()
	check(s.t, s.cmd.Process.Signal(sig))
}

// await waits until links have entered a state this many times; "" is any state. More often is an error.
func (s *sentryProcess) await(when, state string, times int) {
	s.t.Helper()
	count := func() int { return len(lines(s.t, s.events, `"state":"`+state)) }
	await.Until(s.t, when+", links to be "+state, func() bool { return count() >= times })
	if n := count(); n > times {
		s.t.Errorf("%s, %d times a link was %s, want %d:\n%s", when, n, state, times,
			strings.Join(lines(s.t, s.events), "\n"))
	}
}

// TestRecoveryWithSentry runs a sentry beside switches with application recovery whose own BFD is slow: traffic resumes
// before the switches notice that its link is cut, and returns to the link without losing a frame.
func TestRecoveryWithSentry(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	direct, others := [2]int{1, 2}, [][2]int{{1, 3}, {2, 3}}
	r := withAgents.startRecovery(t, 3, cluster.Config{}, "hold_down_ms: 3000", "floor_ms: 500, multiplier: 5", direct,
		others[0], others[1])
	r.meet(1, 2)
	r.protected("at first", direct, true)
	for l := range r.links {
		await.Until(t, fmt.Sprintf("BFD on link %v", l),
			func() bool { return r.bfd(l, "state") == [2]string{"up", "up"} })
	}
	args := []string{"--interval-ms", "100"} // other tests run beside this one: no link may seem dead for their load
	for _, sw := range r.nodes {
		args = append(args, "--switch", sw.Control())
	}
	watch := startSentry(t, args...)
	watch.await("at first", "alive", 2*len(r.links))
	s := r.stream(1, 2)
	s.flows("at first")

	r.check(r.links[direct].CutSilently())
	watch.await("cut", "dead", 2)
	s.flows("with the link cut")
	// If the machine stood still for 2.5 s, the switches detected the failure themselves. TestSentry shows that the
	// sentry reports it.
	if got := r.bfd(direct, "state"); got != [2]string{"up", "up"} {
		t.Logf("BFD of the switches was as fast, and says %v: this run shows less", got)
	}
	r.protected("without the link", direct, false)

	r.mend(s, direct, others...)
	watch.await("mended", "alive", 2*len(r.links)+2)
	s.stop()
	if list := s.repeated(); len(list) > 0 {
		t.Errorf("frames %v arrived more than once", list)
	}
	r.exact()
}
