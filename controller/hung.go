package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A handler that does not return blocks the loop of its group. When it has used up its time, a watchdog gives the loop
// up: the goroutine can do nothing more, but Go cannot end it. The group then
//
//	suspends the actor  by an entry of the log, so that no other leader runs the handler
//	hands over          the leadership
//	begins anew         with a new Core, which reads the log from its snapshot on, and new applications
//
// The sessions of its switches end and connect again. What the loop had executed and not committed comes again, as
// after the death of a leader. If the entry is lost, the next leader hangs too, and suspends the actor.

// maxHanging bounds the goroutines that are given up and have not ended, because each may use a processor. With more,
// the controller ends.
const maxHanging = 4

// hungError is why a loop was given up.
type hungError struct {
	what   ledger.Running
	budget time.Duration
}

func (e *hungError) Error() string {
	return fmt.Sprintf("%v did not return within %v", e.what, e.budget)
}

// errRenewed ends the sessions and requests of a group that begins anew.
var errRenewed = errors.New("this controller begins its part of the group anew")

var errGoexit = errors.New("an application has ended the goroutine of the controller, and must not call runtime.Goexit")

// supervise runs the loop until it ends or is given up.
func (g *group) supervise() error {
	ended := make(chan error, 1)
	go func() { // if it is given up, it ends when the handler returns
		defer close(ended)
		g.goroutine = goroutineID()
		ended <- g.loop()
	}()
	select {
	case err, ok := <-ended:
		switch {
		case ok:
			g.watchdog.End()
			if Differs(err) {
				g.fence(err)
			}
			return err
		case !g.watchdog.GaveUp():
			return errGoexit
		}
		<-g.hung // the handler has ended meanwhile
		return g.abandon()
	case <-g.hung:
		g.hanging.Add(1)
		go func() { // ends with the loop
			<-ended
			g.hanging.Add(-1)
		}()
		return g.abandon()
	}
}

// fence gives up what a replica leads that differs from the others. Its group begins anew.
func (g *group) fence(why error) {
	g.led.here.Store(false)
	g.led.leader.Store(0)
	g.log.Error("this replica differs from the others: it gives up the leadership, and begins anew from its snapshot "+
		"and the log; if that happens again, replace the controller, and report what differs", "err", why)
	if err := g.handOver(context.Background()); err != nil && !errors.Is(err, errNoSuccessor) {
		g.log.Warn("leadership not transferred; there is an election", "err", err)
	}
	g.core.abandon(errRenewed)
}

// abandon does what is left to do for a loop that was given up, and returns why it was.
func (g *group) abandon() error {
	what := g.core.ledger.Running()
	why := &hungError{what, g.handlerTimeout}
	g.led.here.Store(false) // other groups send nothing here
	g.led.leader.Store(0)
	g.log.Error("a handler does not return: its actor is suspended, and this controller gives up the leadership and a "+
		"goroutine; correct the application, and let holdfast resume resume the actor", "app", what.App, "actor",
		what.Actor.String(), "err", why, "stack", stackOf(g.goroutine))
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	entry := g.core.ledger.SuspensionEntry(what, why.Error())
	if err := g.node.Propose(g.core.role.Term, entry); err == nil { // else the next leader suspends it
		g.awaitEntry(ctx, entry)
	}
	if err := g.handOver(context.Background()); err != nil && !errors.Is(err, errNoSuccessor) {
		g.log.Warn("leadership not transferred; there is an election", "err", err)
	}
	g.core.abandon(errRenewed)
	return why
}

// awaitEntry waits until an entry that was proposed here is committed, or will not be. The updates that it takes come
// again after Node.Rewind.
func (g *group) awaitEntry(ctx context.Context, entry []byte) {
	for {
		u, ok := g.node.Next()
		switch {
		case !ok && g.node.Err() != nil, u.Role != nil && !u.Role.Leading:
			return
		case !ok:
			select {
			case <-g.node.News():
			case <-ctx.Done():
				return
			}
		}
		for _, e := range u.Entries {
			if bytes.Equal(e.Data, entry) {
				return
			}
		}
	}
}

// abandon ends all sessions and the calls that they wait for. The loop was given up.
func (c *Core) abandon(why error) {
	for _, s := range c.local {
		s.Close(why)
	}
	c.finishWaiting(why)
}

// renews reports whether a group begins anew after an error.
func renews(err error) bool {
	_, hung := errors.AsType[*hungError](err)
	return hung || Differs(err)
}

// renew starts the loop of a group anew that was given up.
func (c *Controller) renew(g *group, why error) error {
	if Differs(why) && c.rebuilt.Add(1) > maxRebuilt {
		return fmt.Errorf("%w, also after it began anew %d times: its snapshot or its machine is damaged; replace the "+
			"controller by one with a new id and an empty folder", why, maxRebuilt)
	}
	switch n := c.hanging.Load(); {
	case n > maxHanging:
		return fmt.Errorf("%w: %d handlers hang now, and each may use up a processor: correct the application, or "+
			"remove it from the cluster file, and start the controller again", why, n)
	case c.cfg.Open == nil || g.number() == 0 && c.several():
		return why
	}
	cfg, err := c.cfg.Open(g.number(), c.assigned.layout().Actors)
	if err != nil {
		return errors.Join(why, err)
	}
	cfg.Consensus = g.cfg.Consensus
	next, err := c.newGroup(cfg, g.observe)
	if err == nil {
		err = g.node.Rewind()
	}
	if err != nil {
		return errors.Join(why, err)
	}
	close(g.released)
	<-g.done
	next.node, next.self = g.node, g.self
	c.runGroup(next)
	return nil
}

// goroutineID returns the number of this goroutine, by which its stack is found.
func goroutineID() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	id, _, _ := strings.Cut(string(b), " [")
	return id
}

// maxStacks bounds the stacks of all goroutines, in bytes.
const maxStacks = 1 << 20

// stackOf returns the stack of a goroutine.
func stackOf(id string) string {
	b := make([]byte, maxStacks)
	for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
		if strings.HasPrefix(stack, id+" [") {
			return stack
		}
	}
	return "not among the first stacks"
}
