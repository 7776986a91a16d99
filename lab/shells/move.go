package shells

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// movePatience is how long an operator waits for a move.
const movePatience = 2 * time.Second

// move has somebody ask controllers to move random actors and switches, until the traffic ends.
func (x *schedule) move(ctx context.Context) {
	every := x.s.sc.MoveEvery
	if every == 0 {
		return
	}
	x.after(time.Duration(x.s.rand.Int64N(int64(2*every))), func() {
		if x.traffic {
			x.s.moveOne(ctx)
			x.move(ctx)
		}
	})
}

// moveOne asks a controller, as `holdfast move` does, and does not wait.
func (s *simulation) moveOne(ctx context.Context) {
	n := s.controllers[s.rand.IntN(len(s.controllers))]
	m := controller.Move{Group: 1 + s.rand.Uint64N(s.homes())}
	if s.rand.IntN(2) == 0 {
		m.Switch = s.switches[s.rand.IntN(len(s.switches))].id.String()
	} else {
		apps := s.applications(1, nil)
		m.App = apps[s.rand.IntN(len(apps))].Name()
		if m.App == census.Name {
			m.Key = ledger.Key{A: s.rand.Uint64N(census.Keys + 1)} // 0: that of no key
		}
	}
	if !n.running() {
		return
	}
	c := n.life.c
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, movePatience)
		defer cancel()
		_, _ = c.Move(ctx, m) // it may be refused, or the controller dies
	})
}
