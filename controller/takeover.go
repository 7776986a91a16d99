package controller

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// takeOverAll makes this new leader the master of every switch that is connected, and
// starts waiting for those that are not.
func (c *Core) takeOverAll(now time.Time) {
	for _, id := range sorted(c.sessions, func(*attached) bool { return true }) {
		c.sessions[id].master = false
		c.takeOver(c.sessions[id])
	}
	for _, sw := range c.ledger.Switches() {
		if c.sessions[sw.Switch] == nil {
			c.absent[sw.Switch] = now
		}
	}
}

// suspect is a switch whose events were acknowledged, as its agent says, and are not in this
// log, or whose agent had a master with a later term. Either the log is lost, or another controller leads and this one
// does not know yet: an entry of its own that is committed tells.
type suspect struct {
	session *attached
	number  uint64 // of that entry; see ledger.Core.Confirm
}

// suspicious reports whether what the switch was told is logged is not in this log.
func (c *Core) suspicious(s *attached) bool {
	r, _ := c.ledger.Resume(s.Switch())
	held := s.State().Attach
	return held.Epoch > r.Epoch && held.FirstHeld > 1 || held.Epoch == r.Epoch && held.FirstHeld > r.Acked+1
}

// judge deals with suspects once it is certain that this controller led when they came.
func (c *Core) judge() {
	if len(c.suspects) == 0 {
		return
	}
	keep := c.suspects[:0]
	for _, x := range c.suspects {
		s := x.session
		switch {
		case c.sessions[s.Switch()] != s: // gone
		case c.ledger.Confirmed() < x.number:
			keep = append(keep, x)
		case s.master && s.State().Fenced:
			c.tellRefused(s.Switch())
			s.Refuse(experimenter.ReasonLostLog, s.State().Epoch)
		case s.master: // it was accepted meanwhile
		case c.suspicious(s):
			held := s.State().Attach
			c.log.Error(
				"this switch's events were acknowledged by controllers whose log is lost; it begins a new epoch",
				"switch", s.Switch(),
				"epoch", held.Epoch, "first held", held.FirstHeld)
			s.Refuse(experimenter.ReasonStaleEpoch, held.Epoch)
		default:
			c.claim(s)
		}
	}
	c.suspects = keep
}

// fencedEvery is how often a leader looks for agents that refuse it. One that has another master refuses it each time,
// and loses its connection each time that it is told to begin anew: so it is told less and less often, but at least
// once in fencedMost.
const (
	fencedEvery = 5 * time.Second
	fencedMost  = time.Minute
)

// refused is a switch whose agent refuses this leader.
type refused struct {
	pause  time.Duration // from the last time that the agent was to be told to the next
	next   time.Time     // it is not told again before
	logged bool
}

// refusal returns what is kept of a switch whose agent refuses this leader. A switch may be suspected for its events,
// and found to be refused only when that is judged.
func (c *Core) refusal(id openflow.DatapathID) *refused {
	r := c.refused[id]
	if r == nil {
		r = &refused{}
		c.refused[id] = r
	}
	return r
}

// tellRefused tells the log about an agent that refuses this leader, once in its term.
func (c *Core) tellRefused(id openflow.DatapathID) {
	if r := c.refusal(id); !r.logged {
		r.logged = true
		c.log.Error("this switch's agent had a master with a later term, of controllers whose log is lost, or of "+
			"another cluster; "+
			"it is told to begin a new epoch, unless somebody else leads it", "switch", id, "term", c.role.Term)
	}
}

// suspectFenced finds the switches whose agents refuse this leader's claim.
func (c *Core) suspectFenced(now time.Time) {
	if now.Sub(c.looked) < fencedEvery {
		return
	}
	c.looked = now
	for _, id := range sorted(c.sessions, func(s *attached) bool {
		return s.master && s.State().Fenced && !slices.ContainsFunc(c.suspects,
			func(x suspect) bool { return x.session == s })
	}) {
		r := c.refusal(id)
		if now.Before(r.next) {
			continue
		}
		r.pause = min(max(2*r.pause, fencedEvery), fencedMost)
		r.next = now.Add(r.pause)
		c.suspects = append(c.suspects, suspect{c.sessions[id], c.ledger.Confirm()})
	}
}

// takeOver makes this leader the master of a switch, unless the switch knows better.
func (c *Core) takeOver(s *attached) {
	if c.suspicious(s) {
		c.suspects = append(c.suspects, suspect{s, c.ledger.Confirm()})
		return
	}
	c.claim(s)
}

// claim takes a switch with our term as generation id and sends what is not complete;
// the other end drops what it has done.
func (c *Core) claim(s *attached) {
	id := s.Switch()
	r, known := c.ledger.Resume(id)
	resume := southbound.Resume{Epoch: r.Epoch, Live: r.Live && !r.Closed, Events: r.Acked,
		Commands: r.First + uint64(r.Count) - 1}
	if !known {
		resume = southbound.Resume{}
	}
	if err := s.Claim(c.role.Term, resume); err != nil {
		s.Close(err)
		return
	}
	s.master = true
	if !known {
		return // its first event says what it is
	}
	c.ledger.Reachable(id, s.State().Epoch)
	c.send(s, r)
}

// send is what a new master says: what is logged, and what is not complete.
func (c *Core) send(s *attached, r ledger.Release) {
	s.Acknowledge(r.Epoch, r.Acked)
	switch {
	case r.Closed:
		s.refuseEpoch(r.Epoch)
	case r.Count > 0:
		c.sendCommands(s, r)
	}
}
