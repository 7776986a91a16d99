package replay

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHostDiesOnce(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[0]
	b.packets(500, "packet")
	n.turn()
	b.commit()
	n.turn()
	n.host().execute()
	n.host().die(End{Reason: "crashed", Input: 67})
	if b.hands != 1 {
		t.Errorf("the leadership is handed over %d times", b.hands)
	}
	if s := n.core.Status(); s.State != "ended" || s.Restarts != 1 || s.LastEnd != "crashed at input 67" ||
		!n.core.Behind() {
		t.Errorf("status %+v", s)
	}
	b.settle()
	b.check()
	if len(n.begun) != 2 || n.begun[1].Number != 0 {
		t.Errorf("begun: %+v", n.begun)
	}
	if n.core.death != (death{}) {
		t.Errorf("it has survived that: %+v", n.core.death)
	}
}

// An idle host may die as well.
func TestIdleHostDies(t *testing.T) {
	b := begun(t, 1)
	b.nodes[0].host().die(End{Reason: "crashed"})
	if b.hands != 1 {
		t.Error("the leadership is not handed over to who has a host")
	}
	b.settle()
	b.check()
}

// An input that no host survives is identified, wherever in a frame it is, and skipped by all.
func TestPoison(t *testing.T) {
	for _, place := range []int{0, 1, 37, 63, 64, 100, 400} {
		b := begun(t, 3)
		b.deadly = holds("poison")
		b.packets(place, "packet")
		b.packets(1, "poison")
		b.packets(500-place, "packet")
		b.settle()
		b.check()
		n := b.nodes[0]
		if left := b.logged(Skip); !slices.Equal(left, []uint64{uint64(place + 3)}) {
			t.Errorf("poison at %d: inputs %d are left out", place, left)
		}
		if n.core.status.Restarts > 3 {
			t.Errorf("poison at %d: it took %d lives", place, n.core.status.Restarts)
		}
		if s := n.core.Status(); s.Generation != 1 || s.State != "running" {
			t.Errorf("poison at %d: status %+v", place, s)
		}
	}
}

// Hosts that have exceeded their memory get more, but not because of an input that is skipped.
func TestMemoryOfSkippedInput(t *testing.T) {
	b := begun(t, 1)
	b.deadly, b.dies = holds("poison"), "leaked"
	n := b.nodes[0]
	leaks := func() (list []int) {
		for _, h := range n.begun {
			list = append(list, h.Leaks)
		}
		return list
	}
	b.packets(100, "packet")
	b.packets(1, "poison")
	b.settle()
	if got := leaks(); !slices.Equal(got, []int{0, 1, 2, 0}) {
		t.Errorf("memory was doubled %v times; want it as before once the input is skipped", got)
	}
	n.host().die(End{Reason: "leaked", Input: 50})
	b.settle()
	b.packets(500, "packet")
	b.settle()
	n.host().die(End{Reason: "crashed"})
	b.settle()
	if got := leaks()[4:]; !slices.Equal(got, []int{1, 1}) {
		t.Errorf("memory was doubled %v times after a leak", got)
	}
}

// If only one host survives an input, that host skips it as well.
func TestPoisonAndSurvivor(t *testing.T) {
	b := begun(t, 3)
	b.deadly = holds("poison")
	b.nodes[2].immune = true
	b.packets(1, "poison")
	b.packets(100, "packet")
	b.settle()
	b.check()
	if s := b.nodes[2].core.Status(); s.Restarts != 0 || len(b.nodes[2].begun) != 2 {
		t.Errorf("%d hosts were begun; status %+v", len(b.nodes[2].begun), s)
	}
}

// There are two inputs that no host survives, and the leader changes while they are identified.
func TestPoisonsAndLeaders(t *testing.T) {
	b := begun(t, 3)
	b.deadly = holds("poison")
	b.packets(10, "packet")
	b.packets(1, "poison")
	b.packets(100, "packet")
	b.packets(1, "poison")
	for i := range 60 {
		b.step()
		if i%7 == 6 {
			b.lead(b.nodes[i%3])
		}
	}
	b.settle()
	b.check()
	if done := b.leader.replayed.Committed(); done.Skipped != 2 {
		t.Errorf("%d inputs are left out", done.Skipped)
	}
}

// An input whose result is in the log cannot be skipped. If only that input prevents the replay, the applications
// begin again.
func TestPoisonedReplay(t *testing.T) {
	b := begun(t, 1)
	b.packets(100, "packet")
	b.packets(1, "poison")
	b.packets(100, "packet")
	b.settle()
	b.deadly = holds("poison")
	b.nodes[0].host().die(End{Reason: "crashed"})
	b.settle()
	// The host dies when it is idle first, and in a frame later.
	if s := b.nodes[0].core.Status(); s.Generation != 2 || s.State != "running" || s.Restarts != 2+beginAfter {
		t.Errorf("status %+v", s)
	}
	if done := b.nodes[0].replayed.Committed(); done.Skipped != 0 {
		t.Error("an input is left out after its result")
	}
	b.packets(100, "packet")
	b.settle()
	b.check()
}

// A follower whose host dies during its replay affects no other controller.
func TestFollowerDiesInReplay(t *testing.T) {
	b := begun(t, 3)
	b.packets(300, "packet")
	b.settle()
	n := b.nodes[2]
	n.host().die(End{Reason: "crashed", Input: 303})
	for n.host() == nil {
		b.step()
	}
	for range 3 {
		b.step()
	}
	n.host().die(End{Reason: "hung", Input: 70})
	b.settle()
	b.check()
	if b.hands > 0 {
		t.Error("a follower hands over what it has not")
	}
}

func TestBackoff(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[1]
	var waits []time.Duration
	n.host().die(End{Reason: "crashed"})
	for range 12 {
		from := b.now
		for n.host() == nil {
			b.now = b.now.Add(5 * time.Millisecond)
			n.turn()
		}
		waits = append(waits, b.now.Sub(from).Round(10*time.Millisecond))
		n.host().die(End{Reason: "not started", Detail: "no python"})
	}
	want := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(waits, want) {
		t.Errorf("it waits %v, want %v", waits, want)
	}
	if got := n.core.Status().LastEnd; got != "not started" {
		t.Errorf("its last end is %q: there was no input", got)
	}
	b.settle()
	b.check()
	if got := n.core.Status(); got.Failure != "" || got.State != "running" {
		t.Errorf("after success the status is %+v", got)
	}
	n.host().die(End{Reason: "crashed"})
	if wait := n.core.again.Sub(b.now); wait != backoffMost {
		t.Errorf("it dies soon after a start, as before, and waits %v", wait)
	}
	b.now = b.now.Add(backoffMost)
	b.settle()
	b.now = b.now.Add(backoffMost)
	b.settle()
	n.host().die(End{Reason: "crashed"})
	if wait := n.core.again.Sub(b.now); wait != backoffFirst {
		t.Errorf("after success that lasted it waits %v", wait)
	}
}

// TestCannotLoad: no host can load the applications. The status and one log line say why, the attempts get rarer, and
// when it succeeds all is as if it had been so from the beginning.
func TestCannotLoad(t *testing.T) {
	b := newBed(t, 2)
	var said bytes.Buffer
	n := b.nodes[0]
	n.core.log = slog.New(slog.NewTextHandler(&said, nil))
	b.lead(n)
	b.up()
	died := func(why string) {
		t.Helper()
		for range 20_000 {
			if n.host() != nil {
				break
			}
			b.now = b.now.Add(5 * time.Millisecond)
			n.turn()
			b.commit()
		}
		n.host().die(End{Reason: "fatal", Detail: why + "\nTraceback\nlast line"})
	}
	for i := range 5 {
		died("mine.py, line 7: ValueError: no")
		s := n.core.Status()
		if s.State != "cannot load" || s.Failure != "mine.py, line 7: ValueError: no" || s.Attempts != uint64(i+1) ||
			s.NextAttempt.Sub(b.now) != backoffFirst<<i || s.Detail != "Traceback\nlast line" || !n.core.Behind() {
			t.Errorf("after %d attempts: %+v", i+1, s)
		}
	}
	died("mine.py, line 8: ValueError: no")
	if text := said.String(); strings.Count(text, "level=ERROR") != 2 || strings.Count(text, "still cannot") != 4 {
		t.Errorf("the log says\n%s", text)
	}
	if b.hands != 6 {
		t.Errorf("the leadership was offered %d times", b.hands)
	}
	b.packets(10, "packet")
	b.settle()
	b.check()
	if s := n.core.Status(); s.State != "running" || s.Failure != "" || !s.NextAttempt.IsZero() {
		t.Errorf("at last: %+v", s)
	}
}

// A skipped input is logged once. If that record is lost, the next leader logs it.
func TestLeftOutOnce(t *testing.T) {
	b := begun(t, 2)
	b.packets(10, "packet")
	b.leader.turn()
	b.commit()
	b.nodes[1].catchUp(len(b.log))
	for _, n := range b.nodes {
		n.core.death = death{input: 5, times: leaveOutAfter}
	}
	for range 3 {
		b.nodes[0].turn()
		b.nodes[0].host().execute() // it survives, but its result is not logged
	}
	if results := b.nodes[0].replayed.Hosting().Results; results != 4 {
		t.Errorf("%d results are logged", results)
	}
	if len(b.nodes[0].proposed) > 2 {
		t.Fatalf("%d entries are proposed", len(b.nodes[0].proposed))
	}
	b.lead(b.nodes[1])
	b.settle()
	if left := b.logged(Skip); !slices.Equal(left, []uint64{5}) {
		t.Errorf("inputs %d are left out", left)
	}
	b.check()
}

// A controller that begins afresh repeats nothing: when its host ends, the applications begin with the switches that
// are up. No second host verifies a checkpoint, and the history is deleted nevertheless.
func TestBeginAfresh(t *testing.T) {
	b := newBed(t, 1)
	n := b.nodes[0]
	n.core.BeginAfresh()
	n.core.bounds.checkpointEvery = 50
	b.lead(n)
	b.up()
	b.packets(200, "packet")
	b.settle()
	if base, state := n.replayed.Checkpoint(); base == 0 || len(state) > 0 || len(n.begun) != 1 {
		t.Errorf("the history begins after %d, %d hosts were started", base, len(n.begun))
	}
	n.host().die(End{Reason: "crashed"})
	b.settle()
	b.packets(1, "packet")
	b.settle()
	if s := n.core.Status(); s.Generation != 2 || s.State != "running" || s.Executed > 4 {
		t.Errorf("status %+v", s)
	}
	if len(n.begun) != 2 || n.begun[1].Number != 0 || n.begun[1].Seed == n.begun[0].Seed {
		t.Errorf("begun: %+v", n.begun)
	}
	b.check()
}
