package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Times and bounds of package southbound.
const (
	sessionEcho        = time.Second
	sessionMark        = 100 * time.Millisecond
	sessionSilentAfter = 5 * time.Second
	sessionProbe       = 500 * time.Millisecond
	sessionHandshake   = 5 * time.Second
	sessionLinger      = time.Second
	sessionQueue       = 8 << 20
)

var errSlow = errors.New("it does not read")

// session is a controller's side of one switch connection: southbound.Core on a conn. It is the
// controller.Session of the controller's core.
type session struct {
	n     *controllerNode
	c     *conn
	core  southbound.Core
	in    history.Framer
	rest  []byte // read, and not yet taken in
	state sessionState
	busy  bool // the controller has not finished with the last events
	heard time.Duration
	bytes uint64            // pieces that came, to see whether it lives
	down  southbound.Action // the last event of a stock switch, when it is gone
	step  stepCheck
}

type sessionState uint8

const (
	greeting  sessionState = iota
	probing                // waits for the other session of its switch to show that it lives
	attached               // the controller knows it
	lingering              // refused: its agent is to read why
	gone
)

func (n *controllerNode) acceptSwitch(c *conn) {
	s := &session{n: n, c: c, heard: n.s.w.now}
	n.sessions = append(n.sessions, s)
	c.onData, c.onClose = s.data, func(err error) { s.ended(err, experimenter.ReasonConnectionLost) }
	n.p.after(sessionHandshake, func() {
		if s.state == greeting {
			s.end(errors.New("no handshake"))
		}
	})
	s.core.Start()
	s.flush()
}

func (s *session) data(piece []byte) {
	s.heard = s.n.s.w.now
	s.bytes++
	if s.state == lingering {
		return
	}
	batch, err := s.in.Add(piece)
	s.rest = append(s.rest, batch...)
	s.read()
	if err != nil {
		s.ended(err, experimenter.ReasonGarbage)
	}
}

// read hands what has come to the core, and what comes out of that to the controller.
func (s *session) read() {
	for (len(s.rest) > 0 || s.core.More()) && !s.busy && (s.state == greeting || s.state == attached) {
		before, known := s.rest, s.state == attached
		rest, a, err := s.core.Next(s.rest, s.now())
		s.rest = rest // what is before it is the controller's until it is done with that
		s.flush()
		if err != nil {
			s.ended(err, experimenter.ReasonGarbage)
			return
		}
		if known { // else rest has what came in the handshake, too
			s.step.heard(s, before[:len(before)-len(rest)])
		}
		s.deliver(a)
	}
	if s.state != gone {
		s.c.pauseReading(s.busy || s.state == probing)
	}
}

func (s *session) deliver(a southbound.Action) {
	switch a.Kind {
	case southbound.Attached:
		s.register()
	case southbound.CommandsDone:
		s.n.put(func() { s.n.core.CommandsDone(s, a.Batch.Epoch, a.Done) })
	case southbound.Events:
		s.busy = true
		s.n.put(func() { s.n.core.Events(s, a.Batch, func(err error) { s.finished(a.Batch.Epoch, err) }) })
	}
}

// finished is when the controller has done with events.
func (s *session) finished(epoch uint64, err error) {
	s.busy = false
	switch {
	case s.state == gone:
		s.last()
	case err != nil && !s.core.Told(epoch):
		s.Close(err)
	default:
		s.n.p.after(0, s.read)
	}
}

// register makes the session that of its switch, unless another lives; see southbound.Serve.
func (s *session) register() {
	i := slices.IndexFunc(s.n.sessions, func(o *session) bool {
		return o != s && o.state == attached &&
			o.Switch() == s.Switch()
	})
	if i < 0 {
		s.state = attached
		s.n.s.w.note(s.n.p, "switch %s attached", s.Switch())
		s.n.put(func() { s.n.core.Attached(s) })
		return
	}
	old := s.n.sessions[i]
	before := old.bytes
	s.state = probing
	old.core.Echo()
	old.flush()
	s.n.p.after(sessionProbe, func() {
		switch {
		case s.state != probing:
			return
		case old.state == attached && (old.bytes != before || old.busy):
			s.state = greeting
			s.Refuse(experimenter.ReasonDuplicateDatapath, old.Epoch())
			return
		case old.state == attached:
			old.end(errors.New("another connection came with its datapath id"))
		}
		s.register()
		s.read()
	})
}

// flush writes what the core has to say.
func (s *session) flush() error {
	if s.state == gone {
		return nil
	}
	out := s.core.TakeOut()
	if len(out) == 0 {
		return nil
	}
	if s.c.unread()+len(out) > sessionQueue {
		s.end(errSlow)
		return errSlow
	}
	s.c.write(out)
	return nil
}

// ended ends the session because of what the peer did, which is the last event of a stock switch.
func (s *session) ended(err error, reason experimenter.Reason) {
	if s.state == attached {
		s.down = s.core.End(reason)
	}
	s.end(err)
}

// end ends the session, and the controller hears of it.
func (s *session) end(err error) {
	if s.state == gone {
		return
	}
	known := s.state == attached || s.state == lingering
	s.state = gone
	s.c.close()
	s.n.sessions = slices.DeleteFunc(s.n.sessions, func(o *session) bool { return o == s })
	if known {
		s.n.s.w.note(s.n.p, "switch %s detached: %v", s.Switch(), err)
		if !s.busy {
			s.last()
		}
	}
}

// last brings the last event, if there is one, and the end.
func (s *session) last() {
	if s.down.Kind == southbound.Events {
		s.n.put(func() { s.n.core.Events(s, s.down.Batch, func(error) { s.detach() }) })
		return
	}
	s.detach()
}

func (s *session) detach() {
	s.n.put(func() { s.n.core.Detached(s.n.p.clock(), s) })
}

// echo asks everyone for a sign of life, and gives up who gives none.
func (n *controllerNode) echo() {
	for _, s := range slices.Clone(n.sessions) {
		s.core.Echo()
		s.flush()
		if !s.busy && n.s.w.now-s.heard > sessionSilentAfter {
			s.ended(errors.New("it is silent"), experimenter.ReasonSilent)
		}
	}
}

// mark has stock switches show how far their log is.
func (n *controllerNode) mark() {
	for _, s := range slices.Clone(n.sessions) {
		if err := s.core.Tick(s.now()); err != nil {
			s.ended(err, experimenter.ReasonSilent)
			continue
		}
		s.flush()
	}
}

// The following are controller.Session.

func (s *session) Switch() openflow.DatapathID { return s.core.Switch() }
func (s *session) Remote() string              { return "" }
func (s *session) Mode() southbound.Mode       { return s.core.Mode() }
func (s *session) Attach() experimenter.Attach { return s.core.Attach() }
func (s *session) Epoch() uint64               { return s.core.Epoch() }
func (s *session) Version() uint8              { return s.core.Version() }

func (s *session) now() uint64 { return uint64(s.n.p.clock().UnixNano()) }

func (s *session) TakeMaster(term uint64, r southbound.Resume) error {
	s.step.claims(s, r)
	if err := s.core.TakeMaster(term, s.now(), r); err != nil {
		return err
	}
	return s.flush()
}

func (s *session) Standby(term uint64)         { s.core.Standby(term); s.step.stands(s); s.flush() }
func (s *session) Logged(msg []byte)           { s.core.Logged(msg); s.step.logged(s, msg); s.flush() }
func (s *session) Skipped(n int)               { s.core.Skipped(n) }
func (s *session) Unknown()                    { s.core.Unknown(); s.step = stepCheck{} }
func (s *session) InStep() bool                { return s.core.InStep() }
func (s *session) Outdone() bool               { return s.core.Outdone() }
func (s *session) Guarantee() (string, string) { return s.core.Guarantee() }

func (s *session) AckEvents(epoch, seq uint64) {
	s.core.AckEvents(experimenter.Ack{Epoch: epoch, Seq: seq})
	s.step.acked(s, epoch)
	s.flush()
}

func (s *session) Send(term, epoch, first uint64, count int, messages []byte) error {
	err := s.core.Send(experimenter.Block{Term: term, Epoch: epoch, First: first, Count: uint32(count)}, messages)
	if err != nil {
		return err
	}
	return s.flush()
}

func (s *session) SendLoose(term, epoch uint64, count int, messages []byte) error {
	err := s.core.SendLoose(experimenter.Block{Term: term, Epoch: epoch, Count: uint32(count)}, messages)
	if err != nil {
		return err
	}
	return s.flush()
}

func (s *session) Refuse(reason experimenter.Reason, epoch uint64) {
	if s.Mode() == southbound.Stock && reason == experimenter.ReasonStaleEpoch {
		s.n.s.h.Refused(s.Switch(), epoch)
		s.step = stepCheck{}
	}
	stays := s.core.Refuse(experimenter.Refuse{Reason: reason, Epoch: epoch}, s.now())
	if s.flush() != nil || s.state == gone || stays {
		return
	}
	if s.state != attached {
		s.state = probing // nobody knows it
	} else {
		s.state = lingering
	}
	s.n.p.after(sessionLinger, func() { s.end(errors.New("refused")) })
}

func (s *session) Hold()         { s.core.Hold() }
func (s *session) Resend() error { s.core.Resend(); return s.flush() }

// Close ends the session once the caller is done with it.
func (s *session) Close(err error) { s.n.p.after(0, func() { s.end(err) }) }
