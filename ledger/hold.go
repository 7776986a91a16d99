package ledger

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/stream"
)

// ErrFull is returned for an event that is not executed because what it sends to another group does not fit into the
// outbox. Nothing has changed; the caller tries it again when Relieved has grown.
var ErrFull = errors.New("another group does not take what is sent to it")

// hold returns an error if the outboxes to a group are full. At the soft bound only inputs that can wait are held.
func (c *Core) hold(p *peer) error {
	if c.patient && p.full(c.softBound()) {
		c.held = true
		return ErrFull
	}
	if p.full(c.hardBound()) {
		return fmt.Errorf("%d items of %d bytes wait for group %d, more are not kept: see why that group has no leader",
			p.items, p.bytes, p.group)
	}
	return nil
}

// softBound is the bound at which inputs that can wait are held.
func (c *Core) softBound() stream.Bounds {
	return stream.Bounds{Items: c.limits.OutboxItems, Bytes: c.limits.OutboxBytes}
}

// hardBound is the bound at which an application that sends more fails.
func (c *Core) hardBound() stream.Bounds {
	return stream.Bounds{Items: 2 * c.limits.OutboxItems, Bytes: 2 * c.limits.OutboxBytes}
}

// congested reports whether a group does not take what is sent to it. Then the replayed application waits, because what
// it does cannot be undone.
func (c *Core) congested() bool {
	for _, p := range c.peers {
		if p.full(c.softBound()) {
			return true
		}
	}
	return false
}

// Relieved grows when another group has taken something, so that inputs that were refused with ErrFull may fit.
func (c *Core) Relieved() uint64 { return c.relieved }

// patience is a point before a transaction that can be undone as a whole, because its input can wait.
type patience struct {
	savepoint
	inputs, failures      int
	answers, replies      int
	transactions, failed  uint64
	immediate, bestEffort bestEffortSavepoint
}

// beginPatient begins a transaction that is undone if what it sends to another group does not fit into the outbox.
func (c *Core) beginPatient() (p patience) {
	if !c.sharded() {
		return p
	}
	return c.beginUndoable()
}

// beginUndoable begins a transaction that is undone if held is set in it.
func (c *Core) beginUndoable() (p patience) {
	c.open()
	c.patient = true
	c.savepoint(&p.savepoint)
	p.inputs, p.failures, p.answers, p.replies = c.batch.inputs, len(c.failures), len(c.batch.answers), c.batch.replies
	p.transactions, p.failed = c.counters.Transactions, c.counters.Failures
	p.immediate, p.bestEffort = c.immediate.savepoint(), c.batch.bestEffort.savepoint()
	return p
}

// endPatient returns ErrFull if the transaction was undone.
func (c *Core) endPatient(p patience) error {
	c.patient = false
	if !c.held {
		return nil
	}
	c.held = false
	c.abortTally()
	err := c.rewind(p.savepoint)
	c.immediate.rewind(p.immediate)
	c.batch.bestEffort.rewind(p.bestEffort)
	c.deltas.seen = seenEvent{}
	if p.inputs == 0 && len(c.batch.touched) == 0 {
		c.batch.buf = c.batch.buf[:0] // otherwise its time would stand still until something else is logged
	}
	c.batch.answers, c.batch.replies = c.batch.answers[:p.answers], p.replies
	c.batch.inputs, c.failures = p.inputs, c.failures[:p.failures]
	c.counters.Transactions, c.counters.Failures = p.transactions, p.failed
	return errors.Join(ErrFull, err)
}

// eventOfMany executes an event that is logged, if there are other groups.
func (c *Core) eventOfMany(sw *switchState, epoch, seq uint64, msg []byte, kind message.Kind, whole bool) error {
	if kind == message.SwitchUp || kind == message.SwitchDown { // not undone: up to the hard bound
		return c.logged(sw, epoch, seq, msg, kind, whole)
	}
	c.open()
	c.batch.touch(sw)
	c.batch.logSkipped(sw)
	before := c.beginPatient()
	err := c.logged(sw, epoch, seq, msg, kind, whole)
	if c.held && c.tally != nil && kind == message.Ordinary {
		sw.master.sampling.Undo(c.standsFor)
	}
	return errors.Join(err, c.endPatient(before))
}
