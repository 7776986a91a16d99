package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// ErrStaleEpoch is returned if the ledger knows a newer epoch of the switch, or has closed this one.
var ErrStaleEpoch = errors.New("stale epoch")

// ErrEpochAhead is returned if an epoch is so high that those after it would soon be used up. No clock shows it.
var ErrEpochAhead = errors.New("no clock shows so high an epoch: set the clock of its agent and restart the agent, " +
	"or look for a peer that pretends to be this switch")

// ErrGap is returned if events are missing before this one.
var ErrGap = errors.New("gap in the event sequence")

// Event executes an event of a switch, or drops it as a duplicate. The caller has checked Room. After ErrStaleEpoch,
// ErrEpochAhead and ErrGap nothing has changed, and the caller should close the connection.
func (c *Core) Event(id openflow.DatapathID, epoch, seq uint64, msg []byte) error {
	return c.event(id, epoch, seq, msg, true)
}

// EventByDigest is Event for an event that no observer needs in full. The log contains its digest, unless an
// application needs the bytes.
func (c *Core) EventByDigest(id openflow.DatapathID, epoch, seq uint64, msg []byte) error {
	return c.event(id, epoch, seq, msg, false)
}

func (c *Core) event(id openflow.DatapathID, epoch, seq uint64, msg []byte, whole bool) error {
	if !c.leading {
		return errNotLeading
	}
	sw := c.state.find(id)
	if sw == nil {
		if own, moved := c.state.moves.at[theSwitch(id)]; moved && own.Group != c.group {
			return fmt.Errorf("switch %s: group %d has it: %w", id, own.Group, ErrMoved)
		}
		if epoch <= c.state.floor {
			return fmt.Errorf("switch %s: epoch %d, and it was forgotten, or another one with that epoch or a later "+
				"one: %w", id, epoch, ErrStaleEpoch)
		}
		sw = newSwitch(id) // it becomes known when an epoch begins, so what is refused leaves nothing here
	}
	kind := message.KindOf(msg)
	fresh := epoch > sw.epoch && seq == 1
	down := !fresh && kind == message.SwitchDown
	switch {
	case sw.has(epoch, seq):
		c.duplicate(sw)
		return nil
	case epoch < sw.epoch:
		return fmt.Errorf("switch %s: epoch %d, %d is known: %w", id, epoch, sw.epoch, ErrStaleEpoch)
	case epoch == sw.epoch && !sw.live:
		return fmt.Errorf("switch %s: epoch %d is closed: %w", id, epoch, ErrStaleEpoch)
	case !fresh && (epoch != sw.epoch || seq != uint64(sw.events)+1):
		return fmt.Errorf("switch %s: event %d of epoch %d after %d of %d: %w", id, seq, epoch, sw.events, sw.epoch,
			ErrGap)
	case fresh && epoch > message.MaxEpoch(max(sw.epoch, c.state.floor)):
		return fmt.Errorf("switch %s: epoch %d after %d: %w", id, epoch, sw.epoch, ErrEpochAhead)
	case fresh && kind != message.SwitchUp:
		return fmt.Errorf("switch %s: epoch %d begins with a message of type %d, not with SWITCH_UP: update its agent",
			id, epoch, message.Type(msg))
	}
	if fresh {
		sw = c.state.sw(id)
	}
	if !fresh && !down && !sw.reachable {
		c.setReachable(sw, true)
		if !sw.live { // the commands of the applications exceeded the bound
			return fmt.Errorf("switch %s: epoch %d is closed: %w", id, epoch, ErrStaleEpoch)
		}
	}
	if kind == message.Ordinary && c.tally != nil {
		c.choose(sw)
	}
	if !fresh && kind == message.Ordinary && c.level(msg) == Unordered {
		c.skip(sw, message.Type(msg))
		in := c.fromSwitch(Message, id)
		in.Epoch, in.Seq, in.Message = epoch, seq, msg
		c.run()
		c.finish()
		return nil
	}
	if c.sharded() {
		return c.eventOfMany(sw, epoch, seq, msg, kind, whole)
	}
	return c.logged(sw, epoch, seq, msg, kind, whole)
}

// logged executes an event that is logged.
func (c *Core) logged(sw *switchState, epoch, seq uint64, msg []byte, kind message.Kind, whole bool) error {
	id, fresh := sw.id, epoch > sw.epoch && seq == 1
	down := !fresh && kind == message.SwitchDown
	wasUp := sw.live && sw.reachable
	c.logEvent(sw, epoch, seq, msg, whole || kind != message.Ordinary || c.needsBytes(msg), fresh || down)
	if err := c.state.applyEvent(id, epoch, seq, msg, kind); err != nil {
		return err
	}
	c.tellEvent(sw, seq, msg, kind)
	as := Message
	switch {
	case kind == message.SyncMarker, down && !wasUp: // of the end they were told when it became unreachable
		c.finish()
		return nil
	case fresh:
		c.crowd.add(len(msg))
		if wasUp {
			c.fromSwitch(SwitchDown, id).Reason = message.ConnectionLost
			c.run()
		}
		as = SwitchUp
	case down:
		as = SwitchDown
	}
	in := c.fromSwitch(as, id)
	in.Epoch, in.Seq, in.Message = epoch, seq, msg
	if down {
		in.Reason = message.ReasonOf(msg)
	}
	c.run()
	c.finish()
	return nil
}

func (c *Core) duplicate(sw *switchState) {
	c.counters.Duplicates++
	if !sw.master.repeated {
		sw.master.repeated = true
		c.duplicates = append(c.duplicates, sw)
	}
}

// logEvent begins a transaction. whole: the log contains the message and not its digest. boundary: the event begins or
// ends an epoch.
func (c *Core) logEvent(sw *switchState, epoch, seq uint64, msg []byte, whole, boundary bool) {
	b := c.beginTransaction()
	c.notes.logged = true
	b.touch(sw)
	b.logSkipped(sw)
	switch {
	case whole:
		b.buf = appendBytes(appendEvent(b.buf, OpEvent, sw.id, epoch, seq), msg)
	case c.deltas.next(sw.id, epoch, seq):
		b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(OpSeenNext), message.Type(msg)), digest.Of(msg))
	default:
		b.buf = binary.BigEndian.AppendUint64(append(appendEvent(b.buf, OpSeen, sw.id, epoch, seq),
			message.Type(msg)), digest.Of(msg))
	}
	if boundary {
		b.undoEpoch(sw)
	} else {
		b.undo = append(b.undo, undo{kind: undoEvent, sw: sw})
	}
}

func appendEvent(dst []byte, op Op, id openflow.DatapathID, epoch, seq uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, byte(op)), uint64(id))
	return binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, epoch), seq)
}

// Unreachable tells the applications that a switch is down although its epoch has not ended: the leader has had no
// connection to it for the switch timeout. Its commands are kept.
func (c *Core) Unreachable(id openflow.DatapathID) {
	if sw := c.state.switches[id]; c.leading && sw != nil && sw.live && sw.reachable {
		c.setReachable(sw, false)
	}
}

// Reachable reverts Unreachable when the same epoch is connected again.
func (c *Core) Reachable(id openflow.DatapathID, epoch uint64) {
	if sw := c.state.switches[id]; c.leading && sw != nil && sw.live && !sw.reachable && sw.epoch == epoch {
		c.setReachable(sw, true)
	}
}

// Request executes a request of a controller to one application. The log keeps no watermark of requests, and one that
// is repeated is executed again: an application handles only requests for which that makes no difference. The caller
// has checked Room. It returns false if this ledger does not lead, does not run the application, or if the request is
// too large for an entry.
func (c *Core) Request(app string, data []byte) bool {
	i := c.appOf(app)
	if !c.leading || i < 0 || len(data) > c.limits.EntryBytes-c.limits.BatchBytes {
		return false
	}
	b := c.beginTransaction()
	b.buf = appendBytes(appendString(append(b.buf, byte(OpRequest)), app), data)
	c.input = Input{Kind: Request, Message: data, from: Actor{App: app}}
	c.call(i)
	c.runEmitted()
	c.finish()
	return true
}

func (c *Core) setReachable(sw *switchState, up bool) {
	op := OpUnreachable
	if up {
		op = OpReachable
	}
	c.switchInput(sw, op)
	c.batch.undo = append(c.batch.undo, undo{kind: undoReachable, sw: sw, existed: sw.reachable})
	sw.reachable = up
	c.tellReachable(sw)
	if up {
		c.fromSwitch(SwitchUp, sw.id).Message = sw.hello
	} else {
		c.fromSwitch(SwitchDown, sw.id).Reason = message.Unreachable
	}
	c.input.Epoch = sw.epoch
	c.run()
	c.finish()
}

// closeEpoch ends the epoch of a switch that does not accept its commands.
func (c *Core) closeEpoch(sw *switchState) {
	c.switchInput(sw, OpCloseEpoch)
	c.batch.undoEpoch(sw)
	sw.end(true)
	c.tellReachable(sw)
	in := c.fromSwitch(SwitchDown, sw.id)
	in.Epoch, in.Reason = sw.epoch, message.Unreachable
	c.run()
}

func (c *Core) switchInput(sw *switchState, op Op) {
	b := c.beginTransaction()
	b.touch(sw)
	b.logSkipped(sw)
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(op)), uint64(sw.id))
	b.buf = binary.BigEndian.AppendUint64(b.buf, sw.epoch)
}
