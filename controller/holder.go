package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/southbound"
)

// holderPatience is how long a new leader that is not in sync with a switch without an agent waits for a follower that
// is. If one claimed the switch through its own session, it would begin a new epoch, and what others hold of the last
// one would be lost: for example when this controller has just been restarted, and so has the last leader. Through a
// follower that is in sync the epoch continues. Then the leader's own session gets in sync, and replaces the proxy.
const holderPatience = time.Second

// linksPatience is for how long followers are known until all that they hold is: they offer their sessions at once.
const linksPatience = 100 * time.Millisecond

// awaitsHolder reports whether the leader does not claim a switch through a session of its own yet, because a follower
// may be in sync with it.
func (c *Core) awaitsHolder(now time.Time, s Session) bool {
	if st := s.State(); st.Peer != southbound.Bundles || st.InSync {
		return false
	}
	r, known := c.ledger.Resume(s.Switch())
	if !known || !r.Live || r.Closed || now.Sub(c.leads) >= holderPatience {
		return false
	}
	return !c.leader.Linked(len(c.present.Voters)-1, now.Add(-linksPatience))
}

// standAside makes a session of the leader a spare until a holder is found, or awaitsHolder reports false.
func (c *Core) standAside(s *attached) {
	id := s.Switch()
	delete(c.sessions, id)
	delete(c.absent, id) // it is connected
	c.stand(id, s)
}

// useHolder has a switch reached through a follower that is in sync with it, beside a spare which is not. It returns
// false if no more such followers are awaited.
func (c *Core) useHolder(now time.Time, s *spare) bool {
	if !c.awaitsHolder(now, s) {
		return false
	}
	if r := c.leader.Best(s.Switch(), now); r != nil && r.State().InSync {
		c.reach(now, r, "it is in sync, and this one is not yet")
	} else {
		c.paths = time.Time{} // look in the next Tick
	}
	return true
}
