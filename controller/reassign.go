package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// A session of a switch that moves to another group is passed to that group at the same controller, and stays
// connected. It leaves when the log of the old group, as this controller has it, says that the switch has departed: so
// a session without an agent has been told everything that the old group has logged, and remains in sync. The leader of
// the new group claims the switch when its log says that it has arrived, and all this is like a change of the leader.

// depart notes which switches depart with an entry of the log.
func (c *Core) depart() {
	for _, id := range c.ledger.Departed() {
		c.departed = append(c.departed, id)
		if s := c.local[id]; s != nil {
			s.departed = true
		}
	}
}

// reassign gives up the sessions of switches that have departed, and claims those that have arrived.
func (c *Core) reassign(now time.Time) {
	for _, id := range c.departed {
		if r := c.remote(id); r != nil {
			c.leaveRemote(now, r)
		}
		delete(c.claims, id)
		delete(c.silences, id)
		delete(c.stays, id)
		delete(c.absent, id)
		s := c.local[id]
		if s == nil || !s.departed {
			continue
		}
		at, left := c.ledger.Left(id)
		if left && at.Version <= s.version {
			s.departed = false // the log is behind: the session has come after that
			continue
		}
		c.Detached(now, s.Session)
		c.dropWaiting(s.Session)
		s.Standby(0)
		delete(c.absent, id)
		if left {
			c.outside.Reassign(s.Session, at)
			continue
		}
		s.Skipped(0, 0, southbound.Unknown) // the switch has returned, and other groups have logged events of it
		c.Attached(s.Session)
	}
	c.departed = c.departed[:0]
	for _, id := range c.ledger.Arrivals() {
		c.stays[id] = now.Add(proxiedAgain)
		switch s := c.sessions[id]; {
		case s == nil:
			c.absent[id], c.left[id] = now, now.Add(pathDelay) // its session comes soon, if it has one here
		case s.unsettled:
			if st := s.State(); st.Peer == southbound.Legacy || !st.InSync {
				c.log.Warn("a switch that moves here begins a new epoch: this controller does not hold all its events",
					"switch", id, "mode", st.Peer.String())
			}
			c.claimSettled(s)
		}
	}
}

// Reassigned starts a session that another group has given up, because its switch has moved here with this assignment.
func (c *Core) Reassigned(s Session, at ledger.Assignment) {
	if !c.ledger.Continues(s.Switch(), at.Version) {
		s.Skipped(0, 0, southbound.Unknown)
	}
	c.attach(&attached{Session: s, version: at.Version, early: !c.ledger.Arrived(s.Switch(), at.Version)})
}

// seats says which group has each session, if there are several. A session may be passed on between two of its calls.
type seats struct {
	mu sync.RWMutex // guards of
	of map[*southbound.Session]*seat
}

type seat struct {
	mu sync.RWMutex // locked to change g, or to end the session; readers hold it while they use the inbox
	g  *group
}

func (t *seats) seat(s *southbound.Session) *seat {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[s]
}

func (t *seats) add(s *southbound.Session, g *group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*southbound.Session]*seat{}
	}
	t.of[s] = &seat{g: g}
}

func (t *seats) remove(s *southbound.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, s)
}

// put returns the group that has the item; nil if none takes it: the session was never passed to a group, or the
// replica here has ended.
func (s *seat) put(it item) *group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.g.put(it)
}

// put returns nil if the group has ended, and the item was rejected.
func (g *group) put(it item) *group {
	if !g.inbox.put(it) {
		it.reject()
		return nil
	}
	return g
}

// reassignments is the queue of sessions that groups have given up. put never waits, because a group must not wait for
// another one. It has at most one entry for each session.
type reassignments struct {
	wake chan struct{} // capacity 1: there is something

	mu    sync.Mutex // guards queue
	queue []reassignment
}

type reassignment struct {
	session *southbound.Session
	to      ledger.Assignment
}

func (q *reassignments) put(r reassignment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, r)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *reassignments) take() []reassignment {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queue
	q.queue = nil
	return list
}

// reassign passes sessions to the groups to which their switches have moved, until ctx ends.
func (c *Controller) reassign(ctx context.Context) {
	for {
		select {
		case <-c.reassigned.wake:
		case <-ctx.Done():
			return
		}
		for _, r := range c.reassigned.take() {
			c.reassignSession(r)
		}
	}
}

func (c *Controller) reassignSession(r reassignment) {
	seat := c.seats.seat(r.session)
	if seat == nil {
		return // it has ended
	}
	seat.mu.Lock()
	defer seat.mu.Unlock()
	if c.seats.seat(r.session) == nil {
		return // as before: it has ended meanwhile
	}
	if g := c.replica(r.to.Group); g != nil {
		seat.g = g
		if g.put(item{kind: attach, session: r.session, to: r.to}) == nil {
			r.session.Close(errClosing) // it connects again
		}
		return
	}
	c.dismiss(r.session, c.elsewhere(r.session.Switch(), r.to.Group))
}

// dismiss ends a session that this controller cannot serve. An agent learns if its switch is served elsewhere.
func (c *Controller) dismiss(s *southbound.Session, err error) {
	_, elsewhere := errors.AsType[*elsewhereError](err)
	if st := s.State(); elsewhere && st.Peer == southbound.Agent {
		s.Refuse(experimenter.ReasonElsewhere, st.Epoch)
		return
	}
	if err != errClosing {
		c.incidents.Warn("unserved "+s.Switch().String(), "switch disconnected", "remote", s.State().Remote, "why",
			err)
	}
	s.Close(err)
}
