package controller

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// After an outage an agent may have many events. The switch may then execute commands more slowly than the ledger makes
// them. Before its commands reach the bound at which its epoch is closed, its events are held up: they stay at its
// agent, which sends them again when the switch has caught up. The session continues to read meanwhile, because
// acknowledgements of commands arrive behind the events.
//
// Figures are percentages of the bound.
const (
	holdAt   = 25
	resumeAt = 12
	// The switch's answers may be behind events that its full agent does not read. So a hold lasts at most holdTime;
	// then some events pass.
	holdTime = 500 * time.Millisecond
	somePass = 6

	// maxRetries bounds how many switches try again at a time what did not fit into an outbox. There may be many, and
	// what the other group takes makes room for a few.
	maxRetries = 16
)

// pressure is the state of a switch whose events were held up.
type pressure struct {
	since time.Time // when its events were held up
	limit int       // hold again from this on; 0 is holdAt
	// 1 + Relieved of the ledger when an event did not fit into an outbox; 0: that is not why they are held up
	refused uint64
}

// hold reports whether the events of the switch must wait because too many of its commands are not done. If so, its
// session hands over no more events until resume.
func (c *Core) hold(now time.Time, id openflow.DatapathID, s *attached) bool {
	if c.ledger.Filled(id) < max(holdAt, s.pressure.limit) {
		return false
	}
	s.pressure.since = now
	c.held[id] = s
	s.Hold()
	return true
}

// holdFull makes the events of a switch wait because what they send to another group does not fit into the outbox.
func (c *Core) holdFull(now time.Time, id openflow.DatapathID, s *attached) {
	s.pressure.since, s.pressure.refused = now, c.ledger.Relieved()+1
	c.held[id] = s
	s.Hold()
}

// resume requests the events of switches that have caught up, or were held up for holdTime.
func (c *Core) resume(now time.Time) {
	list := sorted(c.held, func(s *attached) bool {
		if s.pressure.refused == c.ledger.Relieved()+1 && now.Sub(s.pressure.since) < holdTime {
			return false
		}
		return c.ledger.Filled(s.Switch()) <= resumeAt || now.Sub(s.pressure.since) >= holdTime
	})
	slices.SortStableFunc(list, func(a, b openflow.DatapathID) int {
		return c.held[a].pressure.since.Compare(c.held[b].pressure.since) // so that each has its turn
	})
	retries := 0
	for _, id := range list {
		s := c.held[id]
		if s.pressure.refused != 0 {
			if retries++; retries > maxRetries {
				continue
			}
		}
		if filled := c.ledger.Filled(id); filled <= resumeAt {
			s.pressure = pressure{}
		} else {
			s.pressure = pressure{limit: filled + somePass}
		}
		delete(c.held, id)
		s.Resend()
	}
}
