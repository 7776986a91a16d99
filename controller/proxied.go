package controller

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// With several groups, a switch does not stay behind a proxy: after proxiedAfter its leader moves it to a group whose
// leader its agent is connected to. It is not moved again for proxiedAgain, so it does not follow each fault of the
// network. A switch without an agent stays, because a move may begin a new epoch of it.
const (
	proxiedAfter = 5 * time.Second
	proxiedAgain = time.Minute
)

// Led is a group to which switches may move, and the controller that leads it.
type Led struct{ Group, Leader uint64 }

// MoveProxied moves the switches that this leader has reached through a follower for some time. groups are the other
// groups, those that their homes lead first.
func (c *Core) MoveProxied(now time.Time, groups []Led) {
	if !c.role.Leading {
		return
	}
	through := func(s *attached) bool {
		r := c.remote(s.Switch())
		return r != nil && r.State().Peer == southbound.Agent && now.Sub(s.since) >= proxiedAfter &&
			!now.Before(c.stays[s.Switch()])
	}
	for _, id := range sorted(c.sessions, through) {
		to, ok := c.nearest(id, groups)
		if !ok || len(c.moves) >= maxMoves {
			continue
		}
		c.stays[id] = now.Add(proxiedAgain)
		c.log.Info("a switch moves, because its agent has no connection to the leader of its group", "switch", id,
			"to", to)
		c.moves = append(c.moves, move{actor: theSwitch(id), to: to})
	}
}

// nearest returns the group to which a switch should move: one whose leader has a session of it. Several switches
// spread over the groups.
func (c *Core) nearest(id openflow.DatapathID, groups []Led) (group uint64, ok bool) {
	var reached []Led // one of each leader
	for _, g := range groups {
		known := slices.ContainsFunc(reached, func(o Led) bool { return o.Leader == g.Leader })
		if !known && c.leader.Has(id, g.Leader) {
			reached = append(reached, g)
		}
	}
	if len(reached) == 0 {
		return 0, false
	}
	return reached[uint64(id)%uint64(len(reached))].Group, true
}

// moveProxied is MoveProxied for a group that this controller leads.
func (c *Controller) moveProxied(ctx context.Context, g *group) {
	if !g.node.Status().Leading {
		return
	}
	groups := c.destinations(g)
	_ = g.inLoop(ctx, func() { g.core.MoveProxied(time.Now(), groups) }) // refused if the loop has ended
}

// destinations returns the groups to which switches of a group may move, those that their homes lead first. While
// group 1 adopts its switches there are none: the row that a switch is about to get may have a higher version than a
// move would give it.
func (c *Controller) destinations(g *group) []Led {
	if c.assigned.layout().Adopts {
		return nil
	}
	var home, away []Led
	for _, o := range c.groups.all()[1:] {
		l := Led{o.number(), o.led.leader.Load()}
		switch {
		case o == g || l.Leader == 0 || o.cfg.Host != nil: // a switch cannot move to the applications of Ryu
		case l.Leader == c.home(l.Group):
			home = append(home, l)
		default:
			away = append(away, l)
		}
	}
	return append(home, away...)
}
