package trunk

import "github.com/holdfast-sdn/holdfast/openflow/experimenter"

// Stream is one end of a stream.
type Stream struct {
	t   *Trunk
	id  uint32
	end End

	// Guarded by the trunk's mu.
	credit  int  // bytes that may be sent
	unread  int  // bytes that have come, and that the other end does not know to be taken
	taken   int  // of unread: taken
	due     bool // it is in Trunk.due
	waiting bool // for credit
	fresh   bool // the other end does not know of it
	has     bool // the End may have more than Take has returned
	closing bool // when the End has no more, the stream ends
	stopped bool // the End is asked for no more
}

// Wake says that the End has something to append. The end of an agent writes it, with what others have, or leaves it to
// who writes now. It does not wait.
func (s *Stream) Wake() {
	t := s.t
	if t.direct == nil {
		s.Later()
		return
	}
	t.mu.Lock()
	s.has = true
	s.wake()
	t.mu.Unlock()
	t.flush(!t.alone())
}

// Later is Wake, but leaves it to the writer.
func (s *Stream) Later() {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	s.has = true
	s.wake()
	t.signal()
}

// wake is called with mu locked.
func (s *Stream) wake() {
	if t := s.t; !s.due && s.end != nil && t.streams[s.id] == s {
		s.due = true
		t.due = append(t.due, s)
	}
}

// Took says that the End is done with so many bytes.
func (s *Stream) Took(n int) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.taken += n; s.taken >= Window/2 {
		s.wake()
		t.signal()
	}
}

// Close ends the stream when everything is sent that the End has.
func (s *Stream) Close() {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	s.close()
}

// Stop ends the stream. What the End has is not sent.
func (s *Stream) Stop() {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	s.stopped = true
	s.close()
}

// Break is Trunk.Close for the trunk of the stream.
func (s *Stream) Break(err error) { s.t.fail(err) }

// close is called with mu locked.
func (s *Stream) close() {
	t := s.t
	if !s.closing && t.streams[s.id] == s {
		t.ending++
	}
	s.closing = true
	s.wake()
	t.signal()
}

// nobody is the End of a stream that is refused.
type nobody struct{}

func (nobody) Take(dst []byte, _ int) ([]byte, bool) { return dst, false }
func (nobody) Input([]byte)                          {}
func (nobody) Ended(error)                           {}

// take appends the frames of a stream that is due.
func (s *Stream) take(buf []byte) []byte {
	t := s.t
	t.mu.Lock()
	s.due, s.waiting = false, false
	if t.streams[s.id] != s {
		t.mu.Unlock()
		return buf
	}
	if n := s.taken; n >= Window/2 {
		s.taken, s.unread = 0, s.unread-n
		buf = experimenter.Stream{ID: s.id, Kind: experimenter.StreamCredit, Number: uint32(n)}.Append(buf)
	}
	credit, end, fresh := s.credit, s.end, s.fresh
	ask := !s.stopped && credit > 0
	more := !s.stopped && s.has
	if s.fresh = false; ask {
		s.has = false
	}
	t.mu.Unlock()
	at := len(buf)
	buf = experimenter.Stream{ID: s.id, Kind: experimenter.StreamData}.Append(buf)
	begin := len(buf)
	if ask {
		var out []byte
		if out, more = end.Take(buf[begin:], credit); len(out) > cap(buf)-begin {
			buf = append(buf, out...) // Take has made a larger one
		} else {
			buf = buf[:begin+len(out)]
		}
	}
	n := len(buf) - begin
	if n == 0 && !fresh {
		buf = buf[:at]
	} else {
		experimenter.Stream{ID: s.id, Kind: experimenter.StreamData, Number: uint32(n)}.Append(buf[:at])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.credit -= n
	s.has = s.has || more
	switch {
	case more && s.credit > 0:
		s.wake()
	case more:
		s.waiting = true
	case s.closing && t.streams[s.id] == s:
		buf = experimenter.Stream{ID: s.id, Kind: experimenter.StreamEnd}.Append(buf)
		t.remove(s.id)
	}
	return buf
}
