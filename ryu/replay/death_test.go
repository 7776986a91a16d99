package replay

import (
	"slices"
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
	for range 10 {
		from := b.now
		for n.host() == nil {
			b.now = b.now.Add(5 * time.Millisecond)
			n.turn()
		}
		waits = append(waits, b.now.Sub(from).Round(10*time.Millisecond))
		n.host().die(End{Reason: "not started", Detail: "no python"})
	}
	want := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000}
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
	n.host().die(End{Reason: "crashed"})
	if wait := n.core.again.Sub(b.now); wait != backoffFirst {
		t.Errorf("after success it waits %v", wait)
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
