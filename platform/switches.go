package platform

import (
	"errors"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// attached is a session that the loop knows.
type attached struct {
	*southbound.Session
	master   bool // we are its master
	pressure pressure
}

// item is what a session has for the loop. Which fields count is said at each kind.
type item struct {
	kind       itemKind
	session    *southbound.Session
	delivery   *delivery // events
	epoch, seq uint64    // commandsDone
}

type itemKind uint8

const (
	attach itemKind = iota
	detach
	events
	commandsDone
)

// delivery is a batch of events on its way. Its session waits until the loop has executed
// all of it, so the bytes need no copy and a busy ledger slows the switch down.
type delivery struct {
	session *southbound.Session
	batch   southbound.Batch
	done    chan error
}

func (d *delivery) finish(err error) { d.done <- err }

func (it *item) reject() {
	if it.kind == events {
		it.delivery.finish(errClosing)
	}
}

// handler passes on what sessions call; see southbound.Handler.
type handler struct{ c *Controller }

func (h handler) Attached(s *southbound.Session) { h.put(item{kind: attach, session: s}) }

func (h handler) Detached(s *southbound.Session, _ error) { h.put(item{kind: detach, session: s}) }

func (h handler) CommandsDone(s *southbound.Session, epoch, seq uint64) {
	h.put(item{kind: commandsDone, session: s, epoch: epoch, seq: seq})
}

func (h handler) Events(s *southbound.Session, b southbound.Batch) error {
	d := &delivery{session: s, batch: b, done: make(chan error, 1)}
	if !h.put(item{kind: events, session: s, delivery: d}) {
		return errClosing
	}
	return <-d.done
}

func (h handler) put(it item) bool {
	select {
	case h.c.inbox <- it:
		return true
	case <-h.c.done:
		return false
	}
}

func (c *Controller) take(it item) {
	id := it.session.Switch()
	switch it.kind {
	case attach:
		s := &attached{Session: it.session}
		c.sessions[id] = s
		delete(c.absent, id)
		delete(c.held, id)
		if c.role.Leading {
			c.takeOver(s)
		}
	case detach:
		if s := c.sessions[id]; s != nil && s.Session == it.session {
			delete(c.sessions, id)
			delete(c.held, id)
			c.absent[id] = time.Now()
		}
	case events:
		if !c.role.Leading {
			it.delivery.finish(nil) // kept by the agent for the next master
			return
		}
		c.waiting = append(c.waiting, it.delivery)
	case commandsDone:
		if err := c.core.Done(id, it.epoch, it.seq); err != nil {
			it.session.Close(err)
			return
		}
		crash.At(crash.AfterCommandAck)
	}
}

// execute runs waiting events, oldest first, while the ledger has room.
func (c *Controller) execute() {
	if c.draining {
		return
	}
	n := 0
	for _, d := range c.waiting {
		finished, err := c.executeBatch(&d.batch, d.session)
		if !finished {
			break
		}
		n++
		d.finish(err)
	}
	c.waiting = append(c.waiting[:0], c.waiting[n:]...)
	if n > 0 {
		crash.At(crash.BeforeReplicate)
	}
}

func (c *Controller) executeBatch(b *southbound.Batch, s *southbound.Session) (finished bool, err error) {
	id := s.Switch()
	current := c.sessions[id]
	if current != nil && current.Session != s {
		current = nil
	}
	for len(b.Messages) > 0 {
		if !c.core.Room() {
			return false, nil
		}
		if c.hold(current) {
			return true, nil
		}
		msg, rest, err := openflow.Next(b.Messages)
		if err != nil {
			return true, err
		}
		if err := c.core.Event(id, b.Epoch, b.First, msg); err != nil {
			// The agent of a refused epoch forgets what it holds, so only what is committed counts.
			if r, _ := c.core.Resume(id); errors.Is(err, ledger.ErrStaleEpoch) && (r.Closed || r.Epoch > b.Epoch) {
				s.Refuse(experimenter.ReasonStaleEpoch, r.Epoch)
			}
			return true, err // else the agent connects anew and sends what it holds
		}
		b.Messages = rest
		b.First++
	}
	return true, nil
}

// takeOverAll makes this new leader the master of every switch that is connected, and
// starts waiting for those that are not.
func (c *Controller) takeOverAll() {
	for _, s := range c.sessions {
		c.takeOver(s)
	}
	now := time.Now()
	for _, sw := range c.core.Switches() {
		if c.sessions[sw.Switch] == nil {
			c.absent[sw.Switch] = now
		}
	}
}

// suspect is a switch whose events were acknowledged, as its agent says, and are not in this
// log. Either the log is lost, or another controller leads and this one does not know yet:
// an entry of its own that is committed tells.
type suspect struct {
	session *attached
	number  uint64 // of that entry; see ledger.Core.Confirm
}

// suspicious reports whether what the switch was told is logged is not in this log.
func (c *Controller) suspicious(s *attached) bool {
	r, _ := c.core.Resume(s.Switch())
	held := s.Attach()
	return held.Epoch > r.Epoch && held.FirstHeld > 1 || held.Epoch == r.Epoch && held.FirstHeld > r.Acked+1
}

// judge deals with suspects once it is certain that this controller led when they came.
func (c *Controller) judge() {
	if len(c.suspects) == 0 {
		return
	}
	keep := c.suspects[:0]
	for _, x := range c.suspects {
		s := x.session
		switch {
		case c.sessions[s.Switch()] != s: // gone
		case c.core.Confirmed() < x.number:
			keep = append(keep, x)
		case c.suspicious(s):
			held := s.Attach()
			c.log.Error("this switch's events were acknowledged by controllers whose log is lost; it begins a new epoch", "switch", s.Switch(),
				"epoch", held.Epoch, "first held", held.FirstHeld)
			s.Refuse(experimenter.ReasonStaleEpoch, held.Epoch)
		default:
			c.claim(s)
		}
	}
	c.suspects = keep
}

// takeOver makes this leader the master of a switch, unless the switch knows better.
func (c *Controller) takeOver(s *attached) {
	if c.suspicious(s) {
		c.suspects = append(c.suspects, suspect{s, c.core.Confirm()})
		return
	}
	c.claim(s)
}

// claim takes a switch with our term as generation id and sends what is not complete;
// the other end drops what it has done.
func (c *Controller) claim(s *attached) {
	id := s.Switch()
	r, known := c.core.Resume(id)
	if err := s.TakeMaster(c.role.Term); err != nil {
		s.Close(err)
		return
	}
	s.master = true
	if !known {
		return // its first event says what it is
	}
	c.core.Reachable(id, s.Epoch())
	c.send(s, r)
}

// release lets out what is committed.
func (c *Controller) release(list []ledger.Release) {
	if len(list) == 0 {
		return
	}
	crash.At(crash.AfterCommit)
	for _, r := range list {
		if s := c.sessions[r.Switch]; s != nil {
			s.AckEvents(r.Epoch, r.Acked)
		}
	}
	crash.At(crash.AfterEventAck)
	sent := false
	for _, r := range list {
		s := c.sessions[r.Switch]
		switch {
		case s == nil:
		case r.Closed:
			s.Refuse(experimenter.ReasonStaleEpoch, r.Epoch)
		case r.Count > 0:
			if sent {
				crash.At(crash.BetweenCommands)
			}
			c.sendCommands(s, r)
			sent = true
		}
	}
	if sent {
		crash.At(crash.AfterCommands)
	}
}

// send is what a new master says: what is logged, and what is not complete.
func (c *Controller) send(s *attached, r ledger.Release) {
	s.AckEvents(r.Epoch, r.Acked)
	switch {
	case r.Closed:
		s.Refuse(experimenter.ReasonStaleEpoch, r.Epoch)
	case r.Count > 0:
		c.sendCommands(s, r)
	}
}

// sendCommands hands commands to the session. If that fails the session ends, and the
// commands are sent again to the next one: they stay in the ledger until they are done.
func (c *Controller) sendCommands(s *attached, r ledger.Release) {
	if err := s.Send(c.role.Term, r.Epoch, r.First, r.Count, r.Commands); err != nil {
		s.Close(err)
	}
}

// reportAbsent tells the applications of switches that had no connection for the timeout.
func (c *Controller) reportAbsent(now time.Time) {
	for id, since := range c.absent {
		if now.Sub(since) >= c.cfg.SwitchTimeout && c.core.Room() {
			delete(c.absent, id)
			c.core.Unreachable(id)
		}
	}
}
