// Package sink writes to what may block, such as a pipe that nobody reads, in a goroutine of its own: who writes to a
// Sink never waits. What does not fit in its bound is dropped and counted. It is for logs and records for people, and
// not for what must not be lost.
package sink

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Sink is an io.Writer that does not block. Its methods are safe for concurrent use.
type Sink struct {
	to    io.Writer
	bound int
	ended chan struct{} // closed when everything is written, after Close

	mu      sync.Mutex // guards the fields below; not held while writing
	wake    sync.Cond  // there is something to write, or closed
	waiting []byte
	dropped int  // writes since the last mark
	within  bool // the last that was taken did not end a line
	closed  bool
	err     error // of to; everything after it is dropped
}

// New returns a Sink that holds at most bound bytes, and as many again that are being written.
func New(to io.Writer, bound int) *Sink {
	s := &Sink{to: to, bound: bound, ended: make(chan struct{})}
	s.wake.L = &s.mu
	go s.run() // ends with Close, when to has taken everything, or at once if it has failed
	return s
}

// Blocks reports whether writing to a file may block for ever: it may, unless it is a regular one.
func Blocks(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && !info.Mode().IsRegular()
}

// Write takes all of b, or nothing. The error is that of an earlier write which has failed.
func (s *Sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return 0, s.err
	case s.closed:
		return len(b), nil
	case len(s.waiting)+len(b) > s.bound:
		s.dropped++
		s.wake.Signal()
		return len(b), nil
	}
	s.mark()
	s.waiting = append(s.waiting, b...)
	s.within = len(b) > 0 && b[len(b)-1] != '\n'
	s.wake.Signal()
	return len(b), nil
}

// mark says how much was dropped behind what is waiting.
func (s *Sink) mark() {
	if s.dropped == 0 {
		return
	}
	if s.within {
		s.waiting = append(s.waiting, '\n')
	}
	s.waiting = fmt.Appendf(s.waiting, "… %d writes were dropped here, because nobody read what was before …\n",
		s.dropped)
	s.dropped, s.within = 0, false
}

func (s *Sink) run() {
	defer close(s.ended)
	var b []byte
	for {
		s.mu.Lock()
		for len(s.waiting)+s.dropped == 0 && !s.closed && s.err == nil {
			s.wake.Wait()
		}
		s.mark() // also if nothing more is written
		if len(s.waiting) == 0 || s.err != nil {
			s.mu.Unlock()
			return
		}
		b, s.waiting = s.waiting, b[:0]
		s.mu.Unlock()
		if _, err := s.to.Write(b); err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
		}
	}
}

// Close waits until everything is written, but not longer than patience. What is written to the Sink afterwards is
// dropped.
func (s *Sink) Close(patience time.Duration) error {
	s.mu.Lock()
	s.closed = true
	s.wake.Signal()
	s.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.ended:
	case <-late.C:
		return fmt.Errorf("nobody has read what was written for %v", patience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
