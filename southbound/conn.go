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
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// conn is the Line of a session over TCP, and its reader.
type conn struct {
	session *Session
	srv     *server
	net     net.Conn
	peer    net.Conn // as the listener has returned it
	remote  string
	heard   *ofconn.Watched
	in      *ofconn.Reader
	out     *ofconn.Writer

	busy         atomic.Bool                   // the reader is in the handler
	gone         chan struct{}                 // closed when the session has ended altogether
	wrote        atomic.Uint64                 // how often something was written
	asked        struct{ heard, wrote uint64 } // when ask was called last; used by the ticker only
	turn         int                           // of the echo requests that is for this one; see echoTurns
	untranslated uint64                        // count of the session when it was last logged; used by the ticker only

	mu    sync.Mutex // guards cause
	cause error      // why this side closed it
}

var (
	errRefused = errors.New("refused by the controllers")
	errSlow    = errors.New("it does not read: check its load and its network")
	errShed    = errors.New("there are too many connections, and its host has most of them")
	errCrowded = errors.New("it has sent more than its share of what all switches may send before their handshakes end")
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
	if process := c.session.Process(); process != 0 {
		with := agentProcess{c.host(), process}
		c.session.Share(c.srv.pairs.Take(with))
		defer c.srv.pairs.Leave(with)
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
		c.call(func() { c.srv.handler.Events(c.session, down.Batch) }) // the session ends anyway
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
			if a.Kind == Attached {
				return batch, nil
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
		c.busy.Store(true)
		err := c.srv.handler.Events(c.session, a.Batch)
		c.busy.Store(false)
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

// written is called by the writer. Commands to a legacy switch are done when they are written.
func (c *conn) written(mark uint64) {
	if a := c.session.Written(mark); a.Kind == CommandsDone {
		c.srv.handler.CommandsDone(c.session, a.Batch.Epoch, a.Done)
	}
}

// tick is called every TickInterval.
func (c *conn) tick() {
	if err := c.session.Tick(); err != nil {
		c.Close(err)
	}
	if n := c.session.Untranslated(); n != c.untranslated {
		c.untranslated = n
		id := c.session.Switch()
		c.srv.incidents.Warn("untranslated "+id.String(),
			"a message cannot be expressed in the other OpenFlow version: the application gets an ERROR instead",
			"switch", id, "version", c.session.State().Version)
	}
}

// ask is called every Config.EchoInterval. If nothing was read, or nothing was written, since the last time, it sends
// an echo request: a live peer answers, and hears that this controller is alive even while it does not read.
func (c *conn) ask() {
	heard, wrote := c.heard.Heard(), c.wrote.Load()
	if heard == c.asked.heard || wrote == c.asked.wrote {
		c.session.Echo()
	}
	c.asked.heard, c.asked.wrote = heard, wrote
}

// beat is called heartbeat.Ticks times in each interval of heartbeats.
func (c *conn) beat() {
	if err := c.session.Beat(!c.busy.Load()); err != nil {
		c.Close(err)
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
