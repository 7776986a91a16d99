package liveness

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// listen starts the world with an application that receives the reports of echoes.
func (w *world) listen() *[]Echo {
	heard := new([]Echo)
	ear := app.New("ear")
	app.HandleEmitted(ear, func(Echo) app.Cells { return app.Cells{} }, func(_ *app.Tx, e Echo) error {
		*heard = append(*heard, e)
		return nil
	})
	w.net = apptest.NewOf(w.t, groups, topology.New(), New(), ear)
	return heard
}

// A switch returns frames while it forwards. When it does not any more, liveness reports after a minute that none
// return, whichever end of a link is down.
func TestSwitchesThatAreDownAreAsked(t *testing.T) {
	for _, down := range []app.Switch{1, 2} {
		w := newWorld(t)
		heard := w.listen()
		w.start(1, 1)
		w.start(2, 1)
		w.wire(at(1, 1), at(2, 1), 0)
		w.advance(20 * time.Second)
		w.stop(down)
		w.advance(5 * askEvery)
		link := Echo{A: at(1, 1), B: at(2, 1), Came: true}
		if n := len(*heard); n < 4 || slices.ContainsFunc(*heard, func(e Echo) bool { return e != link }) {
			t.Errorf("switch %v is down and forwards: %+v", down, *heard)
		}
		flows := w.flows[down]
		w.flows[down], *heard = nil, nil
		w.advance(5 * askEvery)
		if len(*heard) > 0 {
			t.Errorf("switch %v is dead, and it is too early for %+v", down, *heard)
		}
		w.advance(5 * askEvery)
		link.Came = false
		if n := len(*heard); n < 2 || slices.ContainsFunc(*heard, func(e Echo) bool { return e != link }) {
			t.Errorf("switch %v is dead: %+v", down, *heard)
		}
		w.flows[down], *heard = flows, nil
		w.advance(2 * askEvery)
		if n := len(*heard); n == 0 || !(*heard)[n-1].Came {
			t.Errorf("switch %v forwards again: %+v", down, *heard)
		}
		*heard = nil
		w.start(down, 1)
		w.advance(10 * askEvery)
		if len(*heard) > 0 {
			t.Errorf("switch %v is up: %+v", down, *heard)
		}
	}
}

// If a switch has never returned a frame, it cannot be known to be dead.
func TestWhoNeverReturnsFramesIsNotTakenForDead(t *testing.T) {
	w := newWorld(t)
	heard := w.listen()
	w.lost = ours
	w.start(1, 1)
	w.start(2, 1)
	w.wire(at(1, 1), at(2, 1), 0)
	w.advance(20 * time.Second)
	w.stop(2)
	w.advance(10 * askEvery)
	if len(*heard) > 0 {
		t.Errorf("%+v", *heard)
	}
}
