package southbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/quota"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// conn is the Line of a session, and its reader. It is a connection of its own, or a stream of the connection of an
// agent. A connection that turns out to have streams has no session after that.
type conn struct {
	session *Session
	srv     *server
	net     io.Closer
	line    net.Conn // that is net; nil if it is a stream
	peer    net.Conn // as the listener has returned it
	remote  string
	place   *quota.Place[*conn]
	stream  *lane           // nil if it is a connection of its own
	heard   *ofconn.Watched // of the connection, as wrote
	wrote   *atomic.Uint64  // how often something was written
	in      inlet
	out     outlet

	carries      atomic.Bool                   // it has streams
	busy         atomic.Bool                   // the handler has events, or is called
	one          [1]Delivery                   // that the handler has
	finished     chan error                    // capacity 1: it is done with that
	gone         chan struct{}                 // closed when the session has ended altogether
	asked        struct{ heard, wrote uint64 } // when ask was called last; used by the ticker only
	ticked       uint64                        // heard when tick was called last; used by the ticker only
	turn         int                           // of the echo requests that is for this one; see echoTurns
	untranslated uint64                        // count of the session when it was last logged; used by the ticker only

	mu    sync.Mutex // guards cause
	cause error      // why this side closed it
}

// inlet is where a conn is read: a Reader of package ofconn, or a stream.
type inlet interface{ Next() ([]byte, error) }

// outlet is where it is written: a Writer of package ofconn, or a stream.
type outlet interface {
	Send(parts ...[]byte) error
	Mark(mark uint64)
	Close() error
}

// open makes the session.
func (c *conn) open() {
	c.session = NewSession(c)
	c.session.core.pool = &c.srv.pool
	c.finished = make(chan error, 1)
	c.one[0] = Delivery{Session: c.session, Done: func(err error) {
		select {
		case c.finished <- err:
		default: // it was told before
		}
	}}
}

var (
	errRefused = errors.New("refused by the controllers")
	errSlow    = errors.New("it does not read: check its load and its network")
	errShed    = errors.New("there are too many connections, and its host has most of them")
	errCrowded = errors.New("it has sent more than its share of what may wait here, of all switches together")
	errLate    = errors.New("it did not complete the handshake in time: is it an OpenFlow switch?")
)

// host is the peer's address without the port.
func (c *conn) host() string {
	host, _, _ := net.SplitHostPort(c.remote)
	return host
}

// Remote implements Line, as do the following.
func (c *conn) Remote() string { return c.remote }

func (c *conn) Now() uint64 { return uint64(max(0, c.srv.cfg.Now().UnixNano())) }

func (c *conn) Write(out []byte, mark uint64) error {
	c.wrote.Add(1)
	err := c.out.Send(out)
	if err != nil {
		if errors.Is(err, ofconn.ErrFull) {
			err = fmt.Errorf("%w; %d bytes wait", errSlow, c.srv.cfg.SendQueue)
		}
		c.Close(err)
		return err
	}
	if mark > 0 {
		c.out.Mark(mark)
	}
	return nil
}

func (c *conn) Linger(reason experimenter.Reason) {
	c.because(fmt.Errorf("%w: %s", errRefused, reason))
	// Closing at once, with unread bytes, would reset the connection and destroy the REFUSE on its way.
	time.AfterFunc(LingerAfterRefuse, func() { c.net.Close() })
}

func (c *conn) Close(err error) {
	c.because(err)
	c.net.Close()
}

func (c *conn) because(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
}

func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// run serves the connection until it ends.
func (c *conn) run(ctx context.Context) {
	defer close(c.gone)
	defer c.out.Close()
	defer c.net.Close()
	rest, err := c.handshake(ctx)
	if err == nil && c.carries.Load() {
		_ = c.carry(ctx, rest) // its streams tell
		return
	}
	if err == nil && c.stream != nil && c.session.State().Peer != Agent {
		err = errors.New("a switch without an agent is on a connection of several: only an agent may have one")
	}
	if admit := c.srv.cfg.Admit; err == nil && admit != nil {
		err = admit(ctx, c.peer, c.session.Switch(), c.session.State().Peer == Agent)
	}
	if err == nil {
		err = c.srv.register(ctx, c)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.srv.incidents.Warn(c.host(), "connection refused", "remote", c.remote, "switch", c.session.Switch(),
				"error", err)
		}
		return
	}
	defer c.srv.unregister(c)
	if c.stream != nil {
		c.session.Share(&c.stream.of.pair)
	}
	c.call(func() { c.srv.handler.Attached(c.session) })
	served := c.why() == nil // otherwise the handler has closed it, and says why
	if served {
		state, id := c.session.State(), c.session.Switch()
		c.srv.incidents.Info("attached "+id.String(), "switch attached", "switch", id, "remote", c.remote, "mode",
			state.Peer, "version", state.Version)
	}
	err = c.reason(c.read(ctx, rest))
	c.net.Close()
	c.out.Close() // no CommandsDone after this
	c.detach(ctx, err, served)
}

// detach reports the end to the handler, and logs it if the switch was served. The end of a switch without an agent is
// an event.
func (c *conn) detach(ctx context.Context, err error, served bool) {
	ours := c.why() != nil || ctx.Err() != nil
	down := c.session.End(downReason(err))
	if down.Kind == Events && !ours {
		_ = c.events(down.Batch) // the session ends anyway
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if served {
		c.srv.incidents.Warn("detached "+c.session.Switch().String(), "switch detached", "switch", c.session.Switch(),
			"remote", c.remote, "error", err)
	}
	c.call(func() { c.srv.handler.Detached(c.session, err) })
}

func downReason(err error) experimenter.Reason {
	var network net.Error
	switch {
	case errors.Is(err, ofconn.ErrSilent):
		return experimenter.ReasonSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errSlow), errors.As(err, &network):
		return experimenter.ReasonConnectionLost
	}
	return experimenter.ReasonGarbage
}

// reason returns why the session ended: the first error that this side or the writer found.
func (c *conn) reason(err error) error {
	cause := c.why()
	if err == io.EOF {
		err = fmt.Errorf("it closed the connection: %w", err)
	}
	if cause != nil || !errors.Is(err, net.ErrClosed) {
		return cmp.Or(cause, err)
	}
	werr := c.out.Close()
	if errors.Is(werr, os.ErrDeadlineExceeded) {
		werr = fmt.Errorf("%w; a write waits for %v", errSlow, c.srv.cfg.WriteTimeout)
	}
	return cmp.Or(werr, err)
}

// call runs f, which calls the handler, and marks the time as busy: then silence does not mean that the peer is dead.
func (c *conn) call(f func()) {
	c.busy.Store(true)
	f()
	c.busy.Store(false)
}

// handshake does the handshake, and returns the bytes that the peer sent after it.
func (c *conn) handshake(ctx context.Context) ([]byte, error) {
	late := time.AfterFunc(c.srv.cfg.HandshakeTimeout, func() { c.Close(errLate) })
	defer late.Stop()
	early := 0 // bytes of events so far, which count in the pool
	defer func() { c.srv.pool.add(-early) }()
	for {
		batch, err := c.in.Next()
		if errors.Is(err, ofconn.ErrSilent) {
			err = errLate
		}
		if err != nil {
			return nil, c.reason(err)
		}
		for len(batch) > 0 {
			var a Action
			if batch, a, err = c.session.Input(batch); err != nil {
				if c.session.Refused() {
					c.linger(ctx)
				}
				c.out.Close() // after sending the error to the peer
				return nil, err
			}
			switch {
			case a.Kind == Attached:
				return batch, nil
			case a.Kind == Carries && c.stream == nil:
				c.carries.Store(true)
				return batch, nil
			case a.Kind == Carries:
				return nil, errors.New("it opens streams within a stream")
			}
		}
		now := c.session.HeldBytes()
		c.srv.pool.add(now - early)
		if early = now; c.srv.pool.crowds(early) {
			return nil, errCrowded
		}
	}
}

// read passes the messages of the peer to the handler until the connection ends.
func (c *conn) read(ctx context.Context, batch []byte) error {
	if c.stream != nil {
		return c.stream.serve(batch)
	}
	for {
		c.awaitRoom(ctx)
		for len(batch) > 0 || c.session.More() {
			rest, a, err := c.session.Input(batch)
			if err == nil {
				err = c.deliver(a)
			}
			if err != nil {
				return err
			}
			batch = rest
		}
		var err error
		if batch, err = c.in.Next(); err != nil {
			return err
		}
	}
}

// awaitRoom waits while the switch should not be read: its events wait to be logged, or it has just connected and no
// leader has claimed it.
func (c *conn) awaitRoom(ctx context.Context) {
	for c.session.Full() && c.why() == nil && ctx.Err() == nil {
		c.busy.Store(c.session.Held() > 0) // a switch that waits for a leader may have connected again meanwhile
		time.Sleep(roomPoll)
	}
	c.busy.Store(false)
}

const roomPoll = 5 * time.Millisecond

func (c *conn) deliver(a Action) error {
	switch a.Kind {
	case Events:
		err := c.events(a.Batch)
		if err != nil && !c.session.Told(a.Batch.Epoch) {
			err = fmt.Errorf("the controller refuses its events: %w", err)
			c.Close(err)
			return err
		}
	case CommandsDone:
		c.call(func() { c.srv.handler.CommandsDone(c.session, a.Batch.Epoch, a.Done) })
	}
	return nil
}

// events passes events to the handler, and waits until it is done with them.
func (c *conn) events(b Batch) error {
	c.busy.Store(true)
	defer c.busy.Store(false)
	c.one[0].Batch = b
	c.srv.handler.Events(c.one[:])
	return <-c.finished
}

// written is called by the writer. Commands to a legacy switch are done when they are written.
func (c *conn) written(mark uint64) {
	if a := c.session.Written(mark); a.Kind == CommandsDone {
		c.srv.handler.CommandsDone(c.session, a.Batch.Epoch, a.Done)
	}
}

// tick is called every TickInterval.
func (c *conn) tick() {
	heard := c.heard.Heard()
	reading := heard != c.ticked || !c.busy.Load()
	c.ticked = heard
	if err := c.session.Tick(reading); err != nil {
		c.Close(err)
	}
	if c.stream != nil {
		if err := c.stream.stalled(c.srv.cfg.WriteTimeout); err != nil {
			c.Close(err)
			c.stream.Stop()
		}
	}
	if n := c.session.Untranslated(); n != c.untranslated {
		c.untranslated = n
		id := c.session.Switch()
		c.srv.incidents.Warn("untranslated "+id.String(),
			"a message cannot be expressed in the other OpenFlow version: the application gets an ERROR instead",
			"switch", id, "version", c.session.State().Version)
	}
}

// ask is called every Config.EchoInterval. If nothing was read from the connection, or nothing was written, since the
// last time, it sends an echo request: a live peer answers, and hears that this controller is alive even while it does
// not read.
func (c *conn) ask() {
	if c.carries.Load() {
		return // its streams do
	}
	heard, wrote := c.heard.Heard(), c.wrote.Load()
	if heard == c.asked.heard || wrote == c.asked.wrote {
		c.session.Echo()
	}
	c.asked.heard, c.asked.wrote = heard, wrote
}

// beat is called heartbeat.Ticks times in each interval of heartbeats.
func (c *conn) beat(crowd func() int) {
	if c.stream != nil && c.stream.of.silent {
		return
	}
	err := c.session.Beat(!c.busy.Load() && (c.stream == nil || !c.stream.of.waits.Load()), crowd)
	switch {
	case err == nil:
	case c.stream == nil:
		c.Close(err)
	default: // all of the connection is silent
		c.stream.of.silent = true
		for _, other := range c.srv.conns() {
			if other.stream != nil && other.stream.of == c.stream.of {
				other.session.silence()
				other.because(err)
			}
		}
		c.stream.of.Close(err)
	}
}

// alive sends an echo request, and reports whether the peer is alive.
func (c *conn) alive(ctx context.Context) bool {
	before := c.heard.Heard()
	c.session.Echo()
	limit := time.NewTimer(c.srv.cfg.ProbeTimeout)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for p := (Probe{}); ; {
		p.Heard, p.Busy = c.heard.Heard() != before, c.busy.Load()
		p.Heard = p.Heard && (c.stream == nil || !c.stream.over()) // others of the connection are heard, too
		if alive, known := p.Alive(); known {
			return alive
		}
		select {
		case <-c.gone:
			p.Gone = true
		case <-limit.C:
			p.Late = true
		case <-look.C:
		case <-ctx.Done():
			return true
		}
	}
}

// linger gives an agent that was refused before it was attached the time to read the REFUSE.
func (c *conn) linger(ctx context.Context) {
	end := time.AfterFunc(LingerAfterRefuse, func() { c.net.Close() })
	defer end.Stop()
	for ctx.Err() == nil {
		if _, err := c.in.Next(); err != nil {
			return
		}
	}
}
