package sentry_test

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd/sentry"
	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// A silent cut is detected at both ends long before the switches could detect it. A repaired link is up again.
func TestCutAndMend(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	ends := b.guards()
	b.check(b.cables[0].CutSilently())
	cut := time.Now()
	b.forwarding("after the cut", 1, false, false)
	if d := time.Since(cut); d > prompt {
		t.Errorf("noticed after %v", d)
	}
	for _, g := range ends {
		g.await("cut", 1, sentry.Dead)
	}
	b.check(b.cables[0].Restore())
	for _, g := range ends {
		g.await("mended", 1, sentry.Alive)
		if states := g.of(1); states[1] != sentry.Dead {
			t.Errorf("port 1 was %v", states)
		}
	}
	b.forwarding("mended", 1, true, true)
}

// When the sentry withdraws its report of a dead link, the switch's own BFD has already detected the failure, so
// there is no gap.
func TestLongCut(t *testing.T) {
	t.Parallel()
	const interval = 600 * ms
	b := newBed(t, 1, interval)
	ends := b.guards()
	for i := range ends { // previously they would detect it later
		await.Until(b.t, "the switches to agree on their interval", func() bool {
			text, err := b.call(i, "bfd/show")
			s := appctl.Sessions(text)["p1"]
			return err == nil && s.Tx == interval && s.Rx == interval && s.Detection <= 3*interval
		})
	}
	b.check(b.cables[0].CutSilently())
	b.forwarding("after the cut", 1, false, false)
	stop := b.always(1, false)
	for _, g := range ends {
		g.await("cut for long", 1, sentry.Unwatched)
		g.want(1, sentry.Alive, sentry.Dead, sentry.Unwatched)
	}
	time.Sleep(300 * ms) // the switches are told shortly after the event
	stop()
	b.check(b.cables[0].Restore())
	for _, g := range ends {
		g.await("mended", 1, sentry.Alive)
	}
	b.forwarding("mended", 1, true, true)
}

// If a sentry ends, the switches monitor the link themselves, and forward as before.
func TestEndOfOne(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	ends := b.guards()
	stop := b.always(1, true)
	ends[1].stop()
	ends[0].await("with the other ended", 1, sentry.Unwatched)
	time.Sleep(300 * ms)
	stop()
	ends[0].want(1, sentry.Alive, sentry.Unwatched)
	again := b.guard(1)
	ends[0].await("with the other back", 1, sentry.Alive)
	again.await("back", 1, sentry.Alive)
	ends[0].want(1, sentry.Alive, sentry.Unwatched, sentry.Alive)
}

// When a switch dies, its neighbour learns at once, although its sentry and its interfaces are alive.
func TestSwitchDies(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	ends := b.guards()
	b.check(b.switches[1].Kill())
	killed := time.Now()
	await.Until(b.t, "the neighbour to leave the link", func() bool { return !b.forwards(0, 1) })
	if d := time.Since(killed); d > prompt {
		t.Errorf("noticed after %v", d)
	}
	ends[0].await("with the switch dead", 1, sentry.Dead)
	b.check(b.switches[1].Start())
	for _, g := range ends {
		g.await("with the switch back", 1, sentry.Alive)
	}
	b.forwarding("with the switch back", 1, true, true)
	if states := ends[0].of(1); states[1] != sentry.Dead {
		t.Errorf("the neighbour's sentry said %v", states)
	}
}

// The report of a sentry that was killed is withdrawn by the next one, even if there is none at the other end.
func TestTakesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	_, err := b.call(0, "bfd/set-forwarding", "p1", "false")
	b.check(err)
	b.forwarding("told that the link is dead", 1, false, true)
	g := b.guard(0)
	b.forwarding("with another sentry", 1, true, true)
	g.want(1)
}

// A second sentry for a switch waits and does no harm. It takes over when the first one ends.
func TestSecond(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	ends := b.guards()
	stop := b.always(1, true)
	second := b.guard(0)
	time.Sleep(1500 * ms) // it has tried
	second.want(1)
	ends[0].stop()
	second.await("with the first ended", 1, sentry.Alive)
	ends[1].await("with the second", 1, sentry.Alive)
	stop()
	ends[1].want(1, sentry.Alive, sentry.Unwatched, sentry.Alive)
}

// A sentry can end while its switch hangs. When the switch continues, its state is as before.
func TestSwitchHangs(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, slow)
	ends := b.guards()
	b.check(b.cables[0].CutSilently())
	b.forwarding("after a cut", 1, false, false)
	ctl, err := appctl.Dial(b.switches[0].Control(), await.Limit)
	b.check(err)
	defer ctl.Close()
	pid, err := ctl.PID()
	b.check(err)
	b.check(syscall.Kill(pid, syscall.SIGSTOP))
	began := time.Now()
	ends[0].stop()
	took := time.Since(began)
	b.check(syscall.Kill(pid, syscall.SIGCONT))
	if took > 8*time.Second {
		t.Errorf("the sentry ended after %v", took)
	}
	b.check(b.cables[0].Restore())
	b.guard(0)
	b.forwarding("when it goes on, with a cable and a sentry", 1, true, true)
}

// A change of one interface does not affect the others of its switch.
func TestOthersDoNotNotice(t *testing.T) {
	t.Parallel()
	const cleared, unplugged, removed, deleted, other = 1, 2, 3, 4, 5
	b := newBed(t, other, slow)
	ends := b.guards()
	stop := b.always(other, true)
	b.check(b.dbs[0].ClearBFD(t.Context(), b.end(0, cleared)))
	b.check(b.cables[unplugged-1].Cut())
	b.check(exec.Command("ovs-vsctl", "--db="+b.switches[0].Database(), "del-port", fmt.Sprintf("p%d", removed)).Run())
	b.check(exec.Command("ip", "-n", b.switches[0].Namespace, "link", "del", fmt.Sprintf("p%d", deleted)).Run())
	for _, port := range []int{cleared, removed} { // on purpose
		ends[1].await("ended at the other switch", port, sentry.Unwatched)
		ends[1].want(port, sentry.Alive, sentry.Unwatched)
	}
	for _, g := range ends {
		g.await("unplugged", unplugged, sentry.Unwatched)
	}
	b.check(b.cables[unplugged-1].Restore())
	for _, g := range ends {
		g.await("plugged in again", unplugged, sentry.Alive)
	}
	b.forwarding("plugged in again", unplugged, true, true)
	b.check(b.dbs[0].SetBFD(t.Context(), b.end(0, cleared), ovsdb.BFD{MinTx: slow, MinRx: slow}))
	for _, g := range ends {
		g.await("with BFD again", cleared, sentry.Alive)
	}
	b.forwarding("with BFD again", cleared, true, true)
	for _, g := range ends {
		g.await("deleted", deleted, sentry.Unwatched)
		g.want(other, sentry.Alive)
	}
	stop()
}
