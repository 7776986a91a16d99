package history

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

// logDone checks a watermark of commands that are done. Commands of an ended epoch are discarded, and count as done.
func (s *switchHistory) logDone(epoch, seq uint64) error {
	if err := s.loggedSwitch.logDone(epoch, seq); err != nil {
		return err
	}
	if e := s.logged; seq > e.executed && !e.over {
		return violated("switch %s, epoch %d: command %d is logged as done; the switch has executed %d", s.id, epoch,
			seq, e.executed)
	}
	return nil
}

// lives checks, at the end, that the switch is in that epoch and has executed everything.
func (s *switchHistory) lives(epoch uint64) error {
	e := s.logged
	switch {
	case !s.open(epoch):
		return violated("switch %s: at the end it lives in epoch %d, which is not open in the log", s.id, epoch)
	case e.executed != e.commands:
		return violated("switch %s, epoch %d: at the end it has executed %d commands of %d; next is %v of entry %d",
			s.id, epoch, e.executed, e.commands, e.due.first().fingerprint, e.due.first().index)
	}
	return nil
}

// quiet reports whether every command of the open epoch is executed.
func (s *switchHistory) quiet() bool {
	e := s.logged
	return e == nil || e.ended || e.executed == e.commands
}
