package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What an application waits for is a timer of its actor, under a name that is used once. So it is replicated, moves
// with the actor, and ends exactly once: whoever removes the timer has it.
//
//	wait:GROUP.TERM.BATCH.NUMBER            the name of a timer that waits for a time only
//	wait:GROUP.TERM.BATCH.NUMBER:TABLE KEY  one that also waits for a change of a cell
//
// NUMBER counts the waits of the batch. It follows from the inputs alone, as an offset in the entry would not.
// The numbers have a fixed length, so timers that are due at the same time are in the order in which they were set.
const waits = "wait:"

// maxWaitCell bounds what names a cell in the name of a timer, in bytes.
const maxWaitCell = 2048

// CellName names a cell of an application.
type CellName struct {
	Table string
	Key   Key
}

// IsWait reports whether a name of a timer is one that Tx.Wait makes.
func IsWait(name string) bool { return strings.HasPrefix(name, waits) }

// Wait sets a timer of the actor under a name of its own, which it returns. If on names a cell, the timer is due at
// once when a later handler has changed the cell in this group. If the cell belongs to another actor, it is also due
// when one of the two has arrived in a group.
func (tx *Tx) Wait(after time.Duration, data []byte, on CellName) (name string, err error) {
	b := &tx.c.batch
	b.waits++
	name = fmt.Sprintf("%s%x.%09x.%08x.%06x", waits, tx.c.group, tx.c.term, b.number, b.waits)
	if on.Table != "" {
		cell := string(on.Key.Append(appendString(nil, on.Table)))
		if len(cell) > maxWaitCell {
			return "", fmt.Errorf("wait for cell %s[%s]: its name has more than %d bytes", on.Table, on.Key,
				maxWaitCell)
		}
		name += ":" + cell
	}
	return name, tx.SetTimer(name, after, data)
}

// TimerData returns the data of the actor's timer of that name, if it is set.
func (tx *Tx) TimerData(name string) (data []byte, ok bool) {
	t, ok := tx.c.state.timers[timerName{tx.Actor(), name}]
	return t.data, ok
}

// waitsFor returns the cell that a timer waits for.
func (n timerName) waitsFor() (table TableName, cell Key, ok bool) {
	if !IsWait(n.name) {
		return TableName{}, Key{}, false
	}
	_, rest, ok := strings.Cut(n.name[len(waits):], ":")
	d := decoder{b: []byte(rest)}
	table, cell = TableName{n.actor.App, d.string()}, d.key()
	return table, cell, ok && d.err == nil
}

// waiting are the timers that wait for a change of a cell. It is derived from the timers.
type waiting map[tableKey]map[timerName]bool

type tableKey struct {
	TableName
	Key
}

// setTimer sets or resets a timer.
func (s *state) setTimer(n timerName, t timer) {
	s.removeTimer(n)
	s.timers[n] = t
	s.timerBytes += len(t.data)
	if table, cell, ok := n.waitsFor(); ok {
		k := tableKey{table, cell}
		if s.waiting[k] == nil {
			s.waiting[k] = map[timerName]bool{}
		}
		s.waiting[k][n] = true
	}
}

// removeTimer removes a timer, if it is set.
func (s *state) removeTimer(n timerName) {
	t, existed := s.timers[n]
	if !existed {
		return
	}
	delete(s.timers, n)
	s.timerBytes -= len(t.data)
	if table, cell, ok := n.waitsFor(); ok {
		k := tableKey{table, cell}
		if delete(s.waiting[k], n); len(s.waiting[k]) == 0 {
			delete(s.waiting, k)
		}
	}
}

// wake makes the timers due that wait for a cell among these changes.
func (c *Core) wake(changes []undo) {
	if len(c.state.waiting) == 0 {
		return
	}
	for i := range changes {
		if changes[i].kind != undoValue {
			continue
		}
		v := changes[i].value
		names := slices.SortedFunc(maps.Keys(c.state.waiting[tableKey{v.table.name, v.cell}]), timerName.compare)
		for _, n := range names {
			c.dueNow(n)
		}
	}
}

// dueNow makes a timer due at once.
func (c *Core) dueNow(n timerName) {
	t := c.state.timers[n]
	if at := c.batch.time + 1; t.due > at {
		c.resetTimer(n, timer{at, t.data})
	}
}

// resetTimer sets or resets a timer in this transaction.
func (c *Core) resetTimer(n timerName, t timer) {
	old, existed := c.state.timers[n]
	c.batch.undo = append(c.batch.undo, undo{kind: undoTimer, timer: &oldTimer{n, old}, existed: existed})
	c.state.setTimer(n, t)
	delete(c.late, n)
	c.schedule(t.due, n)
	c.batch.buf = t.append(c.batch.buf, n)
}

// Keep encodes the present input, for Resume. If it is a call, its client gets no answer now.
func (tx *Tx) Keep() []byte {
	in := &tx.c.input
	tx.c.keeps = true
	b := append(appendActor(appendInput(nil, in), in.sender), flag(in.passed), flag(in.crossed))
	return binary.AppendUvarint(binary.AppendUvarint(b, in.caller), in.call)
}

// Resume makes an input that was kept the present one. It is for the actor of the transaction.
func (tx *Tx) Resume(kept []byte) (*Input, error) {
	in, err := parseKept(kept)
	if err != nil {
		return nil, err
	}
	a := tx.Actor()
	in.exact, in.from, in.to, in.at = true, a, a, a.Shard
	tx.pause()
	tx.c.input = in
	tx.resume(tx.early)
	return &tx.c.input, nil
}

// Redeliver passes an input that was kept to the actor of the transaction once more, after the present call and in a
// call of its own: to all handlers of the input that belong to the actor.
func (tx *Tx) Redeliver(kept []byte) error {
	in, err := parseKept(kept)
	if err != nil {
		return err
	}
	c, a := tx.c, tx.Actor()
	in.again, in.addressed = true, in.exact
	in.exact, in.from, in.to = true, a, a
	switch {
	case c.sample == nil:
	case in.sender != Actor{}:
		in.source = c.tallied(in.sender)
	case in.Switch != 0:
		in.source = c.tallied(theSwitch(in.Switch))
	}
	c.passed = append(c.passed, in)
	return nil
}

// Redelivered reports whether the input is one that was kept, and whether it was for one actor only before.
func (tx *Tx) Redelivered() (again, addressed bool) { return tx.c.input.again, tx.c.input.addressed }

func parseKept(kept []byte) (in Input, err error) {
	d := decoder{b: kept}
	in = d.input()
	in.sender, in.passed, in.crossed = d.actor(), d.byte() != 0, d.byte() != 0
	in.caller, in.call = d.uvarint(), d.uvarint()
	if d.err == nil && len(d.b) > 0 {
		d.err = errors.New("bytes follow")
	}
	if d.err != nil {
		return in, fmt.Errorf("an input that was kept, %d bytes: %w", len(kept), d.err)
	}
	return in, nil
}
