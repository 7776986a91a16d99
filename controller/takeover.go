package controller

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// takeOverAll makes this new leader the master of every connected switch, and starts the timeout of those that are not
// connected.
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
	c.paths = time.Time{} // look at them in the next Tick
}

// suspect is a switch with evidence against this leader: either its agent has had events acknowledged that are not in
// this log, or its agent had a master with a later term. Then either the log is lost, or another controller leads and
// this one does not know yet. An own entry that is committed shows which.
type suspect struct {
	session *attached
	number  uint64 // of that entry; see ledger.Core.Confirm
}

// suspicious reports whether the agent has had events acknowledged that are not in this log.
func (c *Core) suspicious(s *attached) bool {
	r, _ := c.ledger.Resume(s.Switch())
	held := s.State().Attach
	return held.Epoch > r.Epoch && held.FirstHeld > 1 || held.Epoch == r.Epoch && held.FirstHeld > r.Acked+1
}

// judge decides about suspects once an entry confirms that this controller led when they became suspects.
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
		case s.master: // its agent has accepted the claim meanwhile
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

// fencedEvery is how often a leader looks for agents that refuse it. An agent that has another master refuses every
// claim, and each REFUSE costs it the connection. So REFUSE is sent with growing pauses, up to fencedMost.
const (
	fencedEvery = 5 * time.Second
	fencedMost  = time.Minute
)

// refused is a switch whose agent refuses this leader.
type refused struct {
	pause  time.Duration // between two REFUSE messages; grows
	next   time.Time     // no REFUSE before
	logged bool
}

// refusal returns the record of a switch whose agent refuses this leader. A switch may become a suspect because of its
// events, and be found to refuse the leader only when that is judged.
func (c *Core) refusal(id openflow.DatapathID) *refused {
	r := c.refused[id]
	if r == nil {
		r = &refused{}
		c.refused[id] = r
	}
	return r
}

// tellRefused logs that an agent refuses this leader, once in a term.
func (c *Core) tellRefused(id openflow.DatapathID) {
	if r := c.refusal(id); !r.logged {
		r.logged = true
		c.log.Error("this switch's agent had a master with a later term, of controllers whose log is lost, or of "+
			"another cluster; it is told to begin a new epoch, unless another controller is its master",
			"switch", id, "term", c.role.Term)
	}
}

// suspectFenced makes suspects of the switches whose agents refuse this leader's claim.
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

// takeOver makes this leader the master of a switch, unless the switch becomes a suspect.
func (c *Core) takeOver(s *attached) {
	if c.suspicious(s) {
		c.takeOverLater(s)
		return
	}
	c.claim(s)
}

// takeOverLater takes a switch over once everything that is executed is committed.
func (c *Core) takeOverLater(s *attached) {
	c.suspects = append(c.suspects, suspect{s, c.ledger.Confirm()})
}

// claim claims a switch, with the term as generation id, and sends the commands that are not complete. The agent drops
// those that it has already forwarded.
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
	delete(c.spares, id)
	if !known {
		return // its first event, SWITCH_UP, adds it to the ledger
	}
	c.ledger.Reachable(id, s.State().Epoch)
	c.send(s, r)
}

// send sends what a new master owes the switch: the acknowledgement of logged events, and the commands that are not
// complete.
func (c *Core) send(s *attached, r ledger.Release) {
	s.Acknowledge(r.Epoch, r.Acked)
	switch {
	case r.Closed:
		s.refuseEpoch(r.Epoch)
	case r.Count > 0:
		c.sendCommands(s, r)
	}
}
