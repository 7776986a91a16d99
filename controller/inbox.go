package controller

import (
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// item is a message from a session to the loop. The comments name the kinds that use a field.
type item struct {
	kind       itemKind
	session    *southbound.Session   // all but events
	list       []southbound.Delivery // events
	epoch, seq uint64                // commandsDone
	to         ledger.Assignment     // attach: by which the switch has moved here; version 0 if the session is new
}

type itemKind uint8

const (
	attach itemKind = iota
	detach
	events
	commandsDone
)

func (it *item) reject() {
	switch it.kind {
	case attach:
		it.session.Close(errClosing)
	case events:
		for _, d := range it.list {
			d.Done(errClosing)
		}
	}
}

// inbox is the queue from sessions to the loop of a group. put never waits, because the reader of an agent has switches
// of other groups, too. Beyond inboxSize items, a session that comes waits in awaitRoom, which keeps its place among
// the connections, and acknowledgements of commands are merged. So the queue has at most inboxSize items and, for each
// session that may be connected, an attach, a delivery of events, an acknowledgement and a detach.
type inbox struct {
	wake chan struct{} // capacity 1: there is something

	mu     sync.Mutex                  // guards the fields below
	room   *sync.Cond                  // wakes those in awaitRoom
	queue  []item                      // oldest first
	spare  []item                      // is queue next time
	done   map[*southbound.Session]int // where queue has the acknowledgement of a session, beyond inboxSize
	closed bool
}

// inboxSize is also how many items the loop handles in a turn.
const inboxSize = 1024

func newInbox() *inbox {
	q := &inbox{wake: make(chan struct{}, 1), done: map[*southbound.Session]int{}}
	q.room = sync.NewCond(&q.mu)
	return q
}

// put reports whether the queue takes an item: it is not closed.
func (q *inbox) put(it item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if it.kind == commandsDone && q.merge(it) {
		return true
	}
	if q.queue = append(q.queue, it); len(q.queue) == 1 {
		q.signal()
	}
	return true
}

// merge merges an acknowledgement into one that is queued, if it can: the highest one says it all. One of a newer epoch
// replaces one of an ended epoch only in a long queue. It may then come before events that its session has delivered
// meanwhile, as it may anyway.
func (q *inbox) merge(it item) bool {
	n := len(q.queue)
	if n > 0 {
		last := &q.queue[n-1]
		if last.kind == commandsDone && last.session == it.session && last.epoch == it.epoch {
			last.seq = max(last.seq, it.seq)
			return true
		}
	}
	if n < inboxSize {
		return false
	}
	at, queued := q.done[it.session]
	if !queued {
		q.done[it.session] = n
		return false
	}
	if was := &q.queue[at]; it.epoch > was.epoch || it.epoch == was.epoch && it.seq > was.seq {
		was.epoch, was.seq = it.epoch, it.seq
	}
	return true
}

// awaitRoom waits until the queue has room for a session that comes, or is closed.
func (q *inbox) awaitRoom() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) >= inboxSize && !q.closed {
		q.room.Wait()
	}
}

// signal wakes the loop.
func (q *inbox) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the queued items, which are valid until the next call.
func (q *inbox) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queue
	clear(q.spare)
	q.queue, q.spare = q.spare[:0], list
	if len(list) >= inboxSize {
		clear(q.done)
		q.room.Broadcast()
	}
	return list
}

// close returns the queued items. Further ones are not taken.
func (q *inbox) close() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queue
	q.queue, q.spare, q.done, q.closed = nil, nil, nil, true
	q.room.Broadcast()
	return list
}

// handler passes the calls of sessions to the loop of the switch's group; see southbound.Handler.
type handler struct{ c *Controller }

// Attached waits until the switch is assigned to a group, and until that has room. A switch that this controller cannot
// serve is disconnected; an agent learns why.
func (h handler) Attached(s *southbound.Session) {
	if err := h.c.assign(s.Switch(), s.State().Claimed); err != nil {
		h.c.dismiss(s, err)
		return
	}
	if g, _ := h.c.groupOf(s.Switch()); g != nil { // else its replica here has just ended
		g.inbox.awaitRoom()
		if h.c.several() {
			h.c.seats.add(s, g)
		}
	}
	if h.put(item{kind: attach, session: s}) == nil { // a replica that ends, or begins anew
		s.Close(errClosing)
	}
}

func (h handler) Detached(s *southbound.Session, _ error) {
	it := item{kind: detach, session: s}
	seat := h.c.seats.seat(s)
	if seat == nil {
		h.put(it)
		return
	}
	seat.mu.Lock() // so that it is not passed to another group after this
	defer seat.mu.Unlock()
	seat.g.put(it)
	h.c.seats.remove(s)
}

func (h handler) CommandsDone(s *southbound.Session, epoch, seq uint64) {
	h.put(item{kind: commandsDone, session: s, epoch: epoch, seq: seq})
}

// Events passes what one read has brought to the loop at once, if there is one loop. Nobody reads into the bytes of a
// batch until it is done, so they need no copy.
func (h handler) Events(list []southbound.Delivery) {
	if !h.c.several() {
		h.events(list)
		return
	}
	for i := range list {
		h.events(list[i : i+1])
	}
}

// events passes on what is for one group.
func (h handler) events(list []southbound.Delivery) {
	h.put(item{kind: events, session: list[0].Session, list: list})
}

// put returns the group that has the item; nil if none takes it: then it was rejected.
func (h handler) put(it item) *group {
	if !h.c.several() {
		return h.c.system().put(it)
	}
	if seat := h.c.seats.seat(it.session); seat != nil {
		return seat.put(it)
	}
	it.reject()
	return nil
}

// take passes an item to the core.
func (g *group) take(it item) {
	switch it.kind {
	case attach:
		if it.to.Version > 0 {
			g.core.Reassigned(it.session, it.to)
		} else {
			g.core.Attached(it.session)
		}
	case detach:
		g.core.Detached(time.Now(), it.session)
	case events:
		for i, d := range it.list {
			g.taking = it.list[i:] // the handler of an event may hang, see Core.degrade
			g.core.Events(d.Session, d.Batch, d.Done)
		}
		g.taking = nil
	case commandsDone:
		g.core.CommandsDone(it.session, it.epoch, it.seq)
	}
}

// payloads is the queue of what other controllers send to the loop. put never waits, because it is called where Raft's
// messages arrive. The windows of package proxy keep the queue short: what exceeds maxPayloads is dropped, which ends
// the link to that controller.
type payloads struct {
	wake chan struct{} // capacity 1: there is something

	mu    sync.Mutex // guards the fields below
	queue []payload  // oldest first
	bytes int
}

type payload struct {
	from  uint64
	bytes []byte
}

const maxPayloads = 64 << 20

func (q *payloads) put(from uint64, b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(b) > maxPayloads {
		return
	}
	q.queue = append(q.queue, payload{from, b})
	q.bytes += len(b)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the queued payloads.
func (q *payloads) take() []payload {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.queue
	q.queue, q.bytes = nil, 0
	return list
}
