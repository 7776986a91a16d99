package southbound

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/trunk"
)

// An agent with several switches has one connection with a stream for each (package trunk). After its handshake no
// goroutine reads or writes a stream: the reader of the trunk passes what has come to the sessions, and all events of a
// read to the handler at once. What comes for a session whose events the handler still has waits in its stream, and the
// feeder of the trunk goes on with it.

// carrier is a trunk of the server.
type carrier struct {
	*trunk.Trunk
	conn *conn // that it is on
	pair heartbeat.Pair
	read []Delivery // of the present read

	silent bool        // used by the ticker only
	waits  atomic.Bool // it is in the handler, so nothing is read

	mu    sync.Mutex    // guards ready
	ready []*lane       // have something to be read, and may be read again
	wake  chan struct{} // capacity 1: ready is not empty
}

// carry serves the streams of a connection until it ends. rest is what was read and is not handled yet. The connection
// gives its place to its first stream, and ends with its last one, so trunks are no more than streams.
func (c *conn) carry(ctx context.Context, rest []byte) error {
	t := &carrier{conn: c, wake: make(chan struct{}, 1)}
	var streams sync.WaitGroup
	t.Trunk = trunk.New(c.line, c.srv.cfg.WriteTimeout, func(s *trunk.Stream) (trunk.End, bool) {
		return t.accept(ctx, s, &streams)
	})
	fed := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(fed)
		t.feed(stop)
	}()
	t.waits.Store(true) // while what was read is passed on
	err := t.Run(rest, func() ([]byte, error) {
		t.deliver()
		t.waits.Store(false)
		defer t.waits.Store(true)
		return c.in.Next()
	})
	t.deliver() // what came before the error
	streams.Wait()
	close(stop)
	<-fed
	return err
}

func (t *carrier) accept(ctx context.Context, s *trunk.Stream, streams *sync.WaitGroup) (trunk.End, bool) {
	c := t.conn.srv.newStream(t, s)
	c.srv.places.Leave(t.conn.place) // the connection itself needs none from now on
	place := c.srv.place(c)
	if place == nil {
		return nil, false
	}
	c.srv.add(c)
	streams.Go(func() {
		c.run(ctx)
		c.srv.remove(c)
		c.srv.places.Leave(place)
	})
	return c.stream, true
}

// deliver hands what one read has brought to the handler.
func (t *carrier) deliver() {
	if len(t.read) > 0 {
		t.conn.srv.handler.Events(t.read)
		t.read = nil
		runtime.Gosched() // the loop runs now, on this processor: the next read is less urgent
	}
}

// feed passes to the sessions what has come while the handler had events of them.
func (t *carrier) feed(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-t.wake:
		}
		t.mu.Lock()
		list := t.ready
		t.ready = nil
		t.mu.Unlock()
		var read []Delivery
		for _, s := range list {
			read = s.advance(read)
		}
		if len(read) > 0 {
			t.conn.srv.handler.Events(read)
		}
	}
}

// again leaves a stream to the feeder.
func (t *carrier) again(s *lane) {
	t.mu.Lock()
	t.ready = append(t.ready, s)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// lane is the end of a stream: what a connection of its own is for other sessions.
type lane struct {
	*trunk.Stream
	of    *carrier
	c     *conn
	limit int         // bytes that wait to be sent
	done  func(error) // finished, as a value

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond // wakes its goroutine: something has come before it is served, or it ends
	in      []byte     // has come
	served  bool       // after the handshake, input goes to the session at once
	passing bool       // somebody passes batch to the session, or the handler has events of it
	closed  bool       // by Close
	err     error      // why nothing more comes
	out     []byte     // to be sent
	since   time.Time  // for so long out has waited without anything being sent

	batch []byte // being passed to the session; the one who is passing has it
	spare []byte // in next time; as batch
}

// newStream makes the session of a stream.
func (srv *server) newStream(t *carrier, ts *trunk.Stream) *conn {
	s := &lane{Stream: ts, of: t, limit: srv.cfg.SendQueue}
	s.changed, s.done = sync.NewCond(&s.mu), s.finished
	c := &conn{srv: srv, net: s, peer: t.conn.peer, remote: t.conn.remote, heard: t.conn.heard,
		wrote: t.conn.wrote, in: s, out: s, gone: make(chan struct{}), stream: s}
	s.c = c
	c.open()
	return c
}

// Input implements trunk.End, as do Ended and Take.
func (s *lane) Input(batch []byte) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.in = append(s.in, batch...)
	s.c.srv.pool.add(len(batch))
	crowded := s.c.srv.pool.crowds(len(s.in))
	if !s.served {
		s.changed.Broadcast()
	}
	pass := s.served && !s.passing && !crowded
	s.passing = s.passing || pass
	s.mu.Unlock()
	switch {
	case crowded:
		s.c.Close(errCrowded)
	case pass:
		s.of.read = s.advance(s.of.read)
	}
}

// Ended says that nothing more comes. What is to be sent is lost.
func (s *lane) Ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.out = nil
	s.changed.Broadcast()
}

func (s *lane) Take(dst []byte, credit int) (out []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.out)
	if n > credit {
		for n = 0; n < len(s.out); {
			size := int(s.out[n+2])<<8 | int(s.out[n+3])
			if n > 0 && n+size > credit {
				break
			}
			n += size
		}
	}
	dst = append(dst, s.out[:n]...)
	s.since = time.Now()
	if n == len(s.out) {
		if s.out = s.out[:0]; cap(s.out) > keepStream {
			s.out = nil
		}
		return dst, false
	}
	s.out = s.out[n:]
	return dst, true
}

// keepStream is the largest buffer of a stream that is kept for reuse.
const keepStream = 64 << 10

// Send implements outlet, as do Mark and Close.
func (s *lane) Send(parts ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.out)
	for _, p := range parts {
		n += len(p)
	}
	switch {
	case s.err != nil:
		return s.err
	case len(s.out) > 0 && n > s.limit:
		return ofconn.ErrFull
	case len(s.out) == 0:
		s.since = time.Now()
	}
	for _, p := range parts {
		s.out = append(s.out, p...)
	}
	s.Wake()
	return nil
}

// Mark is for switches without an agent, which have no streams.
func (s *lane) Mark(uint64) {}

// Close ends the stream when what was sent is on its way, and lets its goroutine end.
func (s *lane) Close() error {
	s.mu.Lock()
	if s.err == nil {
		s.err = net.ErrClosed
	}
	s.drop()
	s.changed.Broadcast()
	if len(s.out) > 0 && !s.closed {
		time.AfterFunc(s.c.srv.cfg.WriteTimeout, s.Stop)
	}
	s.closed = true
	s.mu.Unlock()
	s.Stream.Close()
	return nil
}

// Next waits until something has come, and returns it; before the stream is served.
func (s *lane) Next() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.in) == 0 && s.err == nil {
		s.changed.Wait()
	}
	if len(s.in) == 0 {
		return nil, s.err
	}
	batch := s.in
	s.drop()
	s.Took(len(batch))
	return batch, nil
}

// drop empties in. The caller holds mu.
func (s *lane) drop() {
	s.c.srv.pool.add(-len(s.in))
	s.in = nil
}

// serve passes rest, and what comes after it, to the session and the handler until the stream ends, and returns why.
func (s *lane) serve(rest []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served, s.passing = true, true
	s.batch = rest
	s.of.again(s)
	for s.err == nil || s.passing {
		s.changed.Wait()
	}
	return s.err
}

// advance passes what has come to the session, up to the next events, which it adds to the list for the handler. The
// caller has set passing.
func (s *lane) advance(list []Delivery) []Delivery {
	for {
		if len(s.batch) == 0 && !s.refill() {
			return list
		}
		rest, a, err := s.c.session.Input(s.batch)
		s.batch = rest
		switch {
		case err != nil:
			s.fail(err)
		case a.Kind == Events:
			s.c.busy.Store(true)
			return append(list, Delivery{s.c.session, a.Batch, s.done})
		case a.Kind == CommandsDone:
			s.c.srv.handler.CommandsDone(s.c.session, a.Batch.Epoch, a.Done)
		}
	}
}

// refill makes batch what has come. If there is nothing, or the stream has ended, nobody passes it on any more.
func (s *lane) refill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(s.spare) > keepStream {
		s.spare = nil
	}
	if len(s.in) == 0 {
		s.pause()
		return false
	}
	s.batch, s.in, s.spare = s.in, s.spare[:0], s.in
	s.c.srv.pool.add(-len(s.batch))
	s.Took(len(s.batch))
	return true
}

// pause says that nobody passes anything on now. The goroutine of the stream is woken only if it ends: with few events
// outstanding, waking it each time would cost the leader about a tenth of its processor time. The caller holds mu.
func (s *lane) pause() {
	s.passing = false
	if s.err != nil {
		s.changed.Broadcast()
	}
}

// fail ends the stream because of what has come.
func (s *lane) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.drop()
	s.mu.Unlock()
	s.batch = nil
}

// finished is called when the handler is done with events.
func (s *lane) finished(err error) {
	c := s.c
	c.busy.Store(false)
	if err != nil && !c.session.Told(0) { // the epoch does not matter with an agent
		err = fmt.Errorf("the controller refuses its events: %w", err)
		c.because(err)
		s.fail(err)
	}
	s.mu.Lock()
	idle := len(s.batch) == 0 && len(s.in) == 0
	if idle {
		s.pause()
	}
	s.mu.Unlock()
	if !idle {
		s.of.again(s)
	}
}

// over reports whether nothing more comes.
func (s *lane) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// stalled returns an error if the peer has not taken anything for so long.
func (s *lane) stalled(limit time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.out) == 0 || time.Since(s.since) < limit {
		return nil
	}
	return fmt.Errorf("%w; a write waits for %v", errSlow, limit)
}
