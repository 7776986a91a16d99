package controller

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// item is a message from a session to the loop. The comments name the kinds that use a field.
type item struct {
	kind       itemKind
	session    *southbound.Session
	batch      southbound.Batch // events
	done       func(error)      // events
	epoch, seq uint64           // commandsDone
}

type itemKind uint8

const (
	attach itemKind = iota
	detach
	events
	commandsDone
)

func (it *item) reject() {
	if it.kind == events {
		it.done(errClosing)
	}
}

// handler passes the calls of sessions to the loop of the switch's group; see southbound.Handler.
type handler struct{ c *Controller }

// Attached waits until the switch is assigned to a group. A switch that this controller cannot serve is disconnected;
// an agent learns why.
func (h handler) Attached(s *southbound.Session) {
	err := h.c.assign(s.Switch())
	if err == nil {
		h.put(item{kind: attach, session: s})
		return
	}
	_, elsewhere := errors.AsType[*elsewhereError](err)
	if st := s.State(); elsewhere && st.Peer == southbound.Agent {
		s.Refuse(experimenter.ReasonElsewhere, st.Epoch)
		return
	}
	if err != errClosing {
		h.c.incidents.Warn("unserved "+s.Switch().String(), "switch disconnected", "remote", s.State().Remote, "why",
			err)
	}
	s.Close(err)
}

func (h handler) Detached(s *southbound.Session, _ error) { h.put(item{kind: detach, session: s}) }

func (h handler) CommandsDone(s *southbound.Session, epoch, seq uint64) {
	h.put(item{kind: commandsDone, session: s, epoch: epoch, seq: seq})
}

// Events waits until the loop has executed all of b, so its bytes need no copy.
func (h handler) Events(s *southbound.Session, b southbound.Batch) error {
	done := make(chan error, 1)
	g := h.put(item{kind: events, session: s, batch: b, done: func(err error) { done <- err }})
	if g == nil {
		return errClosing
	}
	select {
	case err := <-done:
		return err
	case <-g.done: // it was put behind what a replica that ends rejects
		return errClosing
	}
}

// put returns the group that has the item; nil if none takes it.
func (h handler) put(it item) *group {
	g, _ := h.c.groupOf(it.session.Switch())
	if g == nil { // the session was never passed to a group, or its replica here has ended
		return nil
	}
	select {
	case g.inbox <- it:
		return g
	case <-g.done:
		return nil
	}
}

// take passes an item to the core.
func (g *group) take(it item) {
	switch it.kind {
	case attach:
		g.core.Attached(it.session)
	case detach:
		g.core.Detached(time.Now(), it.session)
	case events:
		g.core.Events(it.session, it.batch, it.done)
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
