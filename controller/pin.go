package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Pin is the request to pin an actor of an application to the group in which it lives, or to release it. Only an
// operator moves an actor that is pinned; the optimizer does not.
type Pin struct {
	App    string     `json:"app"`
	Key    ledger.Key `json:"key,omitzero"` // as in Move
	Pinned bool       `json:"pinned"`
}

// Pinned is the answer.
type Pinned struct {
	Actor  string `json:"actor"`
	Group  uint64 `json:"group"`
	Pinned bool   `json:"pinned"`
}

// pin pins or releases an actor, and returns when the directory says so.
func (c *Controller) pin(ctx context.Context, p Pin) (Pinned, error) {
	a := ledger.Actor{App: p.App, Shard: ledger.Shard{Key: p.Key}}
	if !c.several() {
		return Pinned{}, errOneGroup
	}
	if _, err := c.running(p.App); err != nil {
		return Pinned{}, err
	}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		_, news := c.assigned.watch() // before pinned, so that nothing is missed
		at, known := c.lives(a)
		switch {
		case !known:
			return Pinned{}, errNoActor
		case c.assigned.pinned(a) == p.Pinned:
			return Pinned{a.String(), at.Group, p.Pinned}, nil
		}
		select {
		case <-news:
		case <-again.C:
			c.askDirectory(directory.Pin{Actor: a, Pinned: p.Pinned}.Append(nil))
			again.Reset(moveEvery)
		case <-ctx.Done():
			return Pinned{}, fmt.Errorf("the directory has not recorded that in time, and may do so later: the system "+
				"group needs a majority, and has at most %d pinned actors: %w", directory.MaxPins, ctx.Err())
		}
	}
}
