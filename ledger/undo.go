package ledger

// undo is the inverse of one change. Which fields count is said at each kind. It is small,
// since every event and every command makes one.
type undo struct {
	kind     undoKind
	existed  bool // there was a value, a timer, reachability before
	sw       *switchState
	saved    *switchState // a copy of the whole
	position uint64       // of the queue's end
	value    *oldValue
	timer    *oldTimer
}

type oldValue struct {
	table       *table
	cell, field Key
	value       []byte
}

type oldTimer struct {
	name timerName
	timer
}

type undoKind uint8

const (
	undoValue     undoKind = iota + 1 // value, existed
	undoEvent                         // sw: the watermark goes back by one
	undoEpoch                         // sw, saved: an epoch began or ended
	undoReachable                     // sw, existed: the flag before
	undoCommand                       // sw, position
	undoTimer                         // timer, existed
	undoSkipped                       // sw, position: the watermark before
)

// revert takes back the changes in list, newest first.
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
			completed := u.sw.completed
			*u.sw = *u.saved
			u.sw.completed = completed
			if completed.epoch == u.sw.epoch {
				u.sw.queue.pop(completed.seq) // it was committed after the copy was made
			}
		case undoReachable:
			u.sw.reachable = u.existed
		case undoCommand:
			if err := u.sw.queue.truncate(u.position, u.sw.queue.next-1); err != nil {
				return err
			}
			u.sw.totalCommands--
		case undoSkipped:
			u.sw.totalEvents -= u.sw.events - u.position
			u.sw.events = u.position
		case undoTimer:
			if t := u.timer; u.existed {
				s.timers[t.name] = t.timer
			} else {
				delete(s.timers, t.name)
			}
		}
	}
	return nil
}
