package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A Core is called soon while something waits for time to pass, when a timer is due, and else rarely.
func TestNextTick(t *testing.T) {
	const timer = 32 * time.Millisecond
	s, r := newRinger(t, ledger.Limits{}, timer)
	expect := func(state string, want time.Duration) {
		t.Helper()
		if got := s.core.NextTick().Sub(s.now); got != want {
			t.Errorf("%s: the next tick is in %v, not in %v", state, got, want)
		}
	}
	s.follow(1)
	s.pass(0)
	expect("a follower that does not reach the leader", TickInterval)
	s.send = func(uint64, []byte) bool { return true }
	s.pass(0)
	expect("a follower", QuietInterval)
	s.pass(QuietInterval / 2)
	expect("a follower, between two ticks of other groups", QuietInterval/2)

	s.lead(2)
	expect("a leader that has not looked at its sessions", TickInterval)
	s.pass(QuietInterval / 2)
	expect("a leader", QuietInterval)
	one := s.attached(1, 1)
	one.events(1, 1, switchUp, packetIn)
	s.turn()
	s.pass(0)
	expect("a leader with entries that are not committed", TickInterval)
	s.settle()
	expect("a leader with a timer", timer)
	s.pass(timer)
	s.settle()
	if len(r.rang) != 1 {
		t.Errorf("the timer rang %d times", len(r.rang))
	}
	expect("a leader without a timer", QuietInterval-timer)
	s.core.Detached(s.now, one)
	s.turn()
	expect("a leader whose switch may be down", TickInterval)
	s.pass(timeout)
	s.settle()
	if got := s.core.NextTick().Sub(s.now); got <= TickInterval {
		t.Errorf("a leader that has said so is called in %v", got)
	}
}
