package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// A switch whose agent has much to tell, after an outage, may be slower at executing commands than
// the ledger at making them. Before its commands reach the bound at which its epoch ends, its
// events are held up. They stay with its agent, which is asked for them when the switch has caught up. The
// session goes on reading meanwhile, since behind the events come the acknowledgements of commands.
//
// Figures are percentages of the bound.
const (
	holdAt   = 25
	resumeAt = 12
	// The switch's answers may themselves be behind events that its full agent does not read. So no hold
	// lasts longer than holdTime; then some events pass.
	holdTime = 500 * time.Millisecond
	somePass = 6
)

// pressure is what is known of a switch that was held up.
type pressure struct {
	since time.Time // of the hold
	limit int       // hold again at this
}

// hold reports whether the switch is to get no more commands for events of its own for now.
func (c *Core) hold(now time.Time, id openflow.DatapathID, s *attached) bool {
	if c.ledger.Filled(id) < max(holdAt, s.pressure.limit) {
		return false
	}
	s.pressure.since = now
	c.held[id] = s
	s.Hold()
	return true
}

// resume asks for the events of switches that have caught up, or were held for long.
func (c *Core) resume(now time.Time) {
	for _, id := range sorted(c.held, func(s *attached) bool {
		return c.ledger.Filled(s.Switch()) <= resumeAt || now.Sub(s.pressure.since) >= holdTime
	}) {
		s := c.held[id]
		if filled := c.ledger.Filled(id); filled <= resumeAt {
			s.pressure = pressure{}
		} else {
			s.pressure = pressure{limit: filled + somePass}
		}
		delete(c.held, id)
		s.Resend()
	}
}
