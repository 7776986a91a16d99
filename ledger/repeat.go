package ledger

import (
	"container/heap"
	"fmt"
)

// LeadAs is Lead to make one entry once more, with the header that it has: what waits is named by it. It is for a
// checker that executes the inputs of a log once more, as are the other methods in this file.
func (c *Core) LeadAs(h Header) error {
	err := c.Lead(h.Term, h.Time)
	c.numbers, c.batch.number = h.Batch, h.Batch
	return err
}

// Repeat executes a transaction of a move as a log has it: its input, which is OpLeave or OpDepart, and the pieces of
// the actor that it sends. Which pieces a leader makes depends on what it has copied before, and the log does not say
// that.
func (c *Core) Repeat(input *Record, sends []Record) {
	if input.Op == OpDepart {
		var pieces [][]byte
		for i := range sends {
			pieces = append(pieces, sends[i].Bytes)
		}
		k := Link{theGroup(c.group), theGroup(input.Assignment.Group)}
		c.departs(input.Actor, input.Assignment, k, c.partsOf(input.Actor), pieces)
		return
	}
	c.logLeave(input.Actor, input.Assignment.Group)
	for i := range sends {
		c.push(c.outgoing(sends[i].Link), sends[i].Bytes, 0)
	}
	c.finish()
}

// Fire executes a timer that is due, as a log has it: its OpTimer. Which of the timers that are due a leader executes
// first depends on what other groups take, and the log does not say that. Fire reports
// whether none was due before it.
func (c *Core) Fire(input *Record, now int64) (first bool, err error) {
	c.clock = max(c.clock, now+c.offset)
	c.open()
	name := input.timerName()
	t, set := c.state.timers[name]
	if !set || t.due > c.batch.time || !c.Room() {
		return false, fmt.Errorf("timer %s of %v is not due, or has no room", name.name, name.actor)
	}
	for len(c.due) > 0 && c.state.timers[c.due[0].name].due != c.due[0].at { // cancelled or reset
		heap.Pop(&c.due)
	}
	first = len(c.due) == 0 || c.due[0].at >= t.due
	c.timer(name, t)
	return first, nil
}
