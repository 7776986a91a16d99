package controller

import (
	"context"
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

// tendHomes runs until ctx ends.
func (c *Controller) tendHomes(ctx context.Context) {
	ticker := time.NewTicker(HomeInterval)
	defer ticker.Stop()
	state := make([]Homing, len(c.groups))
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for i, g := range c.groups {
				if g.cfg.Home == 0 {
					continue
				}
				if to := state[i].Next(now, g.cfg.Home, g.node.Status()); to != 0 {
					g.goHome(ctx, to)
				}
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
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.node.Transfer(ctx, to); err != nil {
		g.log.Info("the home controller does not take over the leadership yet", "home", g.names[g.cfg.Home], "err", err)
		return
	}
	g.log.Info("leadership transferred", "to", g.names[g.cfg.Home])
}
