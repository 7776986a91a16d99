package ledger

import "github.com/holdfast-sdn/holdfast/stream"

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
	fields      *keyed[[]byte] // of a whole cell
	all         *content       // of a whole table
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
	undoValue     undoKind = iota + 1 // value, existed
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
	undoTable                         // value.table, value.all: what the table had
)

// revert undoes the changes in list, newest first.
func (s *state) revert(list []undo) error {
	for i := len(list) - 1; i >= 0; i-- {
		u := &list[i]
		switch u.kind {
		case undoValue:
			if v := u.value; u.existed {
				v.table.put(v.cell, v.field, v.value)
			} else {
				v.table.delete(v.cell, v.field)
			}
		case undoEvent:
			u.sw.events--
			u.sw.totalEvents--
		case undoEpoch:
			sw, e := u.sw, u.epoch
			sw.incarnation, sw.past = e.was, e.past
			sw.events, sw.totalEvents = e.events, e.totalEvents
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
		case undoCell:
			u.value.table.swap(u.value.cell, u.value.fields)
		case undoTable:
			u.value.table.base = u.value.all
		case undoMove:
			s.revertMove(u.move)
		case undoSuspend:
			s.suspend(u.move.actor, u.move.suspended[0].suspension)
		case undoAsk:
			u.sw.asks = u.link.asks
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
