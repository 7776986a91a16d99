package agent

import (
	"context"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/internal/trunk"
)

// trunks are the connections of an agent to its controllers: one for each address, with a stream for each switch. It is
// made for the first stream, and ends with the last one.
type trunks struct {
	a *Agent

	mu sync.Mutex // guards of
	of map[string]*dialled
}

// dialled is a connection, or one that is being made.
type dialled struct {
	known chan struct{} // closed when t or err is there
	t     *trunk.Trunk
	pair  heartbeat.Pair
	err   error
}

// open opens the stream of a lane to a controller.
func (ts *trunks) open(ctx context.Context, address string, s *lane) error {
	for {
		ts.mu.Lock()
		e := ts.of[address]
		mine := e == nil
		if mine {
			e = &dialled{known: make(chan struct{})}
			ts.of[address] = e
		}
		ts.mu.Unlock()
		if mine {
			ts.a.running.Go(func() { ts.dial(address, e) }) // others may wait for it longer than this one
		}
		select {
		case <-e.known:
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.err != nil {
			return e.err
		}
		if err := s.begin(e); err == nil || mine {
			return err
		}
		ts.forget(address, e) // it has just ended
	}
}

func (ts *trunks) dial(address string, e *dialled) {
	defer close(e.known)
	patient, late := context.WithTimeout(ts.a.ctx, dialTimeout)
	defer late()
	conn, err := ts.a.cfg.Dial(patient, address)
	if err != nil {
		e.err = err
		ts.forget(address, e)
		return
	}
	conn = rawconn.Of(conn)
	e.t = trunk.New(conn, ts.a.cfg.WriteTimeout, nil)
	in := ofconn.NewReader(ofconn.NewWatched(conn, ts.a.cfg.SilentAfter))
	ts.a.running.Go(func() {
		stop := context.AfterFunc(ts.a.ctx, func() { conn.Close() })
		defer stop()
		_ = e.t.Run(nil, in.Next) // its streams tell
		ts.forget(address, e)
	})
}

func (ts *trunks) forget(address string, e *dialled) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.of[address] == e {
		delete(ts.of, address)
	}
}

// lane is the Line of one switch to one controller, and the end of its stream.
type lane struct {
	*trunk.Stream
	d    *device
	l    *link
	over chan struct{} // closed when it has ended

	// Guarded by the device's mu.
	due     bool // it is in device.due
	ended   bool
	err     error  // why it has ended
	held    []byte // has come, and waits because the switch does not take commands
	passing bool   // a goroutine waits for that
}

// begin opens the stream, and makes it the connection to the controller before the controller can send something on it.
// What the others of the trunk send and hear counts for it, too, see pair.
func (s *lane) begin(e *dialled) (err error) {
	s.d.mu.Lock()
	defer s.d.unlock()
	if s.Stream, err = e.t.Open(s); err != nil {
		return err
	}
	if err := s.l.Up(s, &e.pair); err != nil {
		s.Close(err)
	}
	return nil
}

// Remote implements Line, as do Wake and Close.
func (s *lane) Remote() string { return s.l.address }

func (s *lane) Wake() {
	if !s.due && !s.ended {
		s.due = true
		s.d.due = append(s.d.due, s)
	}
}

func (s *lane) Close(cause error) {
	s.finish(cause)
	if cause == errSilent { // and so is the connection, of which all streams count for this one
		s.d.a.running.Go(func() { s.Break(cause) })
		return
	}
	s.Stop()
}

// finish is called with the device's mu locked.
func (s *lane) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err, s.held = true, err, nil
	close(s.over)
	s.d.changed.Broadcast()
}

// end closes the stream from outside.
func (s *lane) end(err error) {
	s.d.mu.Lock()
	defer s.d.unlock()
	s.Close(err)
}

// push implements writable, as does signal.
func (s *lane) push() { s.Stream.Wake() }

func (s *lane) signal() { s.Later() }

func (s *lane) undue() { s.due = false }

// Take implements trunk.End, as do Input and Ended.
func (s *lane) Take(dst []byte, _ int) (out []byte, more bool) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.ended {
		return dst, false
	}
	out = s.l.Take(dst)
	s.d.leave()
	return out, len(out) >= takeAtMost
}

func (s *lane) Input(batch []byte) {
	s.d.mu.Lock()
	defer s.d.unlock()
	switch {
	case s.ended:
	case len(s.held) == 0 && !s.l.Full():
		s.take(batch)
	default:
		s.held = append(s.held, batch...)
		if !s.passing {
			s.passing = true
			s.d.a.running.Go(s.pass)
		}
	}
}

func (s *lane) Ended(err error) {
	s.d.mu.Lock()
	defer s.d.unlock()
	s.finish(err)
}

// take passes a batch to the session. The caller has locked the device's mu.
func (s *lane) take(batch []byte) {
	_, err := s.l.Input(batch)
	s.d.look()
	s.d.changed.Broadcast()
	s.Took(len(batch))
	if err != nil {
		s.Close(err)
	}
}

// pass passes on what is held as soon as the switch takes commands. The window of the stream bounds it.
func (s *lane) pass() {
	d := s.d
	d.mu.Lock()
	for len(s.held) > 0 {
		if s.l.Full() {
			d.leave()
			d.changed.Wait()
			continue
		}
		batch := s.held
		s.held = nil
		s.take(batch)
		d.unlock()
		d.mu.Lock()
	}
	s.passing = false
	d.unlock()
}
