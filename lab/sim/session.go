package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

var errSlow = errors.New("it does not read")

// session is a southbound.Session on a conn, which it is the Line of. It is the controller.Session of the controller's
// core, and tells its stepCheck what that says.
type session struct {
	*southbound.Session
	n     *controllerNode
	c     *conn
	id    openflow.DatapathID // once it is attached
	r     *replica            // that serves the switch; nil until it is assigned to a group
	in    history.Framer
	rest  []byte // read, and not yet taken in
	state sessionState
	busy  bool // the controller has not finished with the last events
	full  bool // it was not to be read when it was looked at last
	heard time.Duration
	bytes uint64            // pieces that came, to see whether it lives
	seen  uint64            // bytes at the last tick
	down  southbound.Action // the last event of a stock switch, when it is gone
	step  stepCheck
	moved uint64 // version of the assignment, while a group takes the session after a move of the switch
}

type sessionState uint8

const (
	greeting  sessionState = iota
	probing                // waits for the other session of its switch to show that it lives
	attached               // the controller knows it, once the switch is assigned to a group
	lingering              // refused: its agent is to read why
	gone
)

func (n *controllerNode) acceptSwitch(c *conn) {
	s := &session{n: n, c: c, heard: n.s.w.now}
	s.Session = southbound.NewSession(plug{s})
	n.sessions = append(n.sessions, s)
	c.onData, c.onClose = s.data, func(err error) { s.ended(err, experimenter.ReasonConnectionLost) }
	n.p.after(southbound.DefaultHandshakeTimeout, func() {
		if s.state == greeting {
			s.end(errors.New("no handshake"))
		}
	})
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
	for (len(s.rest) > 0 || s.More()) && !s.busy && !s.Full() && (s.state == greeting ||
		s.state == attached && s.r != nil) {
		before, known := s.rest, s.state == attached
		rest, a, err := s.Input(s.rest)
		s.rest = rest // what is before it is the controller's until it is done with that
		if err != nil {
			s.ended(err, experimenter.ReasonGarbage)
			return
		}
		if known { // else rest has what came in the handshake, too
			s.step.heard(s, before[:len(before)-len(rest)])
		}
		s.deliver(a)
	}
	if s.full = s.Full(); s.state != gone {
		s.c.pauseReading(s.busy || s.full || s.state == probing || s.state == attached && s.r == nil)
	}
}

func (s *session) deliver(a southbound.Action) {
	switch a.Kind {
	case southbound.Attached:
		s.register()
	case southbound.CommandsDone:
		s.put(func(c *controller.Core) { c.CommandsDone(s, a.Batch.Epoch, a.Done) })
	case southbound.Events:
		s.busy = true
		s.step.delivers(a.Batch)
		s.put(func(c *controller.Core) {
			c.Events(s, a.Batch, func(err error) { s.finished(a.Batch.Epoch, err) })
		})
	}
}

// put leaves something for the loop of the replica that serves the switch now.
func (s *session) put(item func(c *controller.Core)) {
	r := s.r
	r.put(func() { item(r.core) })
}

// finished is when the controller has done with events.
func (s *session) finished(epoch uint64, err error) {
	s.busy = false
	switch {
	case s.state == gone:
		s.last()
	case err != nil && !s.Told(epoch):
		s.Close(err)
	default:
		s.n.p.after(0, s.read)
	}
}

// register makes the session that of its switch, unless another lives. southbound.Serve ends the probe as soon as its
// result is known; here it always takes its whole time.
func (s *session) register() {
	i := slices.IndexFunc(s.n.sessions, func(o *session) bool {
		return o != s && o.state == attached && o.id == s.Switch()
	})
	if i < 0 {
		s.state, s.id = attached, s.Switch()
		s.n.s.w.note(s.n.p, "switch %s attached", s.id)
		if !s.assigned() && s.state == attached {
			s.ask()
			s.n.p.after(assignPatience, func() {
				if s.r == nil && s.state == attached {
					s.end(errors.New("it is assigned to no group"))
				}
			})
		}
		return
	}
	old := s.n.sessions[i]
	before := old.bytes
	s.state = probing
	old.Echo()
	s.n.p.after(southbound.DefaultProbeTimeout, func() {
		if s.state != probing {
			return
		}
		probe := southbound.Probe{Gone: old.state != attached, Heard: old.bytes != before, Late: true, Busy: old.busy}
		if alive, _ := probe.Alive(); alive {
			s.state = greeting
			s.Refuse(experimenter.ReasonDuplicateDatapath, old.State().Epoch)
			return
		}
		if !probe.Gone {
			old.end(errors.New("another connection came with its datapath id"))
		}
		s.register()
		s.read()
	})
}

// assigned passes the session to the replica of its switch's group. It returns false if the group is not known, or has
// no replica here; then the session ends, and an agent learns why.
func (s *session) assigned() bool {
	r, known := s.n.assigned.of(s.id)
	if s.r = r; r == nil {
		switch {
		case known && s.State().Peer == southbound.Agent:
			s.Session.Refuse(experimenter.ReasonElsewhere, s.State().Epoch)
		case known:
			s.end(errors.New("its group has no replica here"))
		}
		return false
	}
	s.put(func(c *controller.Core) { c.Attached(s) })
	return true
}

// reassigned passes the session to the replica of the group to which its switch has moved.
func (s *session) reassigned(to ledger.Assignment) {
	if s.state != attached {
		return
	}
	r := s.n.replica(to.Group)
	switch {
	case r != nil:
		s.r = r
		s.put(func(c *controller.Core) {
			s.moved = to.Version
			c.Reassigned(s, to)
			s.moved = 0
		})
	case s.State().Peer == southbound.Agent:
		s.Session.Refuse(experimenter.ReasonElsewhere, s.State().Epoch)
	default:
		s.end(errors.New("its group has no replica here"))
	}
}

// ask asks the system group for the group of the switch, again and again until there is one.
func (s *session) ask() {
	if s.state != attached || s.r != nil {
		return
	}
	want := directory.Assign{Actors: []ledger.Actor{{Shard: ledger.AtSwitch(s.id)}}, Groups: s.n.homes()}
	system := s.n.replicas[0]
	system.put(func() { system.core.Ask(directory.Name, want.Append(nil)) })
	s.n.p.after(assignEvery, s.ask)
}

// ended ends the session because of what the peer did, which is the last event of a stock switch.
func (s *session) ended(err error, reason experimenter.Reason) {
	if s.state == attached {
		s.down = s.End(reason)
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
		s.n.s.w.note(s.n.p, "switch %s detached: %v", s.id, err)
		if !s.busy && s.r != nil {
			s.last()
		}
	}
}

// last brings the last event, if there is one, and the end.
func (s *session) last() {
	if s.down.Kind == southbound.Events {
		s.put(func(c *controller.Core) { c.Events(s, s.down.Batch, func(error) { s.detach() }) })
		return
	}
	s.detach()
}

func (s *session) detach() {
	s.put(func(c *controller.Core) { c.Detached(s.n.p.clock(), s) })
}

// echo asks everyone for a sign of life, and gives up who gives none.
func (n *controllerNode) echo() {
	for _, s := range slices.Clone(n.sessions) {
		s.Echo()
		if !s.busy && n.s.w.now-s.heard > southbound.DefaultSilentAfter {
			s.ended(errors.New("it is silent"), experimenter.ReasonSilent)
		}
	}
}

// tick has switches without an agent show how far their log is. Those that were full may be read again.
func (n *controllerNode) tick() {
	for _, s := range slices.Clone(n.sessions) {
		reading := s.bytes != s.seen || !s.busy && !s.full
		s.seen = s.bytes
		if err := s.Tick(reading); err != nil && s.state != gone {
			s.ended(err, experimenter.ReasonSilent)
		}
		if s.full && s.state == attached {
			s.read()
		}
	}
}

// beat sends heartbeats to agents, and gives up one that is silent.
func (n *controllerNode) beat() {
	for _, s := range slices.Clone(n.sessions) {
		if err := s.Beat(!s.busy, nil); err != nil && s.state != gone {
			s.ended(err, experimenter.ReasonSilent)
		}
	}
}

// plug is a session's end of its connection: southbound.Line.
type plug struct{ s *session }

func (l plug) Remote() string { return "" }
func (l plug) Now() uint64    { return uint64(l.s.n.p.clock().UnixNano()) }

func (l plug) Write(out []byte, mark uint64) error {
	s := l.s
	if s.state == gone {
		return nil
	}
	if s.c.unread()+len(out) > southbound.DefaultSendQueue {
		s.end(errSlow)
		return errSlow
	}
	s.c.write(out)
	if mark > 0 {
		s.n.p.after(0, func() {
			if s.state == attached {
				s.deliver(s.Written(mark))
			}
		})
	}
	return nil
}

func (l plug) Linger(experimenter.Reason) {
	s := l.s
	switch s.state {
	case gone, lingering:
		return
	case attached:
		s.state = lingering
	default:
		s.state = probing // nobody knows it
	}
	s.n.p.after(southbound.LingerAfterRefuse, func() { s.end(errors.New("refused")) })
}

// Close ends the session once the caller is done with it.
func (l plug) Close(err error) { l.s.n.p.after(0, func() { l.s.end(err) }) }

// The following of controller.Session are shown to the stepCheck.

func (s *session) Claim(generation uint64, r southbound.Resume) error {
	s.step.claims(s, r)
	return s.Session.Claim(generation, r)
}

func (s *session) Standby(generation uint64) {
	s.Session.Standby(generation)
	s.step.stands(s)
}

func (s *session) Logged(epoch, seq uint64, msg []byte) bool {
	ours := s.Session.Logged(epoch, seq, msg)
	s.step.logged(s, seq, msg)
	return ours
}

func (s *session) Skipped(epoch, seq uint64, n int) bool {
	ours := s.Session.Skipped(epoch, seq, n)
	if n == southbound.Unknown {
		if s.moved > 0 && s.n.s.h.Continues(s.id, s.moved) {
			s.n.s.w.fail("controller %d takes the session of switch %s, which has moved, for one that lacks events "+
				"of the log", s.n.id, s.id)
		}
		s.step = stepCheck{claimed: s.step.claimed}
	}
	return ours
}

func (s *session) Acknowledge(epoch, seq uint64) {
	s.Session.Acknowledge(epoch, seq)
	s.step.acked(s, epoch, seq)
}

func (s *session) Refuse(reason experimenter.Reason, epoch uint64) {
	if s.State().Peer != southbound.Agent && reason == experimenter.ReasonStaleEpoch {
		s.n.s.h.Refused(s.Switch(), epoch)
		s.step = stepCheck{claimed: s.step.claimed}
	}
	s.Session.Refuse(reason, epoch)
}
