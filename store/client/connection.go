package client

import (
	"context"
	"errors"
	"fmt"
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
	defer func() { c.use(nil); s.Close(); <-received }()
	c.use(on)
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	var before progress // at the last tick
	idle := 0           // ticks since something happened
	for {
		select {
		case <-c.wake: // it came before the connection
		case err := <-on.failed:
			return fmt.Errorf("%s: %w", c.addresses[c.at], err)
		case <-late.C:
			now := c.progress()
			if now.oldest == before.oldest && now.oldest != 0 {
				return fmt.Errorf("%s has not answered for %v", c.addresses[c.at], answerTimeout)
			}
			if idle++; now.batches != before.batches {
				idle = 0
			}
			if before = now; idle == maxIdle {
				return nil
			}
			late.Reset(answerTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// use makes callers send on a connection; nil: on none. It sends what waits, and what was sent on others.
func (c *Client) use(on *connection) {
	c.mu.Lock()
	c.on = on
	sends := on != nil && c.begin()
	c.mu.Unlock()
	if sends {
		c.send()
	}
}

// progress says what has happened.
type progress struct {
	oldest  uint64 // id of the oldest request that is sent and not answered; 0: none
	batches uint64 // requests so far
}

func (c *Client) progress() progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := progress{batches: c.batches}
	for i := range c.lanes {
		for _, b := range c.lanes[i].sent {
			if p.oldest == 0 || b.id < p.oldest {
				p.oldest = b.id
			}
		}
	}
	return p
}

// receive takes responses until one says, or the stream, that the controller is of no use. It also sends what those ask
// for who got an answer, when it has taken all responses that came together.
func (c *Client) receive(on *connection) error {
	defer c.use(nil)
	sends := false
	for {
		r, err := on.Receive()
		if err == nil {
			c.mu.Lock()
			sends = c.begin() || sends // first, so that the callers do not
			if err = c.answered(&r); err != nil {
				c.on = nil // nothing more is sent there
			}
			c.mu.Unlock()
		}
		if sends && (err != nil || !on.More()) {
			sends = false
			c.send()
		}
		if err != nil {
			return err
		}
	}
}
