package heartbeat

import (
	"slices"
	"testing"
)

func ofOnePair(n int) []*Monitor {
	var pair Pair
	list := make([]*Monitor, n)
	for i := range list {
		list[i] = &Monitor{Pair: &pair}
	}
	return list
}

// TestPairSendsOnce has streams on which nothing else passes: as many heartbeats are sent as on one.
func TestPairSendsOnce(t *testing.T) {
	const intervals = 50
	all := ofOnePair(100)
	wrote := make([]bool, len(all))
	sent := 0
	for range intervals * Ticks {
		for i, m := range all {
			send, lost := m.Tick(Seen{Sent: wrote[i], Heard: i == 7, Reading: true})
			if lost {
				t.Fatalf("connection %d is lost, while another one hears", i)
			}
			if wrote[i] = send; send {
				sent++
			}
		}
	}
	if sent < intervals-1 || sent > intervals+1 {
		t.Errorf("%d heartbeats in %d intervals", sent, intervals)
	}
}

// TestPairIsLost has the processes out of reach: each connection that is read is lost in time, though heartbeats are
// sent.
func TestPairIsLost(t *testing.T) {
	all := ofOnePair(5)
	for i, m := range all {
		m.Tick(Seen{Heard: i == 0, Reading: true})
	}
	lost := map[int]int{}
	for n := range 2 * Missed * Ticks {
		for i, m := range all {
			if _, is := m.Tick(Seen{Reading: i != 4}); is && lost[i] == 0 {
				lost[i] = n + 1
			}
		}
	}
	for i := range 4 {
		// What the first has heard is news to those before it one tick later.
		if n := lost[i]; n < Missed*Ticks || n > Missed*Ticks+1 {
			t.Errorf("connection %d is lost at tick %d", i, n)
		}
	}
	if lost[4] != 0 {
		t.Error("a connection that is not read is lost")
	}
}

// TestPairWithOneThatIsNotRead has a connection that the other end does not read, and so does not answer. It is always
// the first to send. The others are not lost.
func TestPairWithOneThatIsNotRead(t *testing.T) {
	for _, second := range []bool{false, true} {
		all := ofOnePair(10)
		asked := make([]bool, len(all)) // in the last tick
		for tick := range 100 * Ticks {
			for i, m := range all {
				m.Second = second
				send, lost := m.Tick(Seen{Sent: asked[i], Heard: asked[i] && i > 0, Reading: true})
				if lost {
					t.Fatalf("connection %d is lost at tick %d", i, tick)
				}
				asked[i] = send
			}
		}
	}
}

// TestPairChanges gives a monitor a stream of a new connection, as agents do.
func TestPairChanges(t *testing.T) {
	var before, after Pair
	m, other := &Monitor{Pair: &before}, &Monitor{Pair: &before}
	for range 10 {
		other.Tick(hears)
		m.Tick(quiet)
	}
	m.Pair = &after
	ticks := make([]bool, Missed*Ticks+1) // one more, because the pair is new to it
	for i := range ticks {
		other.Tick(hears)
		_, ticks[i] = m.Tick(quiet)
	}
	if !slices.Contains(ticks, true) {
		t.Error("what an earlier connection hears counts")
	}
}
