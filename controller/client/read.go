package client

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Times of reads that several controllers can answer.
const (
	// askNext is after which time the next controller is asked, if the one before has neither answered nor failed.
	askNext = 500 * time.Millisecond
	// staleAfter is for how long a controller that knows the leader is awaited when one has answered that does not: two
	// controllers that are cut off from each other answer differently.
	staleAfter = time.Second
)

// said is what a controller has answered.
type said[T any] struct {
	from config.Controller
	what T
	err  error
}

// inTurn asks the controllers: the first, and each other one when the one before has failed, or after a pause. take
// gets each answer; inTurn returns when take does not want more, or when all have answered.
func inTurn[T any](ctx context.Context, c *Client, w *wait, pause time.Duration,
	ask func(context.Context, config.Controller) (T, error), take func(said[T]) (more bool)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := c.cluster.Controllers
	answers := make(chan said[T], len(all))
	next := time.NewTimer(0)
	defer next.Stop()
	for asked, answered := 0, 0; answered < len(all); {
		select {
		case <-next.C:
			n := all[asked]
			asked++
			w.asks(n.Name)
			go func() { // ends with ctx
				a := said[T]{from: n}
				a.what, a.err = ask(ctx, n)
				w.said(n.Name, a.err)
				answers <- a
			}()
			if asked < len(all) {
				next.Reset(pause)
			}
		case a := <-answers:
			answered++
			if !take(a) {
				return
			}
			if asked < len(all) {
				next.Reset(0)
			}
		}
	}
}

// newest asks all controllers at once. It returns the first answer that is not stale. If there is none for a second
// after the first that is, it returns the newest of those. The error is that of best among the errors.
func newest[T any](ctx context.Context, c *Client, w *wait, ask func(context.Context, config.Controller) (T, error),
	stale func(T) bool, newer func(a, b T) bool, best func(a, b error) error) (answer T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(time.Hour, cancel)
	defer late.Stop()
	found := false
	inTurn(ctx, c, w, 0, ask, func(a said[T]) bool {
		switch {
		case a.err != nil:
			err = best(err, a.err)
		case !stale(a.what):
			answer, found = a.what, true
			return false
		case !found:
			late.Reset(staleAfter)
			answer, found = a.what, true
		case newer(a.what, answer):
			answer = a.what
		}
		return true
	})
	if found {
		err = nil
	}
	return answer, err
}
