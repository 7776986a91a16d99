package client

import (
	"context"
	"sync"

	"github.com/holdfast-sdn/holdfast/store"
)

// sessions has the present session of a client.
type sessions struct {
	open func(context.Context) (id uint64, err error)

	opening chan struct{} // capacity 1: full while a session is opened, so that there is one
	mu      sync.Mutex    // guards current, and what sessions have
	current *session
}

// session numbers requests.
type session struct {
	id      uint64
	last    uint64          // seq that was given
	acked   uint64          // all up to it have ended
	ended   map[uint64]bool // those after it that have ended
	changed chan struct{}   // closed when acked grows
}

// begin returns the number of a request, and up to which all others have ended. It waits while too many run.
func (s *sessions) begin(ctx context.Context) (_ *session, seq, acked uint64, err error) {
	for {
		s.mu.Lock()
		in := s.current
		if in == nil {
			s.mu.Unlock()
			if err := s.ensure(ctx); err != nil {
				return nil, 0, 0, err
			}
			continue
		}
		if in.last < in.acked+store.Window {
			in.last++
			seq, acked = in.last, in.acked
			s.mu.Unlock()
			return in, seq, acked, nil
		}
		changed := in.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, 0, context.Cause(ctx)
		}
	}
}

// ensure opens a session, if there is none.
func (s *sessions) ensure(ctx context.Context) error {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	there := s.current != nil
	s.mu.Unlock()
	if there {
		return nil
	}
	id, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = &session{id: id, ended: map[uint64]bool{}, changed: make(chan struct{})}
	return nil
}

// take removes the present session, and returns it with the number of its last request; nil if there is none.
func (s *sessions) take() (_ *session, seq, acked uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.current
	if in == nil {
		return nil, 0, 0
	}
	s.current = nil
	return in, in.last + 1, in.acked
}

// end says that nobody needs the answer to a request any more.
func (s *sessions) end(in *session, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.ended[seq] = true
	before := in.acked
	for in.ended[in.acked+1] {
		in.acked++
		delete(in.ended, in.acked)
	}
	if in.acked > before {
		close(in.changed)
		in.changed = make(chan struct{})
	}
}

// drop forgets a session that has expired: the next request begins another one.
func (s *sessions) drop(in *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == in {
		s.current = nil
	}
}
