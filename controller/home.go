package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// A group goes home when its home controller has had the log for homeAfter: switches need time to connect to a
// controller that has started. Commands wait for each transfer. So if the home controller declines, or has given the
// leadership back soon, the next transfer comes after homeAgain, and each further one after twice the time, up to
// homeLast. When its connection has been down, all begins anew.
const (
	homeAfter  = 3 * time.Second
	homeAgain  = 30 * time.Second
	homeLast   = 10 * time.Minute
	homeBehind = 1024 // entries: a controller that lacks more has not caught up
)

// HomeInterval is how often the leader of a group looks whether the group may go home.
const HomeInterval = 500 * time.Millisecond

// Homing decides when a group that is led elsewhere goes home. The zero value is ready to use.
type Homing struct {
	ready time.Time     // since when the home controller has the log; zero: it has not
	asked time.Time     // when it was last asked to lead; zero: it was not
	pause time.Duration // after that
}

// tendHomes brings the groups that this controller leads to their replicas, and home, and the switches that it does not
// reach to other groups, until ctx ends.
func (c *Controller) tendHomes(ctx context.Context) {
	ticker := time.NewTicker(HomeInterval)
	defer ticker.Stop()
	state := map[*group]*Homing{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			groups := c.groups.all()
			for g := range state {
				if !slices.Contains(groups, g) {
					delete(state, g)
				}
			}
			for _, g := range groups[1:] {
				if state[g] == nil {
					state[g] = new(Homing)
				}
				if err := c.balance(ctx, g); err != nil && ctx.Err() == nil {
					c.incidents.Warn(fmt.Sprint("replicas of ", g.number()),
						"the replicas of a group cannot be changed yet",
						"group", g.number(), "err", err)
				}
				if to := state[g].Next(now, c.home(g.number()), g.node.Status()); to != 0 {
					g.goHome(ctx, to)
				}
				c.moveProxied(ctx, g)
			}
		}
	}
}

// Next returns the member to which this controller should transfer the leadership now; 0: none. Home is the id of the
// controller at which the group is at home. The connections in the status must be known.
func (h *Homing) Next(now time.Time, home uint64, s consensus.Status) uint64 {
	if !s.Leading || home == 0 || wire.ControllerOf(s.ID) == home {
		h.ready = time.Time{}
		return 0
	}
	for _, p := range s.Peers {
		if wire.ControllerOf(p.ID) != home {
			continue
		}
		switch {
		case !p.Connected: // it may be restarted, and then be no longer drained
			*h = Homing{}
		case !p.Votes || !p.Active || p.Match+homeBehind < s.Last:
			h.ready = time.Time{}
		case h.ready.IsZero():
			h.ready = now
		case now.Sub(h.ready) >= homeAfter && now.Sub(h.asked) >= h.pause:
			if h.pause = min(2*h.pause, homeLast); now.Sub(h.asked) >= homeLast {
				h.pause = homeAgain // it has led for long, or was never asked
			}
			h.asked = now
			return p.ID
		}
		return 0
	}
	h.ready = time.Time{}
	return 0
}

func (g *group) goHome(ctx context.Context, to uint64) {
	home := g.memberName(g.node.Status(), to)
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.node.Transfer(ctx, to); err != nil {
		g.log.Info("the home controller does not take over the leadership yet", "home", home, "err", err)
		return
	}
	g.log.Info("leadership transferred", "to", home)
}
