package controller

import (
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// ringer sets a timer on its first packet-in, and records when the timer fires and at which ledger time.
type ringer struct {
	after time.Duration
	set   bool
	rang  []time.Time
	last  time.Time
	back  bool // ledger time has gone back
}

func (*ringer) Name() string { return "ringer" }

func (r *ringer) Handle(tx *ledger.Tx, in *ledger.Input) error {
	r.back = r.back || tx.Now().Before(r.last)
	r.last = tx.Now()
	switch {
	case in.Kind == ledger.Timer:
		r.rang = append(r.rang, tx.Now())
	case in.Kind == ledger.Message && !r.set:
		r.set = true
		return tx.SetTimer("ring", r.after, nil)
	}
	return nil
}

func newRinger(t *testing.T, limits ledger.Limits, after time.Duration) (*stand, *ringer) {
	s, r := newStand(t, CoreConfig{}), &ringer{after: after}
	var err error
	s.core, err = NewCore(CoreConfig{Name: "c1", Logger: quiet, SwitchTimeout: timeout,
		Applications: []ledger.Application{r}, Limits: limits}, s)
	s.ok(err)
	return s, r
}

// Timers fire at a leader whose entries are always full and whose consensus is always busy.
func TestTimersAmongEvents(t *testing.T) {
	s, r := newRinger(t, ledger.Limits{BatchInputs: 2, InFlight: 1}, 20*time.Millisecond)
	s.lead(1)
	one := s.attached(1, 1)
	one.events(1, 1, append([][]byte{switchUp}, packetIns(1000)...)...)
	for range 20 { // 20 ticks of 5 ms
		s.turn()
		s.pass(5 * time.Millisecond)
		s.commit()
	}
	if len(s.core.waiting) == 0 {
		t.Fatal("the events did not last")
	}
	if len(r.rang) != 1 {
		t.Errorf("after 100 ms a timer of 20 ms has rung %d times", len(r.rang))
	}
}

// jumped returns a time whose wall clock was set forward by d, or back, while its monotonic clock was not. A time
// that has both keeps the seconds in its first word, from bit 30.
func jumped(t time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(d/time.Second)) << 30
	return t
}

// If the wall clock jumps, timers still fire when their time has passed, and ledger time does not go back.
func TestWallClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		s, r := newRinger(t, ledger.Limits{}, time.Second)
		start := time.Now()
		if got := jumped(start, jump); got.Sub(start) != 0 || got.Round(0).Sub(start.Round(0)) != jump {
			t.Fatalf("a time that jumps by %v is %v after %v", jump, got, start)
		}
		s.now = start
		s.follow(1)
		at := func(since time.Duration) {
			s.now = jumped(start.Add(since), jump)
			s.ok(s.core.Tick(s.now))
			s.turn()
			s.commit()
		}
		s.now = jumped(start, jump) // the clock of a follower jumps too
		s.lead(2)
		one := s.attached(1, 1)
		one.events(1, 1, switchUp, packetIn)
		s.turn()
		s.commit()
		at(999 * time.Millisecond)
		if len(r.rang) != 0 {
			t.Errorf("after a jump of %v a timer rings early", jump)
		}
		jump = -jump
		at(1001 * time.Millisecond)
		if len(r.rang) != 1 {
			t.Errorf("after a jump of %v a timer has rung %d times, want once", jump, len(r.rang))
		} else if late := r.rang[0].Sub(start); late < time.Second || late > 1100*time.Millisecond {
			t.Errorf("after a jump of %v a timer rings at %v of ledger time, want 1 s", jump, late)
		}
		s.follow(3)
		s.lead(4)
		one.events(1, 3, packetIn)
		s.turn()
		if r.back {
			t.Error("ledger time goes back")
		}
	}
}

// A leader whose clock is behind its predecessor's continues from the time in the log.
func TestLeaderWithAnotherClock(t *testing.T) {
	s, r := newRinger(t, ledger.Limits{}, time.Second)
	s.lead(1)
	s.attached(1, 1).events(1, 1, switchUp, packetIn)
	s.turn()
	s.commit()

	next, q := newRinger(t, ledger.Limits{}, time.Second)
	next.now = s.now.Add(-time.Hour)
	next.follow(1)
	next.ok(next.deliver(s.entries...))
	next.lead(2)
	next.pass(999 * time.Millisecond)
	if len(q.rang) != 0 {
		t.Error("a timer rings early")
	}
	next.pass(2 * time.Millisecond)
	if len(q.rang) != 1 || q.rang[0].Before(r.last) {
		t.Errorf("a timer has rung at %v; want once, and not before %v", q.rang, r.last)
	}
}
