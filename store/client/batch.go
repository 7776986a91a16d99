package client

import (
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/store"
)

// Reads and writes are sent in different requests: an answer to writes is kept by the namespace, and bounded.
const (
	reads = iota
	writes
	lanes
)

// work is what one call of Batch waits for.
type work struct {
	transactions [][]store.Op
	lane         int
	ops, size    int  // how many, and bytes
	alone        bool // it is not sent together with others

	sent     bool // at least once, to a controller that may have received it
	answered bool
	givenUp  bool
	outcomes []store.Outcome
	err      error
	done     chan struct{} // closed when it is answered
}

func (w *work) answer(outcomes []store.Outcome, err error) {
	w.answered, w.outcomes, w.err = true, outcomes, err
	close(w.done)
}

// lane is work of one kind: what waits, and what is sent, in order.
type lane struct {
	queue []*work
	sent  []*batch
}

// batch is a request.
type batch struct {
	id           uint64
	session, seq uint64
	work         []*work
	attempts     int
	on           *connection // where it was sent last
}

// maxBatch bounds the size from which no more work is added to a batch, in bytes: what is added may be as large again.
const maxBatch = store.MaxRequest / 4

// next returns a request that is to be sent on a connection: first those that were sent on others, then what waits.
func (c *Client) next(on *connection) (*batch, *store.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.lanes {
		for _, b := range c.lanes[i].sent {
			if b.on != on {
				return b, c.request(b, on)
			}
		}
	}
	for i := range c.lanes {
		if b := c.cut(i); b != nil {
			return b, c.request(b, on)
		}
	}
	return nil, nil
}

// cut makes a batch of what waits in a lane; nil if nothing does, or too many are sent.
func (c *Client) cut(i int) *batch {
	l := &c.lanes[i]
	l.queue = slices.DeleteFunc(l.queue, func(w *work) bool { return w.givenUp })
	if len(l.queue) == 0 || len(l.sent) >= store.Window {
		return nil
	}
	c.batches++
	b := &batch{id: c.batches}
	if i == writes {
		if c.session == 0 {
			return c.openSession(b)
		}
		if c.last-c.acked >= store.Window {
			return nil
		}
		c.last++
		b.session, b.seq = c.session, c.last
	}
	n, ops, size := 0, 0, 0
	for n < len(l.queue) {
		w := l.queue[n]
		if n > 0 && (w.alone || ops+w.ops > store.MaxOps || size+w.size > maxBatch) {
			break
		}
		ops, size = ops+w.ops, size+w.size
		if n++; w.alone {
			break
		}
	}
	b.work = slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.sent = append(l.sent, b)
	return b
}

// openSession makes b a request for a session, unless there is one already. It is among the reads: the session of one
// that is repeated expires.
func (c *Client) openSession(b *batch) *batch {
	if c.opening {
		return nil
	}
	c.opening = true
	c.lanes[reads].sent = append(c.lanes[reads].sent, b)
	return b
}

// request returns the request of a batch that is sent now.
func (c *Client) request(b *batch, on *connection) *store.Request {
	b.on = on
	b.attempts++
	r := &store.Request{ID: b.id, Namespace: c.namespace, Session: b.session, Seq: b.seq}
	if b.session == c.session && b.session != 0 {
		r.Acked = min(c.acked, b.seq-1)
	}
	for _, w := range b.work {
		w.sent = true
		r.Transactions = append(r.Transactions, w.transactions...)
	}
	if len(b.work) == 0 {
		r.Transactions = [][]store.Op{{{Kind: store.OpenSession}}}
	}
	return r
}

// answered takes a response. If it returns an error, the connection is of no use.
func (c *Client) answered(r *store.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, i := c.find(r.ID)
	if l == nil {
		return nil // it came twice
	}
	b := l.sent[i]
	switch {
	case r.Error != nil && (r.Error.Code == store.Unavailable || r.Error.Code == store.Unknown):
		return r.Error // it is sent again
	case r.Error == nil && len(r.Outcomes) != transactions(b):
		return errors.New("the response does not fit the request")
	}
	l.sent = slices.Delete(l.sent, i, i+1)
	c.some = true
	c.advance()
	switch {
	case len(b.work) == 0:
		c.opened(r)
	case r.Error == nil:
		b.distribute(r.Outcomes)
	default:
		c.refused(b, r.Error)
	}
	return nil
}

func (c *Client) find(id uint64) (l *lane, i int) {
	for n := range c.lanes {
		l := &c.lanes[n]
		if i := slices.IndexFunc(l.sent, func(b *batch) bool { return b.id == id }); i >= 0 {
			return l, i
		}
	}
	return nil, -1
}

func transactions(b *batch) (n int) {
	if len(b.work) == 0 {
		return 1
	}
	for _, w := range b.work {
		n += len(w.transactions)
	}
	return n
}

// advance notes up to which request of the session all are answered.
func (c *Client) advance() {
	c.acked = c.last
	for _, b := range c.lanes[writes].sent {
		if b.session == c.session {
			c.acked = min(c.acked, b.seq-1)
		}
	}
}

// opened takes the answer to openSession.
func (c *Client) opened(r *store.Response) {
	c.opening = false
	var why *store.Error
	switch {
	case r.Error != nil:
		why = r.Error
	case r.Outcomes[0].Error != nil:
		why = r.Outcomes[0].Error
	default:
		c.session, c.acked, c.last = r.Outcomes[0].Results[0].Session, 0, 0
		return
	}
	for _, w := range c.lanes[writes].queue {
		w.answer(nil, why)
	}
	c.lanes[writes].queue = nil
}

// distribute gives each work its outcomes.
func (b *batch) distribute(outcomes []store.Outcome) {
	for _, w := range b.work {
		n := len(w.transactions)
		w.answer(outcomes[:n:n], nil)
		outcomes = outcomes[n:]
	}
}

// refused handles a request that is refused as a whole.
func (c *Client) refused(b *batch, why *store.Error) {
	if why.Code == store.Expired && c.session == b.session {
		c.session, c.acked, c.last = 0, 0, 0
	}
	if why.Code == store.Expired && b.attempts == 1 { // nobody can have executed it
		for _, w := range b.work {
			w.sent = false
		}
		l := &c.lanes[writes]
		l.queue = append(slices.Clone(b.work), l.queue...)
		return
	}
	var err error = why
	if b.session != 0 && b.attempts > 1 { // it says nothing of the first attempt
		err = &UnknownError{why}
	}
	for _, w := range b.work {
		w.answer(nil, err)
	}
}
