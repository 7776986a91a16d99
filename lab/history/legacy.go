package history

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// legacyHistory is what is observed of a switch without agent and bundles: what it sends to all its controllers, and
// what it executes. Such a switch gets everything at most once and in order. Only the log has its epochs.
//
// What it sends within an epoch is in the log without gaps: only what is between two epochs is lost. Commands may be
// lost when an epoch ends.
type legacyHistory struct {
	loggedSwitch
	broadcast
	passed []dueCommand // of the epoch; commands behind them are executed or answered, and these neither
}

func (s *legacyHistory) boot() error {
	s.restart()
	return nil
}

// obey handles a message that the switch has executed: the next command of the newest epoch in the log, unless some
// before it are requests, are refused or are lost. A new epoch is logged when the switch has answered the request of
// its leader, and what other controllers send is refused since.
func (s *legacyHistory) obey(msg []byte) error {
	if openflow.XID(msg) >= handshake.OwnXID {
		return nil
	}
	f := fingerprintOf(msg)
	e := s.epoch
	if e == nil {
		return violated("switch %s: executes %v before anything is committed", s.id, f)
	}
	before := e.executed
	if !s.pass(func(c dueCommand) bool { return c.fingerprint == f }) {
		return violated("switch %s, epoch %d: executes %v (number %d by its xid) behind %d, which is none of the "+
			"commands behind it that are committed", s.id, e.epoch, f, f.number(), before)
	}
	return nil
}

// pass goes on to the first command for which is is true, and reports whether there is one.
func (s *legacyHistory) pass(is func(dueCommand) bool) bool {
	for e := s.epoch; e.due.len() > 0; {
		c := e.due.pop()
		if is(c) {
			e.executed = c.seq
			return true
		}
		s.passed = append(s.passed, c)
	}
	return false
}

// logEvent checks the next event of the log.
func (s *legacyHistory) logEvent(epoch, seq uint64, f fingerprint) error {
	if s.epoch == nil || epoch > s.epoch.epoch {
		s.endShared()
		s.epoch, s.passed = &loggedEpoch{epoch: epoch}, nil
	}
	if err := s.nextOwn(epoch, seq, f); err != nil {
		return err
	}
	switch {
	case f.special != 0:
		return nil
	case f.isShared():
		return s.logShared(s.id, s.epoch, f)
	}
	return s.logAnswer(f)
}

// logAnswer checks an event that is for one controller: it answers or refuses a command of the epoch that was not
// executed, and that has no answer yet.
func (s *legacyHistory) logAnswer(f fingerprint) error {
	is := func(c dueCommand) bool { return c.xid == f.xid }
	if i := slices.IndexFunc(s.passed, is); i >= 0 {
		s.passed = slices.Delete(s.passed, i, i+1)
		return nil
	}
	if !s.pass(is) {
		return violated("switch %s, epoch %d: event %d is %v, which answers no command of the epoch that was neither "+
			"executed nor answered", s.id, s.epoch.epoch, s.epoch.events, f)
	}
	return nil
}

// live is the epoch that is open in the log; 0 is none.
func (s *legacyHistory) live() uint64 {
	if s.epoch == nil || s.epoch.ended {
		return 0
	}
	return s.epoch.epoch
}

// unlogged counts the events of the epoch after the last one that is logged. Before the first one it is not known which
// belong to it.
func (s *legacyHistory) unlogged() int {
	if len(s.candidates) == 0 {
		return 0
	}
	return s.broadcast.unlogged()
}

// quiet reports whether every command of the open epoch is executed or answered.
func (s *legacyHistory) quiet() bool {
	return s.live() == 0 || s.epoch.due.len() == 0 && len(s.passed) == 0
}

// finish checks that the last epoch, which no fault has ended, has everything.
func (s *legacyHistory) finish() error {
	switch e := s.epoch; {
	case s.live() == 0:
		return violated("switch %s: at the end no epoch of it is open in the log", s.id)
	case !s.quiet():
		return violated("switch %s, epoch %d: at the end %d commands of %d are neither executed nor answered", s.id,
			e.epoch, e.due.len()+len(s.passed), e.commands)
	case s.unlogged() > 0:
		return violated("switch %s, epoch %d: at the end %d events are not in the log", s.id, e.epoch, s.unlogged())
	}
	return nil
}
