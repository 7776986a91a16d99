package controller

import "time"

// A controller that is not in sync with a switch without an agent (southbound.State), or not connected to it, would
// begin a new epoch of the switch if it led now. While that lasts it defers the election to the others. It lasts until
// the next sync marker comes, so not for long: a switch with which nobody gets in sync must not decide who leads.
const (
	stepEvery    = 100 * time.Millisecond
	stepPatience = 5 * time.Second
)

// step is what is known of that.
type step struct {
	looked    time.Time
	out       time.Time // since when some switch is out of sync; zero if none is
	hesitates bool
}

// hesitate tells the consensus when this changes.
func (c *Core) hesitate(now time.Time) {
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
	if on != s.hesitates {
		s.hesitates = on
		c.outside.DeferElection(on)
	}
}

// behind reports whether this controller could miss an event of a switch: it is not in sync, or, since it has just
// come back, the switch has not found it yet.
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
