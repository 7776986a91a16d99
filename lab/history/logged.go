package history

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// loggedSwitch is what the log has of a switch of any kind: one epoch after the other. It checks what holds for all
// kinds, and the history of each kind the rest.
type loggedSwitch struct {
	id    openflow.DatapathID
	epoch *loggedEpoch // the newest; nil is none
}

// loggedEpoch is what the log has of one epoch of a switch.
type loggedEpoch struct {
	epoch   uint64
	events  uint64
	ended   bool // by SWITCH_DOWN, or by the ledger
	refused bool // by the ledger

	due      fifo[dueCommand] // the commands that are not executed
	commands uint64
	executed uint64 // the newest command that is
	done     uint64
}

// dueCommand is a command in the log.
type dueCommand struct {
	fingerprint
	seq   uint64
	index uint64 // of its entry
}

// number is the sequence as far as the transaction id of a command contains it.
func (f fingerprint) number() uint32 { return f.xid & 0x7fffff }

// newest is the newest epoch in the log; nil is none.
func (s *loggedSwitch) newest() *loggedEpoch { return s.epoch }

// next checks the number of the next event, which is of the newest epoch.
func (s *loggedSwitch) next(epoch, seq uint64, f fmt.Stringer) error {
	e := s.epoch
	switch {
	case epoch != e.epoch:
		return violated("switch %s: event %d of epoch %d (%v) after epoch %d has begun", s.id, seq, epoch, f, e.epoch)
	case seq <= e.events:
		return violated("switch %s, epoch %d: event %d (%v) once more; %d is the last", s.id, epoch, seq, f, e.events)
	case e.ended:
		return violated("switch %s, epoch %d: event %d (%v) after the epoch's end", s.id, epoch, seq, f)
	case seq != e.events+1:
		return violated("switch %s, epoch %d: event %d (%v) follows event %d", s.id, epoch, seq, f, e.events)
	}
	e.events = seq
	return nil
}

// nextOwn is next for a switch without an agent, whose sessions number the events. It ends the epoch at SWITCH_DOWN.
func (s *loggedSwitch) nextOwn(epoch, seq uint64, f fingerprint) error {
	if err := s.next(epoch, seq, f); err != nil {
		return err
	}
	switch up := f.special == experimenter.TypeSwitchUp; {
	case up != (seq == 1):
		return violated("switch %s, epoch %d: event %d is %v", s.id, epoch, seq, f)
	case f.special == experimenter.TypeSwitchDown:
		s.epoch.ended = true
	}
	return nil
}

// logCommand handles a command of the log.
func (s *loggedSwitch) logCommand(seq, index uint64, f fingerprint) error {
	c, err := s.command(seq, index, f)
	if err == nil {
		s.epoch.due.push(c)
	}
	return err
}

// command checks the number of a command of the log, which belongs to the epoch that is open there.
func (s *loggedSwitch) command(seq, index uint64, f fingerprint) (dueCommand, error) {
	e := s.epoch
	switch {
	case e == nil || e.ended:
		return dueCommand{}, violated("switch %s: command %d (%v) is logged while no epoch is open", s.id, seq, f)
	case seq != e.commands+1:
		return dueCommand{}, violated("switch %s, epoch %d: command %d (%v) is logged after %d", s.id, e.epoch, seq, f,
			e.commands)
	}
	e.commands = seq
	return dueCommand{f, seq, index}, nil
}

// logDone checks a watermark of commands that are done.
func (s *loggedSwitch) logDone(epoch, seq uint64) error {
	e := s.epoch
	switch {
	case e == nil || e.epoch != epoch:
		return violated("switch %s: commands of epoch %d are logged as done, which is not the newest in the log", s.id,
			epoch)
	case seq < e.done:
		return violated("switch %s, epoch %d: commands up to %d are logged as done after %d", s.id, epoch, seq, e.done)
	case seq > e.commands:
		return violated("switch %s, epoch %d: command %d is logged as done of %d", s.id, epoch, seq, e.commands)
	}
	e.done = seq
	return nil
}

// logReach checks that a switch is reported as reachable or unreachable in an epoch that has not ended.
func (s *loggedSwitch) logReach(epoch uint64) error {
	if s.epoch == nil || s.epoch.epoch != epoch || s.epoch.ended {
		return violated("switch %s: reachability is logged of epoch %d, which is not open in the log", s.id, epoch)
	}
	return nil
}

// logClose ends an epoch that the ledger closes.
func (s *loggedSwitch) logClose(epoch uint64) error {
	if s.epoch == nil || s.epoch.epoch != epoch || s.epoch.ended {
		return violated("switch %s: epoch %d is closed, which is not open in the log", s.id, epoch)
	}
	s.epoch.ended, s.epoch.refused = true, true
	return nil
}

// refuse checks that an epoch is over in the log: there is a newer one, or the ledger has ended it.
func (s *loggedSwitch) refuse(epoch uint64) error {
	if l := s.epoch; l == nil || l.epoch < epoch || l.epoch == epoch && !l.refused {
		return violated("switch %s: epoch %d is refused, which is not over in the log", s.id, epoch)
	}
	return nil
}

// open reports whether the log has that epoch as the newest, and it has not ended.
func (s *loggedSwitch) open(epoch uint64) bool {
	return s.epoch != nil && s.epoch.epoch == epoch && !s.epoch.ended
}
