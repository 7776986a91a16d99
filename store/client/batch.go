package client

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// Reads and writes are sent in different requests: an answer to writes is kept by the namespace, and bounded. Requests
// that open and close sessions hold up neither of them.
const (
	reads = iota
	writes
	sessions
	lanes
)

// work is what one call of Batch waits for, or a part of what one of Together does.
type work struct {
	encoded           []byte
	transactions, ops int // how many
	lane              int
	alone             bool // it is not sent together with others

	sent     bool // at least once, to a controller that may have received it
	answered bool
	givenUp  bool
	outcomes []store.Outcome
	err      error
	caller   *caller
	only     caller // who waits for nothing else
}

// caller waits for work. It is woken once: when all of it is answered.
type caller struct {
	left int // how much is not answered
	done chan struct{}
}

func (w *work) answer(outcomes []store.Outcome, err error) {
	w.answered, w.outcomes, w.err = true, outcomes, err
	if w.caller.left--; w.caller.left == 0 {
		close(w.caller.done)
	}
}

// lane is work of one kind: what waits, and what is sent, in order.
type lane struct {
	queue []*work
	sent  []*batch
	most  int // work of a request; 0: nothing was refused yet. See tooLarge
}

// batch is a request.
type batch struct {
	id           uint64
	session, seq uint64
	work         []*work   // none: it opens a session, or closes its own
	asked        time.Time // it opens a session: since when
	attempts     int
	on           *connection // where it was sent last
}

// maxBatch bounds the work that is sent together, in bytes. One that is larger is sent alone.
const maxBatch = store.MaxRequest / 4

// next returns an encoded request that is to be sent on a connection: first those that were sent on others, then what
// waits. It returns nil if there is none. c.mu is held.
func (c *Client) next(on *connection) []byte {
	for i := range c.lanes {
		l := &c.lanes[i]
		// Nobody waits for these any more. Their numbers are acknowledged, so no late copy is executed.
		l.sent = slices.DeleteFunc(l.sent, func(b *batch) bool { return b.on != on && b.givenUp() })
	}
	c.advance()
	for i := range c.lanes {
		for _, b := range c.lanes[i].sent {
			if b.on != on {
				return c.request(b, on)
			}
		}
	}
	if b := c.closeReplaced(); b != nil {
		return c.request(b, on)
	}
	for i := range c.lanes {
		if b := c.cut(i); b != nil {
			return c.request(b, on)
		}
	}
	return nil
}

// givenUp reports whether nobody waits for any of the work.
func (b *batch) givenUp() bool {
	return len(b.work) > 0 && !slices.ContainsFunc(b.work, func(w *work) bool { return !w.givenUp })
}

// While as many requests as pipelined are on the way, work waits until there is fullQueue of it, or one is answered: a
// request costs much more than what is in it.
const (
	pipelined = 3
	fullQueue = 64
)

func (l *lane) gathers() bool {
	return len(l.sent) >= pipelined && len(l.queue) < min(fullQueue, l.bound()) && !l.queue[0].alone
}

// bound bounds the work that is sent together.
func (l *lane) bound() int { return cmp.Or(l.most, store.MaxOps) }

// cut makes a batch of what waits in a lane; nil if nothing does, or too many are sent.
func (c *Client) cut(i int) *batch {
	l := &c.lanes[i]
	if len(l.queue) == 0 || len(l.sent) >= store.Window || l.gathers() {
		return nil
	}
	c.batches++
	b := &batch{id: c.batches}
	if i == writes {
		if c.opens() {
			return c.openSession(b)
		}
		if c.awaitsSession() || c.last-c.acked >= store.Window {
			return nil
		}
		c.last++
		b.session, b.seq = c.session, c.last
	}
	n, ops, size := 0, 0, 0
	for _, w := range l.queue {
		if n > 0 && (w.alone || n >= l.bound() || ops+w.ops > store.MaxOps || size+len(w.encoded) > maxBatch) {
			break
		}
		n, ops, size = n+1, ops+w.ops, size+len(w.encoded)
		if w.alone {
			break
		}
	}
	b.work = slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.sent = append(l.sent, b)
	return b
}

// request returns the encoded request of a batch that is sent now.
func (c *Client) request(b *batch, on *connection) []byte {
	b.on = on
	b.attempts++
	r := store.Request{ID: b.id, Namespace: c.namespace, Session: b.session, Seq: b.seq}
	if b.session == c.session && b.session != 0 {
		r.Acked = min(c.acked, b.seq-1)
	}
	switch {
	case len(b.work) > 0:
	case b.session == 0:
		r.Transactions = [][]store.Op{{{Kind: store.OpenSession}}}
	default:
		r.Acked = b.seq - 1
		r.Transactions = [][]store.Op{{{Kind: store.CloseSession}}}
	}
	size := 0
	for _, w := range b.work {
		size += len(w.encoded)
	}
	encoded := r.Append(make([]byte, 0, size+requestHead))
	for _, w := range b.work {
		w.sent = true
		encoded = append(encoded, w.encoded...)
	}
	return encoded
}

// requestHead is how many bytes a request needs besides its work, if the name of its namespace is not a very long one.
const requestHead = 64

// answered takes a response. If it returns an error, the connection is of no use. c.mu is held.
func (c *Client) answered(r *store.Response) error {
	l, i := c.find(r.ID)
	if l == nil {
		return nil // it came twice
	}
	b := l.sent[i]
	unanswered := r.Error != nil && (r.Error.Code == store.Unavailable || r.Error.Code == store.Unknown)
	switch {
	case unanswered && c.spares(b):
	case unanswered:
		return r.Error // it is sent again
	case r.Error == nil && !b.fits(r.Outcomes):
		return errors.New("the response does not fit the request")
	}
	l.sent = slices.Delete(l.sent, i, i+1)
	c.some = true
	c.advance()
	switch {
	case len(b.work) == 0 && b.session == 0:
		c.opened(b, r)
	case len(b.work) == 0: // a session that is not closed expires
	case r.Error == nil:
		c.distribute(b, l, r.Outcomes)
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

// fits reports whether these can be the outcomes of a batch.
func (b *batch) fits(outcomes []store.Outcome) bool {
	if len(b.work) == 0 {
		return b.session != 0 || len(outcomes) == 1 && (outcomes[0].Error != nil || len(outcomes[0].Results) == 1)
	}
	n := 0
	for _, w := range b.work {
		n += w.transactions
	}
	return len(outcomes) == n
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

// distribute gives each work its outcomes. What was refused because the request with all of it is too large for the
// namespace waits again, see tooLarge. Work whose bucket does not have the session any more waits again too, if nobody
// can have executed it.
func (c *Client) distribute(b *batch, l *lane, outcomes []store.Outcome) {
	answered := len(b.work)
	var refused []*work
	for i, w := range b.work {
		own := outcomes[:w.transactions:w.transactions]
		outcomes = outcomes[w.transactions:]
		why, expired := own[0].Error, slices.IndexFunc(own, isExpired)
		switch {
		case len(b.work) > 1 && why != nil && why.Code == store.TooLarge && !w.givenUp:
			refused, answered = append(refused, w), min(answered, i)
		case expired < 0:
			w.answer(own, nil)
		default:
			c.expired(b)
			if b.attempts > 1 || !allExpired(own) {
				w.answer(nil, &UnknownError{own[expired].Error})
			} else if w.sent = false; !w.givenUp {
				l.queue = append(l.queue, w)
			}
		}
	}
	l.tooLarge(len(b.work), answered, refused)
}

// tooLarge puts refused work back, before all other. If most of the work from the first refused one on was refused,
// there was no room left: requests then have at most as much work as came before it, and one more after each request
// that has reached the bound. Otherwise single transactions are too large by themselves: each is sent alone. So is
// the first of a request.
func (l *lane) tooLarge(work, answered int, refused []*work) {
	full := 2*len(refused) > work-answered
	for i, w := range refused {
		w.sent, w.alone = false, !full || answered == 0 && i == 0
	}
	l.queue = slices.Insert(l.queue, 0, refused...)
	switch {
	case full && answered == 0:
		l.most = max(1, work/2)
	case full:
		l.most = answered
	case work >= l.bound():
		l.most = min(l.bound()+1, store.MaxOps)
	}
}

func isExpired(o store.Outcome) bool { return o.Error != nil && o.Error.Code == store.Expired }

func allExpired(list []store.Outcome) bool {
	return !slices.ContainsFunc(list, func(o store.Outcome) bool { return !isExpired(o) })
}

// again puts the work of a batch, which was not executed, before what waits.
func (c *Client) again(b *batch, alone bool) {
	for _, w := range slices.Backward(b.work) {
		if w.sent = false; !w.givenUp {
			w.alone = w.alone || alone
			l := &c.lanes[w.lane]
			l.queue = slices.Insert(l.queue, 0, w)
		}
	}
}

// refused handles a request that is refused as a whole.
func (c *Client) refused(b *batch, why *store.Error) {
	if why.Code == store.Expired {
		c.expired(b)
	}
	if why.Code == store.Expired && b.attempts == 1 { // nobody can have executed it
		c.again(b, false)
		return
	}
	if why.Code == store.Denied && b.attempts == 1 && len(b.work) > 1 { // nothing was executed, for one of them
		c.again(b, true)
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
