package controller

import "time"

// A controller that is not in step with a stock switch (southbound, Core.InStep), or not connected to it, would begin a
// new epoch of it if it led now. While that lasts it leaves the leadership to others. It lasts until the next mark
// comes, so not for long: a switch with which nobody gets in step must not decide who leads.
const (
	stepEvery    = 100 * time.Millisecond
	stepPatience = 5 * time.Second
)

// step is what is known of that.
type step struct {
	looked    time.Time
	out       time.Time // since when some switch is out of step; zero if none is
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

// behind reports whether this controller could miss an event of a switch: it is not in step, or, since it has just
// come back, the switch has not found it yet.
func (c *Core) behind() bool {
	for _, a := range c.sessions {
		if !a.InStep() {
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
