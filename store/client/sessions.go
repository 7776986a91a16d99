package client

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// In a namespace with buckets, a bucket to which nothing is written keeps a session for store.SessionTime only, and a
// request that is repeated must be answered until then. So the client opens the next session beside the present one.
const (
	// renewAfter is when it begins to. Writes go on in the present session meanwhile.
	renewAfter = store.SessionTime / 2
	// useUntil is from when on writes wait for the next session, unless a bucket does not answer: one without a leader
	// must not stop the writes to others. Then they use the present session until a bucket has forgotten it.
	useUntil = store.SessionTime * 3 / 4
	// openPause is the time between two attempts to open the next session.
	openPause = 5 * time.Second
)

// replaced is a session that is not used any more, with the number of its last request.
type replaced struct{ session, last uint64 }

// age returns how old the present session is, if that matters.
func (c *Client) age() time.Duration {
	if store.Buckets(c.namespace) == 0 {
		return 0
	}
	return time.Since(c.asked)
}

// opens reports whether a session is to be asked for.
func (c *Client) opens() bool {
	return !c.opening && (c.session == 0 || c.age() > renewAfter && time.Now().After(c.reopen))
}

// awaitsSession reports whether writes wait for the session that is asked for.
func (c *Client) awaitsSession() bool {
	return c.session == 0 || c.age() > useUntil && c.reopen.IsZero()
}

// openSession makes b a request for a session.
func (c *Client) openSession(b *batch) *batch {
	c.opening, b.asked = true, time.Now()
	c.lanes[sessions].sent = append(c.lanes[sessions].sent, b)
	return b
}

// spares reports whether a request that was not executed in all buckets need not be sent again now.
func (c *Client) spares(b *batch) bool { return len(b.work) == 0 && (b.session != 0 || c.session != 0) }

// opened takes the answer to openSession.
func (c *Client) opened(b *batch, r *store.Response) {
	c.opening = false
	why := r.Error
	if why == nil {
		why = r.Outcomes[0].Error
	}
	switch {
	case why == nil:
		c.forget()
		c.session, c.asked, c.reopen = r.Outcomes[0].Results[0].Session, b.asked, time.Time{}
	case c.session != 0: // the present one is used on
		c.reopen = time.Now().Add(openPause)
	default:
		for _, w := range c.lanes[writes].queue {
			w.answer(nil, why)
		}
		c.lanes[writes].queue = nil
	}
}

// expired forgets the session of a batch.
func (c *Client) expired(b *batch) {
	if c.session == b.session {
		c.forget()
	}
}

// forget ends the use of the present session. Buckets would keep it for a time, and have room for store.MaxSessions.
func (c *Client) forget() {
	if c.session != 0 && store.Buckets(c.namespace) > 0 {
		c.replaced = append(c.replaced, replaced{c.session, c.last})
	}
	c.session, c.acked, c.last = 0, 0, 0
}

// closeReplaced returns a request that closes a session of which all requests are answered; nil if there is none.
func (c *Client) closeReplaced() *batch {
	for i, old := range c.replaced {
		ofIt := func(b *batch) bool { return b.session == old.session }
		if slices.ContainsFunc(c.lanes[writes].sent, ofIt) {
			continue
		}
		c.replaced = slices.Delete(c.replaced, i, i+1)
		c.batches++
		b := &batch{id: c.batches, session: old.session, seq: old.last + 1}
		c.lanes[sessions].sent = append(c.lanes[sessions].sent, b)
		return b
	}
	return nil
}
