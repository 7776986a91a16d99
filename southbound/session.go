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
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Session is one switch, connected by its agent or by itself. Its methods are safe for
// concurrent use and never block.
type Session struct {
	srv    *server
	conn   net.Conn
	heard  *ofconn.Watched
	in     *ofconn.Reader
	out    *ofconn.Writer
	remote string

	busy  atomic.Bool   // the reader is in the handler
	taken chan struct{} // capacity 1: the first TakeMaster came
	gone  chan struct{} // closed when the session has ended altogether

	mu    sync.Mutex // guards the fields below; held for copies only, never for I/O or a handler
	core  Core
	cause error // why the session was closed from this side

	untranslated uint64 // of core, when that was last logged
}

var (
	errRefused = errors.New("refused by the controllers")
	errSlow    = errors.New("it does not read: see whether it is overloaded, or its network")
	errLate    = errors.New("it did not complete the handshake in time: is it an OpenFlow switch?")
)

// lingerAfterRefuse is how long a refused agent has to read why.
const lingerAfterRefuse = time.Second

// Switch names the switch.
func (s *Session) Switch() openflow.DatapathID { return s.core.Switch() }

// Mode says whether an agent stands before the switch.
func (s *Session) Mode() Mode { return s.core.Mode() }

// Version is the OpenFlow version that the peer speaks.
func (s *Session) Version() uint8 { return s.core.Version() }

// Attach is what the agent said first; zero in Direct mode.
func (s *Session) Attach() experimenter.Attach { return s.core.Attach() }

// Features is the switch's FEATURES_REPLY when it connected, a whole message of
// OpenFlow 1.3. Read only.
func (s *Session) Features() []byte { return s.core.Features() }

// Remote is the peer's network address.
func (s *Session) Remote() string { return s.remote }

// Epoch is the newest epoch that the peer named. An agent names it in ATTACH and by the
// next SWITCH_UP, so a session that is not master may hear of it late. A switch without agent
// has none before TakeMaster, 0.
func (s *Session) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Epoch()
}

// TakeMaster claims the switch for the leader of a term, whose log knows r. An agent then sends every
// event that is not acknowledged, from the first. In Stock mode the epoch goes on likewise, from what this
// controller holds, if the switch still has the epoch's marker and nothing was missed; else, and in
// Direct mode always, a new one begins. ErrNotMaster: this session was claimed in a later term.
func (s *Session) TakeMaster(term uint64, r Resume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.core.Fresh()
	err := s.core.TakeMaster(term, s.now(), r)
	if fresh {
		s.taken <- struct{}{}
	}
	if err != nil {
		return err
	}
	return s.flush()
}

// Standby says that another controller leads, in a term if that is known: this one has no claim any more. All else that
// it does, and Logged, Skipped and Unknown, have an effect in Stock mode only.
func (s *Session) Standby(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Standby(term)
	s.flush()
}

// Logged says that an event of the switch has come into the log of another leader. Every one is to be told, in order.
func (s *Session) Logged(msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Logged(msg)
	s.flush()
}

// Skipped is Logged for n asynchronous events of which the log has only the number.
func (s *Session) Skipped(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Skipped(n)
}

// Unknown says that the log has come to a point without showing the events before it.
func (s *Session) Unknown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Unknown()
}

// InStep reports whether this controller could lead now without missing an event of the switch. Always so but in Stock
// mode.
func (s *Session) InStep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.InStep()
}

// Guarantee says what the switch gets: "exactly-once", "at-least-once", "at-most-once" or "none", and why. It is "" for
// a stock switch that this controller is not the master of.
func (s *Session) Guarantee() (guarantee, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Guarantee()
}

// Outdone reports that the agent refuses this controller as master, since it had one with a later term.
func (s *Session) Outdone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Outdone()
}

// Hold drops what an agent has to say until Resend, but for acknowledgements of commands. It may be
// called within Handler.Events: then nothing that comes behind those events is handed over. Without effect in Direct
// mode.
func (s *Session) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Hold()
}

// Resend asks an agent for every event that is not acknowledged, from the first.
func (s *Session) Resend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Resend()
	return s.flush()
}

// AckEvents tells the agent that everything up to seq is logged. Without effect in Direct mode.
func (s *Session) AckEvents(epoch, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.AckEvents(experimenter.Ack{Epoch: epoch, Seq: seq})
	s.flush()
}

// Send queues a block of commands: count messages of OpenFlow 1.3 one after the other, the
// first with sequence first. It copies them. Commands of another epoch than the switch's
// are dropped, by the agent or here. A peer that does not read fills its queue; then the
// session is closed, and the commands are to be sent again when it is back. ErrNotMaster:
// term is not that of the last TakeMaster.
func (s *Session) Send(term, epoch, first uint64, count int, messages []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Send(experimenter.Block{Term: term, Epoch: epoch, First: first, Count: uint32(count)},
		messages); err != nil {
		return err
	}
	return s.flush()
}

// SendLoose queues commands that have no sequence: they leave once, and are lost with the
// connection. Otherwise as Send.
func (s *Session) SendLoose(term, epoch uint64, count int, messages []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.SendLoose(experimenter.Block{Term: term, Epoch: epoch, Count: uint32(count)},
		messages); err != nil {
		return err
	}
	return s.flush()
}

// Refuse tells the peer why it cannot stay, and closes. epoch is the newest that the
// controllers know. A switch without agent that is refused for a stale epoch stays
// connected and begins a new epoch above.
func (s *Session) Refuse(reason experimenter.Reason, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.core.Refuse(experimenter.Refuse{Reason: reason, Epoch: epoch}, s.now()) {
		s.flush()
		return
	}
	if s.cause == nil {
		s.cause = fmt.Errorf("%w: %s", errRefused, reason)
	}
	if s.flush() == nil && s.core.Mode() == Agent {
		// Closing at once, with bytes unread, would destroy what is on its way.
		time.AfterFunc(lingerAfterRefuse, func() { s.conn.Close() })
		return
	}
	s.conn.Close()
}

// Close ends the session; Detached gets err.
func (s *Session) Close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// The following run with mu held.

func (s *Session) fail(err error) {
	if s.cause == nil {
		s.cause = err
	}
	s.conn.Close()
}

func (s *Session) now() uint64 { return uint64(s.srv.cfg.Now().UnixNano()) }

// flush queues what the core has to say. If that fails the session ends, and Detached tells.
func (s *Session) flush() error {
	if n := s.core.Untranslated(); n != s.untranslated {
		s.untranslated = n
		s.srv.incidents.Warn("untranslated "+s.core.Switch().String(),
			"a message cannot be said in the other OpenFlow version: the application gets an ERROR in its place",
			"switch", s.core.Switch(), "version", s.core.Version())
	}
	out := s.core.TakeOut()
	if len(out) == 0 {
		return nil
	}
	if err := s.out.Send(out); err != nil {
		if errors.Is(err, ofconn.ErrFull) {
			err = fmt.Errorf("%w; %d bytes wait", errSlow, s.srv.cfg.SendQueue)
		}
		s.fail(err)
		return err
	}
	if mark, yes := s.core.DoneAtWrite(); yes {
		s.out.Mark(mark)
	}
	return nil
}

// run serves the connection until it ends.
func (s *Session) run(ctx context.Context) {
	defer close(s.gone)
	defer s.out.Close()
	defer s.conn.Close()
	rest, err := s.handshake(ctx)
	if err == nil {
		err = s.srv.register(ctx, s)
	}
	if err != nil {
		if ctx.Err() == nil {
			host, _, _ := net.SplitHostPort(s.remote)
			s.srv.incidents.Warn(host, "connection refused", "remote", s.remote, "switch", s.core.Switch(), "error",
				err)
		}
		return
	}
	defer s.srv.unregister(s)
	s.srv.incidents.Info("attached "+s.core.Switch().String(), "switch attached", "switch", s.core.Switch(), "remote",
		s.remote, "mode", s.core.Mode(), "version", s.core.Version())
	s.call(func() { s.srv.handler.Attached(s) })
	err = s.reason(s.read(ctx, rest))
	s.conn.Close()
	s.out.Close() // no CommandsDone after this
	s.detach(ctx, err)
}

// detach tells the handler and the log. The end of a switch that has no agent is an event.
func (s *Session) detach(ctx context.Context, err error) {
	s.mu.Lock()
	ours := s.cause != nil || ctx.Err() != nil
	down := s.core.End(downReason(err))
	s.mu.Unlock()
	if down.Kind == Events && !ours {
		s.call(func() { s.srv.handler.Events(s, down.Batch) }) // the session ends anyway
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		s.srv.incidents.Warn("detached "+s.core.Switch().String(), "switch detached", "switch", s.core.Switch(),
			"remote", s.remote, "error", err)
	}
	s.call(func() { s.srv.handler.Detached(s, err) })
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

// reason returns why the session ended: what this side or the writer found first.
func (s *Session) reason(err error) error {
	s.mu.Lock()
	cause := s.cause
	s.mu.Unlock()
	if err == io.EOF {
		err = fmt.Errorf("it closed the connection: %w", err)
	}
	if cause != nil || !errors.Is(err, net.ErrClosed) {
		return cmp.Or(cause, err)
	}
	werr := s.out.Close() // without mu, which the writer may need to end
	if errors.Is(werr, os.ErrDeadlineExceeded) {
		werr = fmt.Errorf("%w; a write waits for %v", errSlow, s.srv.cfg.WriteTimeout)
	}
	return cmp.Or(werr, err)
}

// call marks the time that the handler takes: then nothing can be said about the peer.
func (s *Session) call(f func()) {
	s.busy.Store(true)
	f()
	s.busy.Store(false)
}

// handshake returns what the peer sent after it.
func (s *Session) handshake(ctx context.Context) ([]byte, error) {
	late := time.AfterFunc(s.srv.cfg.HandshakeTimeout, func() { s.Close(errLate) })
	defer late.Stop()
	s.mu.Lock()
	s.core.Start()
	s.flush()
	s.mu.Unlock()
	for {
		batch, err := s.in.Next()
		if errors.Is(err, ofconn.ErrSilent) {
			err = errLate
		}
		if err != nil {
			return nil, s.reason(err)
		}
		for len(batch) > 0 {
			s.mu.Lock()
			var a Action
			batch, a, err = s.core.Next(batch, s.now())
			if ferr := s.flush(); err == nil {
				err = ferr
			}
			s.mu.Unlock()
			if err != nil {
				if s.core.Refused() {
					s.linger(ctx)
				}
				s.out.Close() // sends what there is to say about it
				return nil, err
			}
			if a.Kind == Attached {
				return batch, nil
			}
		}
	}
}

// read hands what the peer says to the handler until the connection ends.
func (s *Session) read(ctx context.Context, batch []byte) error {
	if s.core.Mode() == Direct {
		if err := s.awaitMaster(ctx); err != nil {
			return err
		}
	}
	for {
		for len(batch) > 0 || s.more() {
			s.mu.Lock()
			rest, a, err := s.core.Next(batch, s.now())
			if ferr := s.flush(); err == nil {
				err = ferr
			}
			s.mu.Unlock()
			if err == nil {
				err = s.deliver(a)
			}
			if err != nil {
				return err
			}
			batch = rest
		}
		s.awaitRoom(ctx)
		var err error
		if batch, err = s.in.Next(); err != nil {
			return err
		}
	}
}

// awaitMaster gives the leader the time to take a new switch that has no agent, before
// anything that it says would be lost; then, if it is taken, its epoch begins.
func (s *Session) awaitMaster(ctx context.Context) error {
	patience := time.NewTimer(s.srv.cfg.EchoInterval)
	defer patience.Stop()
	select {
	case <-s.taken:
	case <-patience.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	a := s.core.Begin()
	s.mu.Unlock()
	return s.deliver(a)
}

func (s *Session) more() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.More()
}

// awaitRoom waits while a stock switch may say no more, since nothing of what it has said is being logged.
func (s *Session) awaitRoom(ctx context.Context) {
	for {
		s.mu.Lock()
		wait := s.core.Full() && s.cause == nil && ctx.Err() == nil
		s.mu.Unlock()
		if !wait {
			return
		}
		s.call(func() { time.Sleep(roomPoll) })
	}
}

const roomPoll = 5 * time.Millisecond

func (s *Session) deliver(a Action) error {
	switch a.Kind {
	case Events:
		s.busy.Store(true)
		err := s.srv.handler.Events(s, a.Batch)
		s.busy.Store(false)
		if err != nil && !s.told(a.Batch.Epoch) {
			err = fmt.Errorf("the controller refuses its events: %w", err)
			s.Close(err)
			return err
		}
	case CommandsDone:
		s.call(func() { s.srv.handler.CommandsDone(s, a.Batch.Epoch, a.Done) })
	}
	return nil
}

func (s *Session) told(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Told(epoch)
}

// commandsWritten is called by the writer: OpenFlow 1.0 without agent is done at the write.
func (s *Session) commandsWritten(mark uint64) {
	s.mu.Lock()
	a := s.core.Written(mark)
	s.mu.Unlock()
	if a.Kind == CommandsDone {
		s.srv.handler.CommandsDone(s, a.Batch.Epoch, a.Done)
	}
}
