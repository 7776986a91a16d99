package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// connection is a stream to one controller.
type connection struct {
	*rpc.Stream
	failed chan error // capacity 1: it is of no use, and why
}

// The pauses between two attempts, which grow.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

const (
	// openTimeout is how long one controller has to accept a stream.
	openTimeout = 3 * time.Second
	// answerTimeout is how long one controller has to answer a request, and at most twice as long. Controllers do so
	// within 5 seconds.
	answerTimeout = 8 * time.Second
	// maxIdle is after how many answerTimeout a stream on which nothing happens is closed.
	maxIdle = 8
)

// run sends what waits to one controller after the other, until Close.
func (c *Client) run(ctx context.Context) {
	defer close(c.ended)
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for wait := leastPause; ; wait = min(2*wait, mostPause) {
		if !c.idle(ctx) {
			return
		}
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // it was idle
			continue
		}
		c.at = (c.at + 1) % len(c.addresses)
		if c.note(err) {
			wait = leastPause
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// idle waits until there is something to send; false at the end.
func (c *Client) idle(ctx context.Context) bool {
	for {
		c.mu.Lock()
		some := slices.ContainsFunc(c.lanes[:], func(l lane) bool { return len(l.queue)+len(l.sent) > 0 })
		c.mu.Unlock()
		if some {
			return true
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// note notes why an attempt failed, and reports whether anything was answered before. Where there is no store, or the
// client is refused, what waits fails.
func (c *Client) note(err error) (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	some, c.some = c.some, false
	c.why = err
	code := store.Failed
	switch {
	case errors.Is(err, rpc.ErrDenied):
		code = store.Denied
	case !errors.Is(err, rpc.ErrNoStore):
		return some
	}
	refused := store.Fail(code, "%v", err)
	for i := range c.lanes {
		l := &c.lanes[i]
		for _, b := range l.sent {
			b.attempts++ // it says nothing of those before
			c.refused(b, refused)
		}
		for _, w := range l.queue {
			w.answer(nil, refused)
		}
		*l = lane{}
	}
	c.opening = false
	c.advance()
	return some
}

// serve sends what waits to the present controller, and what was sent to others and is not answered, until that fails.
func (c *Client) serve(ctx context.Context) error {
	secret, err := c.token.secret()
	if err != nil {
		return err
	}
	s, err := rpc.Open(ctx, c.dial, c.addresses[c.at], secret, openTimeout)
	if err != nil {
		return err
	}
	on := &connection{s, make(chan error, 1)}
	received := make(chan struct{})
	go func() { defer close(received); on.failed <- c.receive(on) }() // until the stream is closed
	defer func() { s.Close(); <-received }()
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	oldest, idle := uint64(0), 0 // at the last tick; ticks since something happened
	for {
		for r := c.next(on); r != nil; r = c.next(on) {
			if err := s.Send(r); err != nil {
				s.Close()
				return fmt.Errorf("%s: %w", c.addresses[c.at], errors.Join(err, <-on.failed))
			}
		}
		select {
		case <-c.wake:
			idle = 0
			runtime.Gosched() // others that are about to ask, because the same response came, do it first
		case err := <-on.failed:
			return fmt.Errorf("%s: %w", c.addresses[c.at], err)
		case <-late.C:
			before := oldest
			if oldest = c.oldest(); oldest == before && oldest != 0 {
				return fmt.Errorf("%s has not answered for %v", c.addresses[c.at], answerTimeout)
			}
			if idle++; idle == maxIdle {
				return nil
			}
			late.Reset(answerTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// oldest returns the id of the oldest request that is sent and not answered; 0 is none.
func (c *Client) oldest() (id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.lanes {
		for _, b := range c.lanes[i].sent {
			if id == 0 || b.id < id {
				id = b.id
			}
		}
	}
	return id
}

// receive takes responses until one says, or the stream, that the controller is of no use.
func (c *Client) receive(on *connection) error {
	for {
		r, err := on.Receive()
		if err != nil {
			return err
		}
		if err := c.answered(&r); err != nil {
			return err
		}
		c.nudge()
	}
}
