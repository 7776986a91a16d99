package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Calls are those of the clients of a controller that wait for an answer. It is safe for concurrent use.
type Calls struct {
	mu      sync.Mutex // guards the fields below
	last    uint64     // id
	waiting map[uint64]waiting
}

// waiting is a call that waits.
type waiting struct {
	group uint64 // to which it was sent
	done  func(Outcome)
	flush func()      // is called after done, see ledger.Waiter; nil: nothing is
	late  *time.Timer // ends it; nil: who has begun it does
}

// NewCalls returns Calls with ids after last. That is random for each process, so that answers to an earlier one are
// nobody's.
func NewCalls(last uint64) *Calls { return &Calls{last: last, waiting: map[uint64]waiting{}} }

// Begin registers a call that is sent to a group. done is called once, with the outcome, unless End is called first.
func (s *Calls) Begin(group uint64, done func(Outcome)) (id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.waiting[s.last] = waiting{group: group, done: done}
	return s.last
}

// beginWithin is Begin for a call that ends if it is not answered within a time.
func (s *Calls) beginWithin(group uint64, within time.Duration, to ledger.Waiter) (id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id = s.last
	done := func(o Outcome) {
		if o.Again() {
			to.Answer(nil, ledger.ErrElsewhere)
			return
		}
		to.Answer(o.Reply())
	}
	s.waiting[id] = waiting{group, done, to.Flush,
		time.AfterFunc(within, func() { s.finish(Outcome{id: id, kind: late}) })}
	return id
}

// begin is Begin for who waits for the outcome.
func (s *Calls) begin(group uint64) (id uint64, done <-chan Outcome) {
	to := make(chan Outcome, 1)
	return s.Begin(group, func(o Outcome) { to <- o }), to
}

// End forgets a call.
func (s *Calls) End(id uint64) { s.remove(id) }

// remove returns a call that does not wait any more; false if it has ended.
func (s *Calls) remove(id uint64) (w waiting, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, waits = s.waiting[id]; !waits {
		return w, false
	}
	delete(s.waiting, id)
	if w.late != nil {
		w.late.Stop()
	}
	return w, true
}

// finish ends a call, unless it has ended.
func (s *Calls) finish(o Outcome) {
	if flush := s.answer(o); flush != nil {
		flush()
	}
}

// answer ends a call, unless it has ended. It returns what is to be called afterwards; nil: nothing is.
func (s *Calls) answer(o Outcome) (flush func()) {
	w, waits := s.remove(o.id)
	if waits {
		w.done(o)
	}
	return w.flush
}

// Take takes a payload with answers, and reports whether it is one.
func (s *Calls) Take(payload []byte) bool {
	if len(payload) == 0 || payload[0] != answerPayload {
		return false
	}
	var flushes []func()
	for rest := payload[1:]; len(rest) > 0; {
		var o Outcome
		o, rest = nextOutcome(rest)
		if flush := s.answer(o); flush != nil {
			flushes = append(flushes, flush)
		}
	}
	for _, flush := range flushes {
		flush()
	}
	return true
}

// Lost ends the calls that were sent to a group, because who leads it changes. They may have been executed.
func (s *Calls) Lost(group uint64) {
	s.mu.Lock()
	var ids []uint64
	for id, w := range s.waiting {
		if w.group == group {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		s.finish(Outcome{id: id, kind: lost})
	}
}

// answerCalls passes answers to the controller that waits for them.
func (c *Controller) answerCalls(controller uint64, answers []byte) {
	payload := AnswerPayload(answers)
	if controller == c.cfg.Consensus.ID {
		c.calls.Take(payload)
		return
	}
	c.host.SendPayload(0, controller, payload) // else the client gets no answer in time
}

// Errors of call.
var (
	errCallLost = fmt.Errorf("the leader has changed, and %w: ask again if it may be executed twice",
		ledger.ErrUnanswered)
	errCallLate = fmt.Errorf("no answer in time, and %w: ask again if it may be executed twice", ledger.ErrUnanswered)
	errCallBusy = errors.New("too many requests wait; this one was not executed: ask again later")
	errCallIdle = errors.New(
		"the request was not executed, because nobody leads the group of the cells that it needs: " +
			"ask again when a majority of the controllers of that group run and reach each other")
	errNoSwitch = errors.New("the request was not executed, because it needs cells of a switch that has never " +
		"connected")
)

// failedCall is the error of an application.
type failedCall string

func (e failedCall) Error() string { return string(e) }

func (e failedCall) Is(target error) bool { return target == ledger.ErrCallFailed }

// callPause is how long a call that was not executed waits before it is sent again.
const callPause = 5 * time.Millisecond

// call has an actor execute a message, wherever it lives, and returns what the application replied once that is
// committed. It is executed at most once: what may have been executed is not sent again.
func (c *Controller) call(ctx context.Context, q ledger.Call) ([]byte, error) {
	q.Caller = c.cfg.Consensus.ID
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		group, err := c.groupWith(ctx, q.Actor)
		if err != nil {
			return nil, err
		}
		var done <-chan Outcome
		q.ID, done = c.calls.begin(group)
		if !c.sendCall(group, CallPayload(q)) {
			c.calls.End(q.ID)
			done = nil
		} else {
			select {
			case o := <-done:
				if !o.Again() {
					return o.Reply()
				}
			case <-ctx.Done():
				c.calls.End(q.ID)
				return nil, errCallLate
			}
		}
		pause.Reset(callPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, errCallIdle
		case <-c.system().ended:
			return nil, errClosing
		}
	}
}

// backend implements ledger.Backend.
type backend struct{ *Controller }

func (b backend) Call(ctx context.Context, q ledger.Call) ([]byte, error) { return b.call(ctx, q) }

func (b backend) Begin(q ledger.Call, within time.Duration, w ledger.Waiter) (id uint64, begun bool) {
	group := uint64(0)
	if b.several() {
		at, known := b.lives(q.Actor)
		if !known {
			return 0, false
		}
		group = at.Group
	}
	q.Caller = b.cfg.Consensus.ID
	q.ID = b.calls.beginWithin(group, within, w)
	if b.sendCall(group, CallPayload(q)) {
		return q.ID, true
	}
	return q.ID, !b.End(q.ID) // its time was over meanwhile, or the leader has changed, and w was told
}

func (b backend) End(id uint64) bool {
	_, waits := b.calls.remove(id)
	return waits
}

func (b backend) Replica(a ledger.Actor) bool { return b.replica(a) != nil }

// replica returns the group in which an actor lives; nil if there is no replica of it here.
func (b backend) replica(a ledger.Actor) *group {
	if !b.several() {
		return b.router.group(0)
	}
	at, known := b.lives(a)
	if !known {
		return nil
	}
	return b.router.group(at.Group)
}

func (b backend) Read(ctx context.Context, a ledger.Actor, message []byte) (answer []byte, ok bool) {
	g := b.replica(a)
	if g == nil || g.led.here.Load() {
		return nil, false
	}
	var read []byte
	var can bool
	if g.inLoop(ctx, func() { read, can = g.core.ledger.Read(a, message) }) != nil {
		return nil, false
	}
	return read, can
}

// sendCall sends a call to the leader of a group. If there is no replica of the group here, another controller passes
// it on. It reports false if it was not sent.
func (c *Controller) sendCall(group uint64, payload []byte) bool {
	g := c.router.group(group)
	switch {
	case g == nil:
		return slices.ContainsFunc(c.nearest(group), func(id uint64) bool {
			return c.host.SendPayload(group, id, payload)
		})
	case g.led.here.Load():
		g.payloads.put(0, payload)
		return true
	}
	leader := g.led.leader.Load()
	return leader != 0 && g.node.SendPayload(leader, payload)
}

// nearest returns the controllers of a group, that at its home first: it is probably the leader.
func (c *Controller) nearest(group uint64) []uint64 {
	ids := c.membersOf(group)
	if at := slices.Index(ids, c.home(group)); at > 0 {
		ids[0], ids[at] = ids[at], ids[0]
	}
	return ids
}

// groupWith returns the group in which an actor lives. If there is no such actor yet, it asks the directory to assign
// it, which adds a row for ever. So for a client that may only read it does not: it waits for a moment, in case the row
// has not arrived here.
func (c *Controller) groupWith(ctx context.Context, a ledger.Actor) (uint64, error) {
	if !c.several() {
		return 0, nil
	}
	again := time.NewTimer(0)
	defer again.Stop()
	for looked := 0; ; {
		_, news := c.assigned.watch() // before lives, so that nothing is missed
		at, known := c.lives(a)
		switch {
		case known:
			return at.Group, nil
		case looked > 1 && c.assigned.layout().Actors > 0:
			return 0, fmt.Errorf("%v: %w", a, ledger.ErrNoActor)
		case a.Switch != 0 && c.assigned.layout().Actors > 0: // else the directory is not known here yet
			return 0, errNoSwitch
		}
		select {
		case <-news:
		case <-again.C:
			if access.OnlyReads(ctx) {
				looked++
			} else if homes := c.homesHere(); len(homes) > 0 {
				group := firstGroup(c.cfg.Served, a, homes[0], c.liveGroups)
				c.askDirectory(directory.Assign{Actors: []ledger.Actor{a}, Groups: []uint64{group}}.Append(nil))
			}
			again.Reset(assignEvery)
		case <-ctx.Done():
			return 0, fmt.Errorf("%w, and %v is not assigned to a group", errCallIdle, a)
		case <-c.system().ended:
			return 0, errClosing
		}
	}
}
