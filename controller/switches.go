package controller

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Session is one connected switch. A *southbound.Session is one; what the methods do is said there. None of them waits.
type Session interface {
	Switch() openflow.DatapathID
	State() southbound.State

	Claim(term uint64, r southbound.Resume) error
	Standby(term uint64)
	Send(b experimenter.Block, messages []byte) error
	Acknowledge(epoch, seq uint64)
	Logged(msg []byte)
	Skipped(n int)

	Hold()
	Resend()
	Refuse(reason experimenter.Reason, epoch uint64)
	Close(err error)
}

// attached is a session that the Core knows.
type attached struct {
	Session
	master   bool // we are its master, in this term
	pressure pressure
}

// refuseEpoch says that an epoch is over, unless the switch has begun a newer one.
func (s *attached) refuseEpoch(epoch uint64) {
	if s.State().Epoch <= epoch {
		s.Refuse(experimenter.ReasonStaleEpoch, epoch)
	}
}

// delivery is a batch of events on its way.
type delivery struct {
	session Session
	batch   southbound.Batch // what is not executed yet
	done    func(error)
}

// Attached starts a session.
func (c *Core) Attached(session Session) {
	s, id := &attached{Session: session}, session.Switch()
	c.sessions[id] = s
	if delete(c.hearing, id); session.State().Peer != southbound.Agent {
		c.hearing[id] = s
	}
	delete(c.absent, id)
	delete(c.held, id)
	if c.role.Leading {
		c.takeOver(s)
	} else {
		s.Standby(c.leadersTerm())
		c.step.looked = time.Time{} // at once
	}
}

// Detached ends a session.
func (c *Core) Detached(now time.Time, session Session) {
	id := session.Switch()
	if s := c.sessions[id]; s != nil && s.Session == session {
		delete(c.sessions, id)
		delete(c.hearing, id)
		delete(c.held, id)
		c.absent[id] = now
	}
}

// Events takes events of a session. done is called once, now or in a later call, when all of them are
// executed, or with why they are not to be; until then b.Messages must not change, and the session brings
// no more: so a busy ledger slows its switch down.
func (c *Core) Events(session Session, b southbound.Batch, done func(error)) {
	if !c.role.Leading || outdated(session) {
		done(nil) // kept for the next master, by the agent or the session
		return
	}
	c.waiting = append(c.waiting, delivery{session, b, done})
}

// CommandsDone notes that a switch has executed its commands up to seq.
func (c *Core) CommandsDone(session Session, epoch, seq uint64) {
	if outdated(session) {
		return
	}
	if err := c.ledger.Done(session.Switch(), epoch, seq); err != nil {
		session.Close(err)
		return
	}
	crash.At(crash.AfterCommandAck)
}

// outdated reports whether what a session brings to a leader is from before it was claimed. A session of a switch
// without an agent is not in sync during a claim, and then gives the events other numbers in the same epoch: answers
// that came to this controller in an earlier term are no longer among them.
func outdated(session Session) bool { return !session.State().InSync }

// finishWaiting tells all sessions that wait.
func (c *Core) finishWaiting(err error) {
	for _, d := range c.waiting {
		d.done(err)
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
}

// execute runs waiting events, oldest first, while the ledger has room.
func (c *Core) execute(now time.Time) {
	if c.draining {
		return
	}
	n := 0
	for i := range c.waiting {
		d := &c.waiting[i]
		finished, err := c.executeBatch(now, &d.batch, d.session)
		c.releaseImmediate()
		if !finished {
			break
		}
		n++
		d.done(err)
	}
	c.waiting = slices.Delete(c.waiting, 0, n)
	if n > 0 {
		crash.At(crash.BeforeReplicate)
	}
}

func (c *Core) executeBatch(now time.Time, b *southbound.Batch, s Session) (finished bool, err error) {
	id := s.Switch()
	current := c.sessions[id] // to be held up, if it is this one and somebody keeps its events
	peer := s.State().Peer
	if current != nil && (current.Session != s || peer == southbound.Legacy) {
		current = nil
	}
	event := c.ledger.Event
	if peer == southbound.Agent { // which keeps them itself: no standby looks for them in the log
		event = c.ledger.EventByDigest
	}
	for len(b.Messages) > 0 {
		if !c.room() {
			return false, nil
		}
		if current != nil && c.hold(now, id, current) {
			return true, nil
		}
		msg, rest, err := openflow.Next(b.Messages)
		if err != nil {
			return true, err
		}
		if err := event(id, b.Epoch, b.First, msg); err != nil {
			// The agent of a refused epoch forgets what it holds, so only what is committed counts.
			if r, _ := c.ledger.Resume(id); errors.Is(err, ledger.ErrStaleEpoch) && (r.Closed || r.Epoch > b.Epoch) {
				s.Refuse(experimenter.ReasonStaleEpoch, r.Epoch)
			}
			return true, err // else the agent connects anew and sends what it holds
		}
		b.Messages = rest
		b.First++
	}
	if b.Done > 0 { // in the entry of the event that says so
		return true, c.ledger.Done(id, b.Epoch, b.Done)
	}
	return true, nil
}

// acknowledge tells sessions what is committed.
func (c *Core) acknowledge(list []ledger.Release) {
	for _, r := range list {
		if s := c.sessions[r.Switch]; s != nil && r.BestEffortCount == 0 {
			s.Acknowledge(r.Epoch, r.Acked)
		}
	}
}

// acknowledgeHeld is for the end of a leadership: what is committed, and was not said yet, the sessions
// need hold no more.
func (c *Core) acknowledgeHeld(list []ledger.Release) {
	for _, r := range list {
		if s := c.sessions[r.Switch]; s != nil && s.State().Peer == southbound.Bundles {
			s.Acknowledge(r.Epoch, r.Acked)
		}
	}
}

// observe shows the standby sessions what another leader has logged.
func (c *Core) observe(id openflow.DatapathID, _, _ uint64, msg []byte) {
	if s := c.hearing[id]; s != nil {
		s.Logged(msg)
	}
}

func (c *Core) observeSkipped(id openflow.DatapathID, _, _, asynchronous uint64) {
	if s := c.hearing[id]; s != nil {
		s.Skipped(int(asynchronous))
	}
}

// leadersTerm is that in which somebody leads, 0 if it is not known: a switch must not hear of a term that nobody
// has won, or it would refuse who leads in the one before.
func (c *Core) leadersTerm() uint64 {
	if c.role.Leader == 0 {
		return 0
	}
	return c.role.Term
}

// standBy has the switches take this controller for one that does not lead.
func (c *Core) standBy() {
	for _, id := range sorted(c.sessions, func(*attached) bool { return true }) {
		c.sessions[id].master = false
		c.sessions[id].Standby(c.leadersTerm())
	}
}

// release lets out what is committed.
func (c *Core) release(list []ledger.Release) {
	if len(list) == 0 {
		return
	}
	// Sync markers, ten a second, would spring every trap.
	passes := crash.Compiled && slices.ContainsFunc(list, func(r ledger.Release) bool { return r.Count > 0 })
	if passes {
		crash.At(crash.AfterCommit)
	}
	c.acknowledge(list)
	if passes {
		crash.At(crash.AfterEventAck)
	}
	sent := false
	for _, r := range list {
		s := c.sessions[r.Switch]
		switch {
		case s == nil || !s.master: // one in doubt is claimed later, with all that is not complete
		case r.Closed:
			s.refuseEpoch(r.Epoch)
		case r.Count > 0:
			if sent {
				crash.At(crash.BetweenCommands)
			}
			c.sendCommands(s, r)
			sent = true
		case r.BestEffortCount > 0:
			c.sendBestEffort(s, r)
		}
	}
	if sent {
		crash.At(crash.AfterCommands)
	}
}

// sendCommands hands commands to the session. If that fails the session ends, and the
// commands are sent again to the next one: they stay in the ledger until they are done.
func (c *Core) sendCommands(s *attached, r ledger.Release) {
	b := experimenter.Block{Term: c.role.Term, Epoch: r.Epoch, First: r.First, Count: uint32(r.Count)}
	if err := s.Send(b, r.Commands); err != nil {
		s.Close(err)
	}
}

// reportAbsent tells the applications of switches that had no connection for the timeout.
func (c *Core) reportAbsent(now time.Time) {
	for _, id := range sorted(c.absent, func(since time.Time) bool { return now.Sub(since) >= c.cfg.SwitchTimeout }) {
		if !c.ledger.Room() {
			return
		}
		delete(c.absent, id)
		c.ledger.Unreachable(id)
	}
}

// sorted returns the switches for which which holds, by datapath id: what a Core does may not depend on
// the order of a map.
func sorted[V any](m map[openflow.DatapathID]V, which func(V) bool) []openflow.DatapathID {
	var list []openflow.DatapathID
	for id, v := range m {
		if which(v) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
