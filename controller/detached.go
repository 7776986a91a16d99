package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Detached is an application with goroutines of its own, which run at the leader of the group in which its actor of no
// switch and no key lives.
type Detached interface {
	ledger.Application
	// Detached returns what the goroutines run, until their context ends. emit executes a call of that actor and
	// returns when it is committed.
	Detached() []func(ctx context.Context, emit func(ctx context.Context, name string, message []byte) error)
}

// detachedInterval is how often a controller looks whether the goroutines of applications are to run.
const detachedInterval = 10 * time.Millisecond

// detachedPause is the time until a goroutine runs again that panicked.
const detachedPause = time.Second

// errDetached is the error of a goroutine that emits when it is to end.
var errDetached = errors.New("not executed: this controller does not lead the group of the application any more")

// startDetached starts what runs the goroutines of the applications of a group. The group waits for it.
func (c *Controller) startDetached(g *group) {
	for _, a := range g.cfg.Applications {
		if d, is := a.(Detached); is && len(d.Detached()) > 0 {
			g.background.Go(func() { c.tendDetached(g, d) })
		}
	}
}

// tendDetached runs the goroutines of an application whenever they are to run here, until the group ends.
func (c *Controller) tendDetached(g *group, d Detached) {
	ticker := time.NewTicker(detachedInterval)
	defer ticker.Stop()
	end := func() {}
	defer func() { end() }()
	for runs := false; ; {
		select {
		case <-g.ended:
			return
		case <-ticker.C:
		}
		switch leads := c.leadsActor(g, ledger.Actor{App: d.Name()}); {
		case leads && !runs:
			end = c.detach(g, d)
		case !leads && runs:
			end()
			end = func() {}
		default:
			continue
		}
		runs = !runs
	}
}

// leadsActor reports whether this controller leads the group, and an actor lives there.
func (c *Controller) leadsActor(g *group, a ledger.Actor) bool {
	if !g.led.here.Load() {
		return false
	}
	if !c.several() {
		return true
	}
	at, known := c.lives(a)
	return known && at.Group == g.number()
}

// detach starts the goroutines of an application, and returns what ends them and waits for that.
func (c *Controller) detach(g *group, d Detached) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	emit := func(ctx context.Context, name string, message []byte) error {
		return c.callHere(ctx, g, ledger.Call{Actor: ledger.Actor{App: d.Name()}, Name: name, Message: message})
	}
	for _, run := range d.Detached() {
		running.Go(func() {
			for ctx.Err() == nil {
				err := guarded(func() { run(ctx, emit) })
				if err == nil {
					return
				}
				g.log.Error("a goroutine of an application failed; it runs again in a second", "app", d.Name(),
					"err", err)
				select {
				case <-time.After(detachedPause):
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// guarded runs f, and returns an error if it panics.
func guarded(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}

// callHere has an actor execute a call if this controller leads its group, and returns when that is committed.
func (c *Controller) callHere(ctx context.Context, g *group, q ledger.Call) error {
	if !g.led.here.Load() {
		return errDetached
	}
	q.Caller = c.cfg.Consensus.ID
	id, done := c.calls.begin(g.number())
	defer c.calls.End(id)
	q.ID = id
	payload := CallPayload(q)
	payload[1] = maxHops // no other controller executes it
	g.payloads.put(0, payload)
	late := time.NewTimer(callTimeout)
	defer late.Stop()
	select {
	case o := <-done:
		if o.Again() {
			return errDetached
		}
		_, err := o.Reply()
		return err
	case <-late.C:
		return errCallLate
	case <-ctx.Done():
		return fmt.Errorf("%w, and it may have been executed", ctx.Err())
	case <-g.ended:
		return errCallLost
	}
}
