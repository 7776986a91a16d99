package controller

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// If events that an agent holds acknowledgements for are not in this log, the agent is in doubt: the leader sends
// it nothing until an entry of its own is committed. It claims all other agents at once.
func TestDoubt(t *testing.T) {
	for _, tc := range []struct {
		name         string
		id           uint64
		epoch, first uint64
		doubt        bool
	}{
		{"nothing is acknowledged", 1, 5, 1, false},
		{"some is", 1, 5, 3, false},
		{"all is", 1, 5, 4, false},
		{"more than is logged", 1, 5, 5, true},
		{"an epoch before", 1, 4, 9, false},
		{"a new epoch", 1, 6, 1, false},
		{"a new epoch that somebody acknowledged", 1, 6, 2, true},
		{"a new switch", 2, 9, 1, false},
		{"a new switch that somebody acknowledged", 2, 9, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, CoreConfig{})
			s.lead(3)
			one := s.up(1, 5)
			one.events(5, 2, packetIns(2)...)
			s.turn()
			s.commit()
			s.core.Detached(s.now, one)
			s.trace = nil
			f := s.fake(1, one.st.Peer, experimenter.Attach{Epoch: tc.epoch, FirstHeld: tc.first, NextEvent: tc.first})
			if tc.id == 2 {
				f.id = 2
			}
			s.core.Attached(f)
			s.turn()
			if !tc.doubt {
				if len(s.trace) == 0 || s.trace[0] != f.id.String()[15:]+": master in 3" {
					t.Errorf("it was not claimed at once: %q", s.trace)
				}
				return
			}
			s.said()
			s.pass(5 * time.Millisecond) // the tick proposes an empty entry
			s.said()
			s.pass(time.Minute)
			s.said()
			s.commit()
			if want := f.id.String()[15:] + ": refused, stale epoch "; len(s.trace) != 1 ||
				s.trace[0][:len(want)] != want {
				t.Errorf("after its own entry: %q", s.trace)
			}
			s.trace = nil
			s.settle()
			s.said()
		})
	}
}

// inDoubt returns a leader and a session of switch 1 in doubt: its agent was told that event 4 is logged.
func inDoubt(t *testing.T) (*stand, *fake) {
	t.Helper()
	s := newStand(t, CoreConfig{})
	s.app.each = func(*ledger.Tx, *ledger.Input) {} // the application sends no commands
	s.lead(3)
	one := s.up(1, 5)
	one.events(5, 2, packetIns(3)...)
	s.turn() // not committed
	s.core.Detached(s.now, one)
	s.trace = nil
	f := s.attached(1, experimenter.Attach{Epoch: 5, FirstHeld: 5, NextEvent: 6})
	s.turn()
	s.said()
	return s, f
}

func TestDoubtIsResolved(t *testing.T) {
	for _, tc := range []struct {
		name string
		what func(s *stand, f *fake)
		want []string
	}{
		{"the log has it by then", func(s *stand, _ *fake) { s.settle() },
			[]string{"1: ack 5/4", "1: master in 3", "1: ack 5/4"}},
		{"an earlier entry is no answer", func(s *stand, _ *fake) { s.commit() }, []string{"1: ack 5/4"}},
		{"it is gone", func(s *stand, f *fake) { s.core.Detached(s.now, f); s.settle() }, nil},
		{"it is replaced", func(s *stand, f *fake) { s.attached(1, fresh(6)); s.settle() },
			[]string{"1: master in 3", "1: ack 5/1", "1: ack 5/4"}},
		{"another leads", func(s *stand, _ *fake) { s.follow(4); s.settle() }, nil},
		{"another leads by the time of the answer", func(s *stand, _ *fake) {
			s.ok(s.core.Tick(s.now))
			s.ok(s.deliver(s.proposed...))
			s.follow(4)
		}, nil},
		{"it leads again, and has lost it", func(s *stand, _ *fake) { s.follow(4); s.lead(5); s.settle() },
			[]string{"1: refused, stale epoch 5"}},
		{"it leads again, and has it", func(s *stand, _ *fake) {
			lost := s.proposed
			s.follow(4)
			s.ok(s.deliver(lost...))
			s.lead(5)
		}, []string{"1: master in 5", "1: ack 5/4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, f := inDoubt(t)
			tc.what(s, f)
			s.said(tc.want...)
		})
	}
}

// An agent that had a master with a later term is sent REFUSE(lost log) when an entry of this leader that was
// proposed after the refusal is committed, unless it has accepted the leader by then.
func TestFenced(t *testing.T) {
	for _, tc := range []struct {
		name string
		what func(s *stand, f *fake)
		want []string
	}{
		{"it is not proved", func(s *stand, _ *fake) { s.pass(time.Minute) }, nil},
		{"an earlier entry proves nothing", func(s *stand, _ *fake) {
			s.ok(s.deliver(s.proposed[:1]...))
			s.turn()
		}, []string{"1: ack 5/2"}},
		{"it is proved", func(s *stand, _ *fake) { s.settle() }, []string{"1: ack 5/2", "1: refused, lost log 5"}},
		{"it has accepted", func(s *stand, f *fake) { f.st.Fenced = false; s.settle() }, []string{"1: ack 5/2"}},
		{"another leads", func(s *stand, _ *fake) { s.follow(4); s.settle() }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, CoreConfig{})
			s.app.each = func(*ledger.Tx, *ledger.Input) {}
			s.lead(3)
			f := s.up(1, 5)
			s.settle()
			f.events(5, 2, packetIns(1)...)
			s.turn() // an entry from before the refusal
			f.st.Fenced = true
			s.trace = nil
			s.now = s.now.Add(fencedEvery)
			s.ok(s.core.Tick(s.now))
			if r := s.core.Status().Switches[0].Role; r != "standby" {
				t.Errorf("it says that it is %s", r)
			}
			tc.what(s, f)
			s.said(tc.want...)
		})
	}
}

// An agent that refuses this leader each time, because another controller leads its switch, is told at growing
// intervals. The log says so once per term.
func TestFencedForEver(t *testing.T) {
	var text strings.Builder
	s := newStand(t, CoreConfig{})
	s.core.log = slog.New(slog.NewTextHandler(&text, nil))
	s.app.each = func(*ledger.Tx, *ledger.Input) {}
	s.lead(3)
	f := s.up(1, 5)
	var told []int
	fiveMinutes := func() {
		told = nil
		for at := 0; at < 300; at += 5 {
			f.st.Fenced, s.trace = true, nil
			s.pass(fencedEvery)
			s.settle()
			if slices.Contains(s.trace, "1: refused, lost log 5") {
				told = append(told, at)
				s.core.Detached(s.now, f)
				f = s.attached(1, f.st.Attach)
			}
		}
	}
	fiveMinutes()
	if want := []int{0, 5, 15, 35, 75, 135, 195, 255}; !slices.Equal(told, want) {
		t.Errorf("it is told after %v s, want %v", told, want)
	}
	if n := strings.Count(text.String(), "unless another controller is its master"); n != 1 {
		t.Errorf("the log tells %d times", n)
	}
	s.follow(4)
	s.lead(5)
	fiveMinutes()
	if len(told) < 2 || told[1]-told[0] != 5 {
		t.Errorf("in another term it is told after %v s", told)
	}
	if n := strings.Count(text.String(), "unless another controller is its master"); n != 2 {
		t.Errorf("the log tells %d times in two terms", n)
	}
}
