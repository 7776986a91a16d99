package controller

import "time"

// A controller that is not in sync with a switch without an agent (southbound.State), or not connected to a switch,
// would have to begin a new epoch of that switch if it led now. So it defers its election, and lets the others stand.
// It is in sync after the next sync marker, which does not take long. The time is bounded, because a switch with which
// no controller gets in sync must not decide who leads.
const (
	stepEvery    = 100 * time.Millisecond
	stepPatience = 5 * time.Second
)

// step is the state of deferring elections.
type step struct {
	looked time.Time
	out    time.Time // since when some switch is out of sync; zero if none is
	defers bool      // as the consensus was last told
}

// deferElection tells the consensus when this controller begins or ceases to defer its election.
func (c *Core) deferElection(now time.Time) {
	s := &c.step
	if now.Sub(s.looked) < stepEvery {
		return
	}
	s.looked = now
	out := !c.role.Leading && c.behind()
	switch {
	case !out:
		s.out = time.Time{}
	case s.out.IsZero():
		s.out = now
	}
	on := out && now.Sub(s.out) < stepPatience || !c.role.Leading && c.hosting != nil && c.hosting.Behind()
	if on != s.defers {
		s.defers = on
		c.outside.DeferElection(on)
	}
}

// behind reports whether this controller could miss an event of a switch: it is not in sync with it, or has just
// restarted and the switch has not connected yet.
func (c *Core) behind() bool {
	for _, a := range c.sessions {
		if !a.State().InSync {
			return true
		}
	}
	for _, sw := range c.ledger.Switches() {
		if sw.Live && sw.Reachable && c.sessions[sw.Switch] == nil {
			return true
		}
	}
	return false
}
