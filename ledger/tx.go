package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Encoder is a message that a Tx can send, such as the messages of of13.
type Encoder interface {
	Append(dst []byte, xid uint32) []byte
}

// Table is an application's handle of one of its dictionaries, from Tx.Table. It is valid as long as the Tx is, because
// a snapshot may replace the tables.
type Table = table

// Tx is an application's view of one transaction. It reads the newest state and collects the changes. It is valid
// during Application.Handle only.
type Tx struct {
	c          *Core
	app        string     // its name
	at         Shard      // see Actor
	raw        rawMessage // what SendBytes sends
	tag        uint32     // of the application, in the xids of its commands
	apart      bool       // at its switch, each command is a separate transaction
	level      Level
	bestEffort *bestEffortCommands // where commands below ExactlyOnce are collected; nil: commands are logged
	counted    counted
	begun      point  // before the call
	index      int    // of the application
	handler    string // that was entered; see Running
	entering   string // see Handler
	early      bool   // see Running
	suspended  error  // see Suspended
	observed   bool   // see Core.ObserveTables
	reads      bool   // it must not write; see Core.Read
}

// begin sets all fields for a call of an application. One by one: begun alone is much larger than the rest, and is
// filled where it is.
func (tx *Tx) begin(c *Core, app int) {
	tx.c = c
	tx.app, tx.at, tx.tag, tx.level = c.apps[app].Name(), c.input.at, message.Tag(app+1).XID(), c.levelFor(app)
	tx.raw, tx.apart, tx.counted, tx.bestEffort = nil, false, counted{}, nil
	tx.index, tx.handler, tx.entering, tx.suspended, tx.reads = app, "", "", nil, false
	tx.observed = c.observers != nil && c.observers[tx.app] != nil
	switch {
	case c.degrading:
		tx.bestEffort = &c.immediate
	case tx.level < ExactlyOnce:
		tx.bestEffort = c.bestEffort(tx.level)
	}
	tx.point(&tx.begun)
}

// Now returns ledger time. It never goes back, not even when the leader changes.
func (tx *Tx) Now() time.Time { return nanos(tx.c.batch.time) }

// Level returns the level of the transaction.
func (tx *Tx) Level() Level { return tx.level }

// Table returns the application's dictionary of that name.
func (tx *Tx) Table(name string) *Table {
	return tx.c.state.table(TableName{tx.app, name})
}

// Get reads a value; it must not be modified.
func (tx *Tx) Get(t *Table, cell, field Key) ([]byte, bool) {
	tx.check()
	return t.cells.Get(cell, field)
}

// Count returns how many fields a cell has.
func (tx *Tx) Count(t *Table, cell Key) int { return t.cells.Count(cell) }

// Fields yields the fields of a cell in key order: those that there are when the loop begins, unless its body deletes
// them.
func (tx *Tx) Fields(t *Table, cell Key) iter.Seq2[Key, []byte] { return t.cells.Range(cell, Key{}) }

// FieldsFrom is Fields without those before one. To begin far back in a large cell takes no longer.
func (tx *Tx) FieldsFrom(t *Table, cell, from Key) iter.Seq2[Key, []byte] {
	return t.cells.Range(cell, from)
}

// Put writes a copy of value. Writing the present value again changes and logs nothing.
func (tx *Tx) Put(t *Table, cell, field Key, value []byte) {
	tx.check()
	tx.writes()
	if tx.observed { // the table has it, and who is told
		value = append([]byte{}, value...)
	}
	old, existed, changed := t.cells.Swap(cell, field, value, tx.observed)
	if !changed {
		return
	}
	b := &tx.c.batch
	b.undoValue(t, cell, field, old, existed)
	tx.change(t, cell, field, value)
	again := existed && !tx.observed
	if again && b.putAgain(t, cell, field, value) {
		return
	}
	n := b.table(t)
	b.buf = appendPut(b.buf, n, cell, field, value)
	if again {
		b.notePut(t, cell, field, len(value))
	}
}

// writes panics in a transaction that only reads.
func (tx *Tx) writes() {
	if tx.reads {
		panic("a write in Reader.Read of application " + tx.app)
	}
}

// change notes a change for the function of Core.ObserveTables.
// The value is nil if it was deleted.
func (tx *Tx) change(t *Table, cell, field Key, value []byte) {
	if tx.observed {
		tx.c.batch.observed = append(tx.c.batch.observed, observed{tx.index, Change{t.name.Name, cell, field, value}})
	}
}

// Delete removes a field of a cell, if it is there.
func (tx *Tx) Delete(t *Table, cell, field Key) {
	tx.writes()
	old, existed := t.cells.Get(cell, field)
	if !existed {
		return
	}
	b := &tx.c.batch
	b.undoValue(t, cell, field, old, true)
	t.cells.Delete(cell, field)
	t.forgetPuts()
	tx.change(t, cell, field, nil)
	n := b.table(t)
	b.buf = binary.AppendUvarint(append(b.buf, byte(OpDelete)), n)
	b.buf = field.Append(cell.Append(b.buf))
}

// Send queues a command, which is sent after commit, and returns the transaction id of the switch's answer. The
// commands of one transaction to one switch keep their order. A command to a switch that is not up is discarded, as if
// the switch had failed just afterwards, and the result is 0. SwitchUp is the time to send a switch what it needs.
//
// Below ExactlyOnce the command is sent when the level permits, and at most once.
func (tx *Tx) Send(id openflow.DatapathID, m Encoder) uint32 {
	tx.check()
	if c := tx.c; c.sharded() && !c.degrading && !(c.here(theSwitch(id)) && c.direct(Link{tx.Actor(), theSwitch(id)})) {
		return tx.sendAcross(id, m)
	}
	if tx.bestEffort != nil {
		return tx.sendBestEffort(id, m)
	}
	sw := tx.commandable(id)
	if sw == nil {
		return 0
	}
	return tx.queue(sw, m)
}

// queue queues a command of a switch that accepts it.
func (tx *Tx) queue(sw *switchState, m Encoder) uint32 {
	b := &tx.c.batch
	op, start := tx.beginCommand(sw)
	b.buf = m.Append(b.buf, tx.xid(sw))
	return tx.endCommand(sw, op, start)
}

// SendBytes is Send for a message that is encoded already. Its xid is replaced.
func (tx *Tx) SendBytes(id openflow.DatapathID, msg []byte) (uint32, error) {
	if !message.Single(msg) {
		return 0, fmt.Errorf("send to switch %s: %d bytes are not one message", id, len(msg))
	}
	tx.raw = msg
	return tx.Send(id, &tx.raw), nil
}

func (tx *Tx) commandable(id openflow.DatapathID) *switchState {
	sw := tx.c.state.find(id)
	if sw == nil || !sw.live {
		return nil
	}
	if sw.queue.Full(tx.c.queueBound()) {
		tx.c.stalled = append(tx.c.stalled, sw)
		return nil
	}
	return sw
}

// xid returns the xid of the next command to a switch.
func (tx *Tx) xid(sw *switchState) uint32 {
	next, m := sw.queue.Last()+1, &sw.master
	if tx.apart || m.transaction != tx.c.transaction {
		m.transaction, m.opening = tx.c.transaction, next
	}
	xid := tx.tag | uint32(next)&message.SequenceMask
	if next > m.opening {
		xid |= message.Continues
	}
	return xid
}

// commandLen is the space for the length of a command in an entry: a varint of 3 bytes.
const commandLen = 3

// beginCommand returns the offset of the operation and that of its message.
func (tx *Tx) beginCommand(sw *switchState) (op, start int) {
	b := &tx.c.batch
	b.touch(sw)
	op = len(b.buf)
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(OpCommand)), uint64(sw.id))
	b.buf = binary.AppendUvarint(b.buf, sw.queue.Last()+1)
	b.buf = append(b.buf, 0, 0, 0) // commandLen
	return op, len(b.buf)
}

func (tx *Tx) endCommand(sw *switchState, op, start int) uint32 {
	b := &tx.c.batch
	msg := b.buf[start:]
	checkCommand(sw.id, msg)
	n, xid := len(msg), openflow.XID(msg)
	b.undo = append(b.undo, undo{kind: undoCommand, sw: sw})
	tx.countCommand(sw, msg)
	copy(b.buf[start-commandLen:], []byte{byte(n) | 0x80, byte(n>>7) | 0x80, byte(n >> 14)})
	short, ok := tx.c.deltas.short(sw.id, sw.queue.Last()+1, msg)
	sw.command(msg)
	tx.c.notes.add(sw)
	tx.c.crowd.addCommands(n)
	if ok && len(short) < len(b.buf)-op {
		b.buf = append(b.buf[:op], short...)
	}
	return xid
}

// checkCommand panics, so that the application fails, if its encoder is wrong.
func checkCommand(id openflow.DatapathID, msg []byte) {
	n := len(msg)
	if n < openflow.HeaderLen || n > openflow.MaxMessageLen {
		panic(fmt.Sprintf("command of %d bytes for switch %s: a message has 8 to 65,535", n, id))
	}
	if !message.Single(msg) {
		panic(fmt.Sprintf("command of %d bytes for switch %s: its header has another length", n, id))
	}
}

// SetTimer sets or resets the actor's timer of that name. It survives failover.
func (tx *Tx) SetTimer(name string, after time.Duration, data []byte) error {
	c, key := tx.c, timerName{tx.Actor(), name}
	old, existed := c.state.timers[key]
	if !existed && len(c.state.timers) >= maxTimers {
		return fmt.Errorf("set timer %q: %d timers are set, no more are possible", name, maxTimers)
	}
	if n := c.state.timerBytes + len(data) - len(old.data); len(data) > len(old.data) && n > maxTimerBytes {
		return fmt.Errorf("set timer %q: the data of all timers would have %d bytes, %d are possible", name, n,
			maxTimerBytes)
	}
	// At least 1 ns: a timer does not fire in the batch that sets it, or Tick would not end.
	due := c.batch.time + min(int64(max(after, 1)), math.MaxInt64-c.batch.time)
	c.resetTimer(key, timer{due, bytes.Clone(data)})
	return nil
}

// Timer returns when, in ledger time, the actor's timer of that name is due, if it is set.
func (tx *Tx) Timer(name string) (due time.Time, ok bool) {
	t, ok := tx.c.state.timers[timerName{tx.Actor(), name}]
	return nanos(t.due), ok
}

// CancelTimer removes the actor's timer of that name, if it is set.
func (tx *Tx) CancelTimer(name string) {
	c, key := tx.c, timerName{tx.Actor(), name}
	old, existed := c.state.timers[key]
	if !existed {
		return
	}
	c.batch.undo = append(c.batch.undo, undo{kind: undoTimer, timer: &oldTimer{key, old}, existed: true})
	c.state.removeTimer(key)
	delete(c.late, key)
	c.batch.buf = key.append(append(c.batch.buf, byte(OpCancelTimer)))
}

// Switches yields the switches that are up, by datapath id. Of switches in other groups, these are the ones whose
// SwitchUp the actor has handled. It panics in an actor of one switch if there are other groups.
func (tx *Tx) Switches() iter.Seq[openflow.DatapathID] {
	s := tx.c.state
	up := map[openflow.DatapathID]bool{}
	for id, sw := range s.switches {
		if sw.live {
			up[id] = true
		}
	}
	if tx.c.sharded() {
		if tx.at != (Shard{}) {
			panic(fmt.Sprintf("%v asks for all switches: name a cell that is not keyed by a switch", tx.Actor()))
		}
		for k, i := range s.links.in {
			if k.To == tx.Actor() && k.From.isSwitch() && i.live && s.switches[k.From.Switch] == nil {
				up[k.From.Switch] = true
			}
		}
	}
	return slices.Values(slices.Sorted(maps.Keys(up)))
}
