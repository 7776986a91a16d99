package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// A leader that no majority answers steps down. Until it hears of another leader it is in a minority: nothing can be
// logged, acknowledged or sent by number. Agents still have it as master, in the generation of its term, and pass its
// best-effort commands until another leader claims the switch. So it runs the handlers that are marked for that
// (ledger.Degrader), on the committed state, and the agent keeps their events for the next leader.
//
// A leader that is deposed, because another member stands for election, is not in a minority: its successor is about to
// claim the switches.
type minority struct {
	on bool
	// handled has the last event of each switch that was handled here. The agent sends it again with each claim.
	handled map[openflow.DatapathID]event
	// left are the switches whose agents have refused this controller, because they have had a later master.
	left   map[openflow.DatapathID]bool
	events uint64 // that handlers have handled
}

// event names an event of a switch.
type event struct{ epoch, seq uint64 }

func (e event) before(o event) bool { return e.epoch < o.epoch || e.epoch == o.epoch && e.seq < o.seq }

// changeMinority is called when the role of this member changes.
func (c *Core) changeMinority(was, is consensus.Role) {
	begins := was.Leading && is.Term == was.Term && c.ledger.Degrades()
	switch {
	case is.Leader != 0 || !c.minority.on && !begins:
		c.minority = minority{}
	case !c.minority.on:
		c.log.Warn("no majority of the controllers answers: until it does, only handlers run that are marked for " +
			"that, and events wait at the agents")
		c.minority = minority{on: true, handled: map[openflow.DatapathID]event{},
			left: map[openflow.DatapathID]bool{}}
	}
}

// keep keeps a session as that of the master in a minority, or makes it that again. It reports false if this is no
// minority, or the session is not of an agent.
func (c *Core) keep(s *attached) bool {
	id := s.Switch()
	if !c.minority.on || c.minority.left[id] || s.State().Peer != southbound.Agent || !c.ledger.Here(id) {
		return false
	}
	if s.master {
		s.Resend() // also what was delivered and is undone
		return true
	}
	epoch, seq := c.ledger.Logged(id)
	s.generation = c.generation(s)
	if err := s.Claim(s.generation, southbound.Resume{Epoch: epoch, Events: seq}); err != nil {
		s.Close(err)
		return true
	}
	s.master = true
	return true
}

// degrade runs the handlers that run in a minority on events of a session. It reports false if there are none.
func (c *Core) degrade(session Session, b southbound.Batch) (bool, error) {
	id := session.Switch()
	s := c.sessions[id]
	if !c.minority.on || s == nil || s.Session != session || !s.master {
		return false, nil
	}
	for rest := b.Messages; len(rest) > 0; b.First++ {
		msg, after, err := openflow.Next(rest)
		if err != nil {
			return true, err
		}
		rest = after
		e := event{b.Epoch, b.First}
		if !c.isNext(id, e) {
			continue
		}
		c.minority.handled[id] = e
		if c.ledger.Degrade(c.clock(c.ticked), id, e.epoch, e.seq, msg) {
			c.minority.events++
			c.releaseImmediate()
		}
	}
	return true, nil
}

// isNext reports whether an event is the next one of its switch that was not handled, or of another epoch. Events that
// were delivered when the minority began may come before those that they follow. The agent sends all of them again, in
// order.
func (c *Core) isNext(id openflow.DatapathID, e event) bool {
	last := c.minority.handled[id]
	if epoch, seq := c.ledger.Logged(id); last.before(event{epoch, seq}) {
		last = event{epoch, seq}
	}
	return last.before(e) && (e.epoch != last.epoch || e.seq == last.seq+1)
}

// leaveClaimed ends the service of switches that another leader has claimed.
func (c *Core) leaveClaimed() {
	fenced := func(s *attached) bool { return s.master && s.State().Fenced }
	for _, id := range sorted(c.sessions, fenced) {
		c.minority.left[id] = true
		c.sessions[id].master = false
		c.sessions[id].Standby(0)
	}
}

// Stale says that a replica knows no leader of its group, so that what it says may be outdated.
type Stale struct {
	Since time.Time `json:"since"` // it has known none since then
	// Serves: it was the leader, and runs the handlers that are marked for a minority.
	Serves   bool   `json:"runs_degraded_handlers"`
	Degraded uint64 `json:"degraded_events"` // that these have handled
}

// noticeLeader notes since when no leader is known.
func (c *Core) noticeLeader(now time.Time) {
	switch {
	case c.role.Leader != 0:
		c.leaderless = time.Time{}
	case c.leaderless.IsZero():
		c.leaderless = now
	}
}

// stale returns nil if a leader is known.
func (c *Core) stale() *Stale {
	if c.role.Leader != 0 {
		return nil
	}
	return &Stale{Since: c.leaderless, Serves: c.minority.on, Degraded: c.minority.events}
}
