package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Only committed entries can make an agent begin a new epoch and discard what it holds. Any other error closes the
// session, and the agent sends the events again.
func TestEventsThatAreNotTaken(t *testing.T) {
	for _, tc := range []struct {
		name         string
		epoch, first uint64
		message      []byte
		refused      bool
		why          string // "" means that the events are taken
	}{
		{"the next", 7, 3, packetIn, false, ""},
		{"again", 7, 2, packetIn, false, ""},
		{"again, of an epoch before", 5, 2, packetIn, false, ""},
		{"an epoch before the committed one", 5, 3, packetIn, true, "stale epoch"},
		{"an epoch that never was", 6, 1, switchUp, true, "stale epoch"},
		{"a gap", 7, 4, packetIn, false, "gap"},
		{"a new epoch from its middle", 8, 2, packetIn, false, "gap"},
		{"a new epoch without SWITCH_UP", 8, 1, packetIn, false, "not with SWITCH_UP"},
		{"no message", 7, 3, []byte{4, 10, 0, 3, 0, 0, 0, 0}, false, "length"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, CoreConfig{})
			s.lead(3)
			s.up(1, 5).events(5, 2, packetIn)
			one := s.attached(1, 7)
			one.events(7, 1, switchUp, packetIn)
			s.turn()
			s.commit()
			s.trace = nil
			one.events(tc.epoch, tc.first, tc.message)
			s.turn()
			first, text := s.trace[0], strings.Join(s.trace, "; ")
			if refused := strings.HasPrefix(first, "1: refused, stale epoch 7"); refused != tc.refused {
				t.Errorf("refused %t, want %t: %s", refused, tc.refused, text)
			}
			if tc.why == "" && !strings.HasPrefix(first, "1: taken") || !strings.Contains(text, tc.why) {
				t.Errorf("%s, want %q", text, tc.why)
			}
		})
	}
}

// While a newer epoch is not committed, events of the older one are not refused: if this leader fails, the older
// epoch may be the newest in the log.
func TestStaleEpochIsRefusedOnceCommitted(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	one.events(7, 1, switchUp)
	one.events(5, 2, packetIn)
	s.turn()
	if len(s.trace) != 2 || s.trace[0] != "1: taken" || !strings.HasPrefix(s.trace[1], "1: not taken, ") {
		t.Fatalf("before commit: %q", s.trace)
	}
	s.commit()
	s.trace = nil
	one.events(5, 2, packetIn)
	s.turn()
	if len(s.trace) != 2 || s.trace[0] != "1: refused, stale epoch 7" ||
		!strings.HasPrefix(s.trace[1], "1: not taken, ") {
		t.Errorf("after commit: %q", s.trace)
	}
}

// The epoch of a switch that accepts no commands is closed. When that is committed, the switch is refused, and so
// is every later session with this epoch.
func TestClosedEpoch(t *testing.T) {
	s := newStand(t, hundred)
	s.lead(3)
	one, two := s.up(1, 5), s.up(2, 5)
	s.app.each = func(tx *ledger.Tx, _ *ledger.Input) { tx.Send(1, &of13.BarrierRequest{}) }
	two.events(5, 2, packetIns(101)...)
	s.turn()
	s.said("2: taken")
	one.events(5, 2, packetIn)
	s.turn()
	if len(s.trace) != 1 || !strings.HasPrefix(s.trace[0], "1: not taken, ") {
		t.Errorf("events of an epoch whose end is not committed: %q", s.trace)
	}
	s.trace = nil
	s.commit()
	s.said("2: ack 5/102", "1: ack 5/1", "1: refused, stale epoch 5")
	s.saw("up 1", "up 2", "down 1 unreachable")
	one.events(5, 2, packetIn)
	s.turn()
	if len(s.trace) != 2 || s.trace[0] != "1: refused, stale epoch 5" ||
		!strings.HasPrefix(s.trace[1], "1: not taken, ") {
		t.Errorf("events of a closed epoch: %q", s.trace)
	}
	s.trace = nil
	s.core.Detached(s.now, one)
	s.attached(1, 5)
	s.said("1: master in 3", "1: ack 5/1", "1: refused, stale epoch 5")
	s.attached(1, 6).events(6, 1, switchUp)
	s.turn()
	s.commit()
	s.said("1: master in 3", "1: ack 5/1", "1: taken", "1: ack 6/1")
}

const timeout = 3 * time.Second // of newStand

// absences lists what can happen to a switch that is up, and what applications are told.
var absences = []struct {
	name string
	what func(s *stand, one *fake)
	want []string
}{
	{"not before the timeout", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout - time.Nanosecond)
	}, nil},
	{"at the timeout, once", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout)
		s.pass(timeout)
	}, []string{"down 1 unreachable"}},
	{"back in time", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout / 2)
		s.attached(1, 5)
		s.pass(timeout)
	}, nil},
	{"away again", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout / 2)
		s.core.Detached(s.now, s.attached(1, 5))
		s.pass(timeout - time.Nanosecond)
	}, nil},
	{"the end of a session that was replaced", func(s *stand, one *fake) {
		s.attached(1, 5)
		s.core.Detached(s.now, one)
		s.pass(timeout)
	}, nil},
	{"back late", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout)
		s.attached(1, 5)
		s.settle()
		s.pass(timeout)
	}, []string{"down 1 unreachable", "up 1"}},
	{"back late with a new epoch", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.pass(timeout)
		s.attached(1, 6).events(6, 1, switchUp)
		s.settle()
	}, []string{"down 1 unreachable", "up 1"}},
	{"down already", func(s *stand, one *fake) {
		one.events(5, 2, experimenter.AppendSwitchDown(nil, of13.Version, experimenter.ReasonSilent))
		s.turn()
		s.core.Detached(s.now, one)
		s.pass(timeout)
	}, []string{"down 1 silent"}},
	{"a switch that nobody knows", func(s *stand, _ *fake) {
		s.core.Detached(s.now, s.attached(2, 1))
		s.pass(timeout)
	}, nil},
	{"a new leader waits as long", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.follow(4)
		s.pass(time.Hour)
		s.lead(5)
		s.pass(timeout - time.Nanosecond)
		s.saw()
		s.pass(time.Nanosecond)
	}, []string{"down 1 unreachable"}},
	{"a follower reports nothing", func(s *stand, one *fake) {
		s.core.Detached(s.now, one)
		s.follow(4)
		s.pass(timeout)
	}, nil},
}

// Applications are told once when a switch is away for the timeout, and once when it is back.
func TestAbsentSwitch(t *testing.T) {
	for _, tc := range absences {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, CoreConfig{})
			s.lead(3)
			one := s.up(1, 5)
			s.saw("up 1")
			tc.what(s, one)
			s.saw(tc.want...)
		})
	}
}

// Switches that are away are reported in the order of their datapath ids, as far as there is room.
func TestAbsentSwitchesInOrder(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 2, InFlight: 1}})
	s.lead(3)
	for _, id := range []openflow.DatapathID{5, 9, 2, 7, 1} {
		s.core.Detached(s.now, s.up(id, 5))
	}
	s.app.seen = nil
	s.pass(3 * time.Second)
	s.saw("down 1 unreachable", "down 2 unreachable")
	s.pass(time.Millisecond) // one entry is in flight, and the next has room for two inputs
	s.saw("down 5 unreachable", "down 7 unreachable")
	s.pass(time.Millisecond)
	s.saw()
	s.commit()
	s.pass(time.Millisecond)
	s.saw("down 9 unreachable")
}

// While there is no room, events wait in order. Each batch is finished once, however often its execution is
// resumed.
func TestEventsWaitForRoom(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 3, InFlight: 1}})
	s.lead(3)
	one, two := s.up(1, 5), s.up(2, 5)
	one.events(5, 2, packetIns(7)...)
	two.events(5, 2, packetIn)
	s.turn()
	s.turn()
	s.said() // three events are proposed, and three are executed
	s.turn()
	s.said()
	s.commit()
	s.said("1: ack 5/4", "1: commands 5/1-3 in 3")
	s.turn()
	s.said("1: taken", "2: taken")
	s.settle()
	if got := s.core.Ledger().Switches(); got[0].Events != 8 || got[1].Events != 2 {
		t.Errorf("%+v", got)
	}
	var none southbound.Batch
	s.trace = nil
	s.core.Events(one, none, func(err error) { s.note("empty: %v", err) })
	s.turn()
	s.said("empty: <nil>")
}

// Events and completions that were in flight when the leadership was lost may arrive when it is regained. Their
// numbers may belong to others by then, so they are ignored.
func TestWhatComesFromBeforeTheClaim(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	one.events(5, 2, packetIn)
	s.turn()
	s.commit()
	s.follow(4)
	s.lead(5)
	s.trace = nil
	one.st.InSync = false // the claim is not answered yet
	one.events(5, 3, packetIn, packetIn)
	s.core.CommandsDone(one, 5, 1)
	s.pass(5 * time.Millisecond)
	s.said("1: taken")
	if len(s.proposed) != 0 {
		t.Error("it is logged")
	}
	one.st.InSync = true
	one.events(5, 3, packetIn)
	s.core.CommandsDone(one, 5, 1)
	s.turn()
	s.settle()
	if sw := s.core.Ledger().Switches()[0]; sw.Events != 3 || sw.Done != 1 {
		t.Errorf("%+v", sw)
	}
}
