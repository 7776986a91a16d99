package ledger

import (
	"errors"

	"github.com/holdfast-sdn/holdfast/internal/message"
)

// patience is a point before a transaction that can be undone as a whole, because its input can wait.
type patience struct {
	savepoint
	inputs, failures      int
	transactions, failed  uint64
	immediate, bestEffort bestEffortSavepoint
}

// beginPatient begins a transaction that is undone if what it sends to another group does not fit into the outbox.
func (c *Core) beginPatient() (p patience) {
	if !c.sharded() {
		return p
	}
	c.open()
	c.patient = true
	return patience{c.savepoint(), c.batch.inputs, len(c.failures), c.counters.Transactions, c.counters.Failures,
		c.immediate.savepoint(), c.batch.bestEffort.savepoint()}
}

// endPatient returns ErrFull if the transaction was undone.
func (c *Core) endPatient(p patience) error {
	c.patient = false
	if !c.held {
		return nil
	}
	c.held = false
	err := c.rewind(p.savepoint)
	c.immediate.rewind(p.immediate)
	c.batch.bestEffort.rewind(p.bestEffort)
	c.deltas.seen = seenEvent{}
	if p.inputs == 0 && len(c.batch.touched) == 0 {
		c.batch.buf = c.batch.buf[:0] // otherwise its time would stand still until something else is logged
	}
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
	return errors.Join(err, c.endPatient(before))
}
