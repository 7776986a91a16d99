package history

// dueCommand is a command in the log.
type dueCommand struct {
	fingerprint
	index uint64 // of its entry
}

// logCommand handles a command of the log. It belongs to the epoch that is open there.
func (s *switchHistory) logCommand(seq, index uint64, f fingerprint) error {
	e := s.logged
	switch {
	case e == nil || e.ended:
		return violated("switch %s: command %d (%v) is logged while no epoch is open", s.id, seq, f)
	case seq != e.commands+1:
		return violated("switch %s, epoch %d: command %d (%v) is logged after %d", s.id, e.epoch, seq, f, e.commands)
	}
	e.commands = seq
	e.due.push(dueCommand{f, index})
	return nil
}

// execute checks what a switch receives: the commands of the log, each once, in order, and none before it is committed.
func (s *switchHistory) execute(epoch uint64, f fingerprint) error {
	e := s.find(epoch)
	if e == nil {
		return violated("switch %s: gets %v in epoch %d, which no agent opened", s.id, f, epoch)
	}
	seq := e.executed + 1
	if e.due.len() == 0 {
		return violated("switch %s, epoch %d: gets %v (number %d by its xid) as command %d, but only %d are committed",
			s.id, epoch, f, f.number(), seq, e.commands)
	}
	want := e.due.pop()
	if f != want.fingerprint {
		return violated("switch %s, epoch %d: gets %v (number %d by its xid) as command %d; that of entry %d is %v",
			s.id, epoch, f, f.number(), seq, want.index, want.fingerprint)
	}
	e.executed = seq
	return nil
}

// number is the sequence as far as the transaction id of a command contains it.
func (f fingerprint) number() uint32 { return f.xid & 0x7fffff }

// logDone checks a watermark of commands that are done. Commands of an ended epoch are discarded, and count as done.
func (s *switchHistory) logDone(epoch, seq uint64) error {
	e := s.logged
	switch {
	case e == nil || e.epoch != epoch:
		return violated("switch %s: commands of epoch %d are logged as done, which is not the newest in the log", s.id,
			epoch)
	case seq < e.done:
		return violated("switch %s, epoch %d: commands up to %d are logged as done after %d", s.id, epoch, seq, e.done)
	case seq > e.commands:
		return violated("switch %s, epoch %d: command %d is logged as done of %d", s.id, epoch, seq, e.commands)
	case seq > e.executed && !e.over:
		return violated("switch %s, epoch %d: command %d is logged as done; the switch has executed %d", s.id, epoch,
			seq, e.executed)
	}
	e.done = seq
	return nil
}

// lives checks, at the end, that the switch is in that epoch and has executed everything.
func (s *switchHistory) lives(epoch uint64) error {
	e := s.logged
	switch {
	case e == nil || e.epoch != epoch || e.ended:
		return violated("switch %s: at the end it lives in epoch %d, which is not open in the log", s.id, epoch)
	case e.executed != e.commands:
		return violated("switch %s, epoch %d: at the end it has executed %d commands of %d; next is %v of entry %d",
			s.id, epoch,
			e.executed, e.commands, e.due.first().fingerprint, e.due.first().index)
	}
	return nil
}
