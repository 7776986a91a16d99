package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/controller/proxy"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// takeOverAll makes this new leader the master of every connected switch, and starts the timeout of those that are not
// connected.
func (c *Core) takeOverAll(now time.Time) {
	for _, id := range sorted(c.sessions, func(*attached) bool { return true }) {
		s := c.sessions[id]
		s.master = false
		if c.awaitsHolder(now, s) {
			c.standAside(s)
			continue
		}
		if s.unsettled = !c.ledger.Here(id); !s.unsettled {
			c.claim(s)
		}
	}
	for _, sw := range c.ledger.Switches() {
		if c.sessions[sw.Switch] == nil && c.spares[sw.Switch] == nil {
			c.absent[sw.Switch] = now
		}
	}
	c.paths = time.Time{} // look at them in the next Tick
}

// claim claims a switch, and sends the commands that are not complete. The agent drops those that it has already
// forwarded.
func (c *Core) claim(s *attached) {
	id := s.Switch()
	r, known := c.ledger.Resume(id)
	resume := southbound.Resume{Epoch: r.Epoch, Live: r.Live && !r.Closed, Events: r.Acked,
		Commands: r.First + uint64(r.Count) - 1, Done: r.First - 1}
	if !known {
		resume = southbound.Resume{}
		if s.State().Peer == southbound.Agent && c.ledger.Floor() > 0 {
			// It may have been forgotten: else the agent believes that the log of its last master is lost.
			resume.Epoch = c.ledger.Floor() + 1
		}
	}
	s.generation = c.generation(s)
	if err := s.Claim(s.generation, resume); err != nil {
		s.Close(err)
		return
	}
	s.master = true
	if spare := c.spares[id]; spare != nil && spare.attached == s {
		delete(c.spares, id)
	}
	if !known {
		return // its first event, SWITCH_UP, adds it to the ledger
	}
	c.ledger.Reachable(id, s.State().Epoch)
	c.resent += uint64(r.Count)
	c.send(s, r)
}

// path is the path on which this leader has last claimed a switch.
type path struct {
	member uint64 // at which the session is
	number uint64
}

// generation returns the generation_id for a claim. It is above those of the claims of this leader on other paths, so
// the switch refuses these if they arrive late, and below those of all later leaders. Claims by sessions of one
// controller have the same generation: that controller makes them one after the other.
func (c *Core) generation(s *attached) uint64 {
	member := c.cfg.ID
	if r, far := s.Session.(*proxy.Remote); far {
		member = r.Member()
	}
	last, known := c.claims[s.Switch()]
	switch {
	case !known: // it may have been forgotten, and its agent remembers how this leader claimed it
		last.number = c.bygone
	case last.member != member:
		last.number++
	}
	last.member = member
	c.claims[s.Switch()] = last
	return experimenter.Generation(c.version(s), c.claimed, last.number)
}

// version returns that of the newest assignment of a session's switch that is known here. In a cluster with one group,
// which assigns nothing, it is that of the last claim that the switch accepted: it may have been in a cluster with
// several groups before, which has lost its logs.
func (c *Core) version(s Session) uint64 {
	if at, known := c.ledger.Assignment(theSwitch(s.Switch())); known {
		return at.Version
	}
	return max(uint64(s.State().Claimed), directory.FirstVersion)
}

// theSwitch is a switch as an actor.
func theSwitch(id openflow.DatapathID) ledger.Actor { return ledger.Actor{Shard: ledger.AtSwitch(id)} }

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
