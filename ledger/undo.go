package ledger

import (
	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/stream"
)

// undo is the inverse of one change. The comment at each kind lists the fields that it uses. It is small, because every
// event and every command makes one.
type undo struct {
	kind    undoKind
	existed bool // there was a value, a timer, reachability before
	sw      *switchState
	before  uint64
	epoch   *oldEpoch
	value   *oldValue
	timer   *oldTimer
	link    *oldLink
	move    *oldMove
}

type oldEpoch struct {
	was         *incarnation
	past        []watermark
	events      stream.Watermark
	totalEvents uint64
}

type oldValue struct {
	table       *table
	cell, field Key
	value       []byte
	fields      cells.Cell   // of a whole cell
	all         *cells.Table // of a whole table
}

type oldTimer struct {
	name timerName
	timer
}

type oldLink struct {
	out      *outgoing
	in       *incoming
	received received // of in
	asks     asks
}

type undoKind uint8

const (
	undoValue     undoKind = iota + 1 // value, existed; before: where putAgain wrote in the entry; 0: it did not
	undoEvent                         // sw: the watermark goes back by one
	undoEpoch                         // sw, epoch: a new one began, or it ended
	undoReachable                     // sw, existed: the flag before
	undoCommand                       // sw: the newest command
	undoTimer                         // timer, existed
	undoSkipped                       // sw, before: the watermark
	undoSend                          // link.out, before: how many commands the newest item has
	undoReceive                       // link.in, link.received
	undoAsk                           // sw, link.asks
	undoMove                          // move
	undoSuspend                       // move.suspended: the actor before
	undoCell                          // value.table, value.cell, value.fields: what the cell had
	undoFloor                         // before: the floor
	undoTable                         // value.table, value.all: what the table had
)

// oldValues are the old values of a batch: many in one piece of memory, since every write makes one.
type oldValues struct {
	blocks []*[oldBlock]oldValue
	n      int // in use
}

const oldBlock = 64

// add keeps an old value until it is cut.
func (o *oldValues) add(v oldValue) *oldValue {
	b := o.n / oldBlock
	if b == len(o.blocks) {
		o.blocks = append(o.blocks, new([oldBlock]oldValue))
	}
	at := &o.blocks[b][o.n%oldBlock]
	o.n++
	*at = v
	return at
}

// cut forgets the values from n on.
func (o *oldValues) cut(n int) {
	for ; o.n > n; o.n-- {
		o.blocks[(o.n-1)/oldBlock][(o.n-1)%oldBlock] = oldValue{}
	}
}

// maxOldBlocks bounds the memory that a batch keeps for the next one: about 0.5 MiB.
const maxOldBlocks = 64

// reset forgets all values. Some of the memory is used again.
func (o *oldValues) reset() {
	o.cut(0)
	if len(o.blocks) > maxOldBlocks {
		clear(o.blocks[maxOldBlocks:])
		o.blocks = o.blocks[:maxOldBlocks]
	}
}

// revertIn undoes a change of a value or of a cell in the table that was changed, or in a copy of it.
func (u *undo) revertIn(t *cells.Table) {
	switch v := u.value; {
	case u.kind == undoCell:
		t.Set(v.cell, v.fields)
	case u.existed:
		t.Put(v.cell, v.field, v.value)
	default:
		t.Delete(v.cell, v.field)
	}
}

// revert undoes the changes in list, newest first.
func (s *state) revert(list []undo) error {
	for i := len(list) - 1; i >= 0; i-- {
		u := &list[i]
		switch u.kind {
		case undoValue, undoCell:
			u.revertIn(u.value.table.cells)
		case undoEvent:
			u.sw.events--
			u.sw.totalEvents--
		case undoEpoch:
			sw, e := u.sw, u.epoch
			sw.incarnation, sw.past = e.was, e.past
			sw.events, sw.totalEvents = e.events, e.totalEvents
			if sw.epoch == 0 { // it was the first one
				s.setSwitch(sw.id, nil)
			}
		case undoReachable:
			u.sw.reachable = u.existed
		case undoCommand:
			if err := u.sw.queue.TakeBack(u.sw.queue.Last() - 1); err != nil {
				return err
			}
			u.sw.totalCommands--
		case undoSend:
			if err := u.link.out.takeBack(u.before); err != nil {
				return err
			}
		case undoReceive:
			u.link.in.received = u.link.received
		case undoTable:
			u.value.table.cells = u.value.all
		case undoMove:
			s.revertMove(u.move)
		case undoSuspend:
			s.suspend(u.move.actor, u.move.suspended[0].suspension)
		case undoAsk:
			u.sw.asks = u.link.asks
		case undoFloor:
			s.floor = u.before
		case undoSkipped:
			u.sw.totalEvents -= uint64(u.sw.events) - u.before
			u.sw.events = stream.Watermark(u.before)
		case undoTimer:
			if t := u.timer; u.existed {
				s.setTimer(t.name, t.timer)
			} else {
				s.removeTimer(t.name)
			}
		}
	}
	return nil
}
