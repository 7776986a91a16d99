package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// A switch that is gone for good is forgotten, so that it gives back what it held: its epochs, watermarks and commands,
// and what applications have there, which are cells, timers and suspensions. Applications are told first, because only
// they can find what they have of the switch elsewhere. If it comes back, it is a new switch.
//
// Its agent may come back with events that are in the log. So one number stays for all switches that were forgotten,
// the highest of their epochs: a switch that is new must begin an epoch above it. An agent is told, and does that.
// Epochs are clock readings, so a switch that was never here has a lower one only if its agent has held its events
// since then.
//
// With several groups, the ends of its streams stay, without items: somebody may still repeat an item that was sent,
// and only the number of the last one tells it from a new one.

// ErrConnected is returned for a switch that is not forgotten because it is up.
var ErrConnected = errors.New("it is connected, or was until a moment ago: disconnect it, wait until " +
	"`holdfast status` no longer shows it as up, and ask again")

// ErrNoSwitch is returned for a switch of which the log has nothing.
var ErrNoSwitch = errors.New("the cluster does not know it: it has never connected, or is forgotten already")

// Forget forgets a switch that is down. The caller has checked Room. After an error nothing has changed: ErrConnected
// if the switch is up, ErrNoSwitch if the log does not have it, and ErrFull if another group does not take what
// applications send there.
func (c *Core) Forget(id openflow.DatapathID) error {
	sw := c.state.switches[id]
	a := theSwitch(id)
	switch {
	case !c.leading:
		return errNotLeading
	case sw == nil || sw.epoch == 0:
		return fmt.Errorf("forget %v: %w", a, ErrNoSwitch)
	case sw.live && sw.reachable:
		return fmt.Errorf("forget %v: %w", a, ErrConnected)
	}
	if to, leaving := c.state.moves.leaving[a]; leaving {
		return fmt.Errorf("forget %v: it moves to group %d: wait until it lives there", a, to)
	}
	if size, most := dropSize(c.partsOf(a), c.timersOf(a)), c.limits.EntryBytes-c.limits.BatchBytes; size > most {
		return tooMuchToForget(a, size, most)
	}
	c.open()
	c.batch.touch(sw) // as before an event that can wait: neither is undone
	c.batch.logSkipped(sw)
	before := c.beginUndoable()
	tooMuch := c.forgetSwitch(sw)
	if err := c.endPatient(before); tooMuch == nil {
		return err
	}
	return tooMuch
}

func tooMuchToForget(a Actor, size, most int) error {
	return fmt.Errorf("forget %v: what applications do then, and to remove what they have there, takes %d bytes of "+
		"the log, and %d are possible at once: have them remove a part first", a, size, most)
}

// forgetSwitch is the transaction in which a switch is forgotten. It is to be undone if it is too large.
func (c *Core) forgetSwitch(sw *switchState) error {
	a := theSwitch(sw.id)
	c.switchInput(sw, OpForget)
	c.batch.undoEpoch(sw)
	sw.end(true) // so that it gets no commands
	c.fromSwitch(Forgotten, sw.id).Epoch = sw.epoch
	c.run()
	if c.held {
		return nil
	}
	parts := c.partsOf(a) // again: handlers may have changed them
	if size := c.batch.size() + dropSize(parts, c.timersOf(a)); size > c.limits.EntryBytes {
		c.held = true
		return tooMuchToForget(a, size, c.limits.EntryBytes)
	}
	c.dropAll(a, parts)
	c.batch.undo = append(c.batch.undo, undo{kind: undoFloor, before: c.state.floor})
	c.batch.undo = append(c.batch.undo, undo{kind: undoMove, move: c.state.forget(sw.id, sw.epoch)})
	c.endSwitch(sw)
	c.batch.forgotten, c.batch.floor = append(c.batch.forgotten, sw.id), c.state.floor
	c.finish()
	return nil
}

// forgetFor executes a Call that Forgets.
func (c *Core) forgetFor(q Call) error {
	err := c.Forget(q.Actor.Switch)
	if errors.Is(err, ErrFull) {
		return err
	}
	if err != nil {
		c.beginTransaction() // as for a call that changes nothing
	}
	c.input = Input{caller: q.Caller, call: q.ID}
	c.answerCall(err)
	return nil
}

// Forgotten returns the switches that were forgotten, as far as that is committed, since the last call, at any replica.
func (c *Core) Forgotten() []openflow.DatapathID {
	list := c.forgotten
	c.forgotten = nil
	return list
}

// Floor returns the highest epoch of the switches that were forgotten, as far as that is committed, at a leader. A new
// switch must begin an epoch above it.
func (c *Core) Floor() uint64 { return c.floor }

// forget applies OpForget, and returns what was there before. The rest of the transaction removes cells and timers.
func (s *state) forget(id openflow.DatapathID, epoch uint64) *oldMove {
	a := theSwitch(id)
	old := s.oldMove(a, 0)
	old.gone, old.sw, old.suspended = true, s.switches[id], s.suspendedOf(a)
	for _, of := range old.suspended {
		delete(s.suspended, of.Actor)
	}
	s.setSwitch(id, nil)
	s.floor = max(s.floor, epoch)
	return old
}

func (s *state) appendFloor(b []byte) []byte {
	if s.floor == 0 {
		return b
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(b, byte(OpForget)), 0), s.floor)
}
