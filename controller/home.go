package controller

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// A group goes home: its leader transfers the leadership to the home controller when that has had the log for
// homeAfter, in which switches connect to a controller that has started. If it declines, it is asked again after
// homeAgain, because commands wait for each attempt.
const (
	homeEvery  = 500 * time.Millisecond
	homeAfter  = 3 * time.Second
	homeAgain  = 30 * time.Second
	homeBehind = 1024 // entries that a controller may lack that has the log
)

// homing is the state of a group that is led elsewhere than at home.
type homing struct {
	ready time.Time // since when the home controller has the log; zero: it has not
	asked time.Time
}

// tendHomes runs until ctx ends.
func (c *Controller) tendHomes(ctx context.Context) {
	ticker := time.NewTicker(homeEvery)
	defer ticker.Stop()
	state := make([]homing, len(c.groups))
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for i, g := range c.groups {
				if g.cfg.Home == 0 {
					continue
				}
				if to := state[i].next(now, g.cfg.Home, g.node.Status()); to != 0 {
					g.goHome(ctx, to)
				}
			}
		}
	}
}

// next returns the member to which this controller should transfer the leadership now; 0: none.
func (h *homing) next(now time.Time, home uint64, s consensus.Status) uint64 {
	if !s.Leading || home == 0 || wire.ControllerOf(s.ID) == home {
		*h = homing{}
		return 0
	}
	for _, p := range s.Peers {
		if wire.ControllerOf(p.ID) != home {
			continue
		}
		switch {
		case !p.Votes || !p.Active || !p.Connected || p.Match+homeBehind < s.Last:
			h.ready = time.Time{}
		case h.ready.IsZero():
			h.ready = now
		case now.Sub(h.ready) >= homeAfter && (h.asked.IsZero() || now.Sub(h.asked) >= homeAgain):
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
