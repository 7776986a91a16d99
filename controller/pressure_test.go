package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// fill brings a switch up with n commands that are not done, and clears the trace.
func (s *stand) fill(id openflow.DatapathID, n int) *fake {
	s.t.Helper()
	f := s.up(id, 5)
	f.events(5, 2, packetIns(n)...)
	s.turn()
	s.commit()
	s.trace = nil
	return f
}

// done reports that the switch has executed its commands up to seq, and commits that.
func (s *stand) done(f *fake, seq uint64) {
	s.t.Helper()
	s.core.CommandsDone(f, 5, seq)
	s.pass(5 * time.Millisecond)
	s.commit()
}

func (s *stand) filled(id openflow.DatapathID, want int) {
	s.t.Helper()
	if got := s.core.Ledger().Filled(id); got != want {
		s.t.Errorf("switch %d has used up %d %% of its bound, want %d", id, got, want)
	}
}

// The events of a switch that has used a quarter of its bound are not executed. Those of other switches are, even
// if they cause commands for it.
func TestHoldAtAQuarter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		peer   southbound.Peer
		first  int // number of packet-ins
		then   int
		said   []string
		filled int
	}{
		{"below", southbound.Agent, 24, 0, nil, 24},
		{"to it, and no further", southbound.Agent, 25, 0, nil, 25},
		{"at it", southbound.Agent, 25, 1, []string{"1: hold", "1: taken"}, 25},
		{"in the middle of a block", southbound.Agent, 10, 90, []string{"1: hold", "1: taken"}, 25},
		{"no agent, nobody to keep them", southbound.Legacy, 25, 10, []string{"1: taken"}, 35},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, hundred)
			s.lead(3)
			one := s.up(1, 5)
			one.st.Peer = tc.peer
			one.events(5, 2, packetIns(tc.first)...)
			s.turn()
			s.commit()
			s.trace = nil
			if tc.then > 0 {
				one.events(5, uint64(2+tc.first), packetIns(tc.then)...)
			}
			s.turn()
			s.said(tc.said...)
			s.filled(1, tc.filled)
		})
	}
	t.Run("events of others", func(t *testing.T) {
		s := newStand(t, hundred)
		s.lead(3)
		s.fill(1, 25)
		two := s.up(2, 5)
		s.app.each = func(tx *ledger.Tx, _ *ledger.Input) { _, _ = tx.SendBytes(1, packetIn) }
		two.events(5, 2, packetIns(40)...)
		s.turn()
		s.said("2: taken")
		s.filled(1, 65)
	})
	t.Run("a session that was replaced", func(t *testing.T) {
		s := newStand(t, hundred)
		s.lead(3)
		old := s.fill(1, 25)
		s.attached(1, 5)
		s.trace = nil
		old.events(5, 27, packetIn)
		s.turn()
		s.said("1: taken") // only the current session is held up; events of a replaced one are executed
		s.filled(1, 26)
	})
}

// heldUp brings up a switch, with n commands that are not done, whose events are held up.
func (s *stand) heldUp(id openflow.DatapathID, n int) *fake {
	s.t.Helper()
	f := s.fill(id, n)
	f.events(5, uint64(n+2), packetIn)
	s.turn()
	s.said(fmt.Sprintf("%d: hold", id), fmt.Sprintf("%d: taken", id))
	return f
}

// The agent is asked for its events again once its switch has caught up to an eighth of the bound. At a quarter it
// is held up again.
func TestResumeWhenCaughtUp(t *testing.T) {
	s := newStand(t, hundred)
	s.lead(3)
	one := s.heldUp(1, 25)
	s.done(one, 12)
	s.filled(1, 13)
	s.pass(5 * time.Millisecond)
	s.said()
	s.core.CommandsDone(one, 5, 13)
	s.pass(5 * time.Millisecond)
	s.said() // the completion is not logged yet
	s.commit()
	s.said() // the request is sent at a tick
	s.pass(5 * time.Millisecond)
	s.said("1: resend")
	s.pass(time.Second)
	s.said() // only once
	one.events(5, 27, packetIns(20)...)
	s.turn()
	s.said("1: hold", "1: taken")
	s.filled(1, 25)
}

// A hold lasts at most half a second. Then some events pass, and half a second later some more.
func TestSomePassAfterTheHoldTime(t *testing.T) {
	s := newStand(t, hundred)
	s.lead(3)
	one := s.heldUp(1, 25)
	next := uint64(27)
	for _, filled := range []int{31, 37, 43} {
		s.pass(holdTime - time.Millisecond)
		s.said()
		s.pass(time.Millisecond)
		s.said("1: resend")
		one.events(5, next, packetIns(50)...)
		s.turn()
		s.said("1: hold", "1: taken")
		s.commit()
		s.trace = nil
		s.filled(1, filled)
		next += somePass
	}
	// The switch catches up, and the hold is as at the beginning.
	s.done(one, 43)
	s.pass(5 * time.Millisecond)
	s.said("1: resend")
	one.events(5, next, packetIns(50)...)
	s.turn()
	s.said("1: hold", "1: taken")
	s.filled(1, 25)
}

// The hold time restarts when further events are held up.
func TestHoldTimeBeginsAtTheLastHold(t *testing.T) {
	s := newStand(t, hundred)
	s.lead(3)
	one := s.heldUp(1, 25)
	s.now = s.now.Add(holdTime / 2)
	one.events(5, 27, packetIn) // was in flight when the hold began
	s.turn()
	s.said("1: hold", "1: taken")
	s.pass(holdTime / 2)
	s.said()
	s.pass(holdTime / 2)
	s.said("1: resend")
}

// A hold ends with the session and with the term.
func TestHoldIsForgotten(t *testing.T) {
	for _, tc := range []struct {
		name string
		what func(s *stand, one *fake)
		want []string
	}{
		{"detached", func(s *stand, one *fake) { s.core.Detached(s.now, one) }, nil},
		{"replaced", func(s *stand, one *fake) { s.attached(1, 5) },
			[]string{"1: master in 3", "1: ack 5/26", "1: commands 5/1-25 in 3"}},
		{"not by the end of a session before", func(s *stand,
			one *fake) {
			s.core.Detached(s.now, s.fake(1, southbound.Agent, 0))
		},
			[]string{"1: resend"}},
		{"leads no more", func(s *stand, one *fake) { s.follow(4) }, nil},
		{"leads anew", func(s *stand, one *fake) { s.lead(5) },
			[]string{"1: master in 5", "1: ack 5/26", "1: commands 5/1-25 in 5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, hundred)
			s.lead(3)
			one := s.heldUp(1, 25)
			tc.what(s, one)
			s.pass(holdTime)
			s.said(tc.want...)
		})
	}
}

// Agents are asked in the order of datapath ids.
func TestResumeInOrder(t *testing.T) {
	s := newStand(t, hundred)
	s.lead(3)
	for _, id := range []openflow.DatapathID{7, 3, 8, 5, 1} {
		s.heldUp(id, 25)
	}
	s.pass(holdTime)
	s.said("1: resend", "3: resend", "5: resend", "7: resend", "8: resend")
}

// No agent is asked for events while a snapshot waits for the entries in flight.
func TestNoResumeWhileDraining(t *testing.T) {
	cfg := hundred
	cfg.SnapshotEvery = 4
	s := newStand(t, cfg)
	s.lead(3)
	two := s.up(2, 5)
	s.heldUp(1, 25)
	two.events(5, 2, packetIn)
	s.turn()
	two.events(5, 3, packetIn)
	s.commit() // a snapshot is due, and another entry is in flight
	s.trace = nil
	s.pass(holdTime)
	s.said()
	s.commit()
	s.trace = nil
	s.pass(5 * time.Millisecond)
	s.said("1: resend")
}

// Whatever the switch does, no more events are executed than the hold allows, and no hold lasts longer than the
// hold time.
func TestPressureProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStand(rt, hundred)
		s.lead(3)
		one := s.up(1, 5)
		allowed, held := holdAt, time.Time{}
		for range rapid.IntRange(20, 200).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				if held.IsZero() { // otherwise the session drops them
					st := s.core.Ledger().Switches()[0]
					one.events(5, st.Events+1, packetIns(rapid.IntRange(1, 60).Draw(rt, "events"))...)
				}
			case 1:
				s.core.CommandsDone(one, 5, rapid.Uint64Range(0, one.sent).Draw(rt, "done"))
			case 2:
				s.pass(time.Duration(rapid.IntRange(1, 200).Draw(rt, "ms")) * time.Millisecond)
			case 3:
				s.commit()
			}
			s.turn()
			filled := s.core.Ledger().Filled(1)
			for _, line := range s.trace {
				switch line {
				case "1: hold":
					held = s.now
				case "1: resend":
					held = time.Time{}
					if allowed = max(holdAt, filled+somePass); filled <= resumeAt {
						allowed = holdAt
					}
				}
			}
			s.trace = nil
			if filled > allowed {
				rt.Fatalf("its own events have used up %d %% of the bound, %d are allowed", filled, allowed)
			}
			if !held.IsZero() && s.now.Sub(held) > holdTime+200*time.Millisecond {
				rt.Fatalf("held up for %v", s.now.Sub(held))
			}
			if allowed >= 100 {
				return // the switch accepts no commands at all, so its epoch may be closed
			}
		}
	})
}

// When another group has taken something, a few of the switches that wait for that try again, and then others.
func TestFewTryAgainAtATime(t *testing.T) {
	const switches = 2*maxRetries + 5
	s := newStand(t, CoreConfig{})
	s.lead(3)
	for id := range openflow.DatapathID(switches) {
		s.up(id+1, 5)
	}
	s.commit()
	for id := range openflow.DatapathID(switches) {
		s.core.holdFull(s.now, id+1, s.core.sessions[id+1])
	}
	resent := map[string]bool{}
	s.now = s.now.Add(holdTime)
	for range 3 {
		s.trace = nil
		s.pass(time.Millisecond)
		n := 0
		for _, said := range s.trace {
			if strings.HasSuffix(said, ": resend") {
				resent[said] = true
				n++
			}
		}
		if n > maxRetries {
			t.Errorf("%d switches try again at a time", n)
		}
		for id := range openflow.DatapathID(switches) { // it is full again
			if resent[fmt.Sprintf("%d: resend", id+1)] {
				s.core.holdFull(s.now, id+1, s.core.sessions[id+1])
			}
		}
	}
	if len(resent) != switches {
		t.Errorf("%d of %d switches have tried again", len(resent), switches)
	}
}

// The same of batches that wait in the Core. Those that were not refused go on meanwhile.
func TestFewDeliveriesAreTriedAtATime(t *testing.T) {
	const switches = 2*maxRetries + 5
	core := CoreConfig{Group: 1, Limits: ledger.Limits{OutboxItems: 1}, Directory: func(a ledger.Actor) (
		ledger.Assignment, bool) {
		if a.App != "" {
			return ledger.Assignment{Group: 2, Version: 1}, true
		}
		return ledger.Assignment{Group: 1, Version: 1}, true
	}}
	s := newStand(t, core)
	s.lead(3)
	tried := 0
	s.app.each = func(tx *ledger.Tx, in *ledger.Input) {
		if in.Kind == ledger.Message {
			tried++
			tx.Enter(ledger.Shard{})
		}
	}
	var fakes []*fake
	for id := range openflow.DatapathID(switches) {
		f := s.up(id+1, 5)
		f.st.Peer = southbound.Legacy // nobody keeps its events
		fakes = append(fakes, f)
	}
	s.commit()
	for _, f := range fakes {
		f.events(5, 2, packetIn)
	}
	s.turn()
	if tried != switches || len(s.core.waiting) != switches-1 {
		t.Fatalf("%d of %d were tried, %d wait", tried, switches, len(s.core.waiting))
	}
	for i := range s.core.waiting {
		s.core.waiting[i].refused = s.core.ledger.Relieved() + 2 // of another time
	}
	tried = 0
	s.turn()
	if tried != maxRetries {
		t.Errorf("%d were tried again, want %d", tried, maxRetries)
	}
	s.turn()
	s.turn()
	if tried != switches-1 {
		t.Errorf("%d were tried again, want %d, each once", tried, switches-1)
	}
}
