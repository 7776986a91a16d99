package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/watchdog"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A handler that does not return would hang one leader after the other, because each executes the same input again. So
// its actor is suspended in the log: no leader runs a handler of the actor any more, until an operator resumes it. The
// inputs of the actor fail; they are logged and acknowledged like others. A suspension moves with its actor.

// Running describes a call of an application.
type Running struct {
	Actor          // on whose behalf
	Handler string // its name; "" if the application does not say it
	Switch  openflow.DatapathID
	Kind    InputKind // of the input
	Name    string    // of a message, timer or call
	// Early: no handler has entered an actor, so it is not known which one handles the input. Actor is that which the
	// input is for if a handler needs no cells.
	Early bool
}

func (r Running) String() string {
	s := fmt.Sprintf("%v on %v", r.Actor, &Input{Kind: r.Kind, Switch: r.Switch, Name: r.Name})
	switch {
	case r.Handler != "":
		return r.Handler + " of " + s
	case r.Early:
		return "what is before a handler of " + s
	}
	return "a handler of " + s
}

// Watch makes known a guard of the calls of applications. It must be called before any other method.
func (c *Core) Watch(g *watchdog.Guard) { c.guard = g }

// Running describes the call in which the goroutine of this Core was given up.
func (c *Core) Running() Running {
	tx, in := &c.tx, &c.input
	r := Running{Actor: Actor{tx.app, in.at}, Switch: in.Switch, Kind: in.Kind, Name: in.Name, Early: tx.early}
	if !tx.early {
		r.Shard, r.Handler = tx.at, tx.handler
	}
	return r
}

// suspension says why an actor is suspended. It is replicated.
type suspension struct {
	since  int64 // ledger time
	reason string
	// early: it was not known which actor handles the input. All inputs of the application fail that are for the actor
	// if a handler needs no cells.
	early bool
}

// Suspended is a suspended actor, for operators.
type Suspended struct {
	Actor
	Reason string
	Since  time.Time // ledger time
	Early  bool      // see Running
	Failed uint64    // inputs that have failed because of it, since this ledger leads
}

// maxReason bounds the reason of a suspension, in bytes.
const maxReason = 1 << 10

// SuspendedError is the failure of an input of a suspended actor.
type SuspendedError struct {
	Actor  Actor
	Reason string
}

func (e *SuspendedError) Error() string {
	return fmt.Sprintf("%v is suspended: %s; holdfast resume resumes it", e.Actor, e.Reason)
}

// SuspensionEntry returns the last entry of a leadership in which r does not return: it suspends the actor. The caller
// proposes it after all that Cut has returned. Nothing else may be called afterwards. The goroutine that executes r may
// not use this Core again.
func (c *Core) SuspensionEntry(r Running, reason string) []byte {
	b := Header{Term: c.term, Batch: c.batch.number, Time: max(c.clock, c.state.time, c.batch.time)}.append(nil)
	return c.suspension(r.Early, reason).append(b, r.Actor)
}

func (c *Core) suspension(early bool, reason string) suspension {
	return suspension{max(c.clock, c.state.time, c.batch.time), reason[:min(len(reason), maxReason)], early}
}

// Suspend suspends an actor, or resumes it if the reason is "". The caller has checked Room.
func (c *Core) Suspend(a Actor, early bool, reason string) error {
	switch {
	case !c.leading:
		return errNotLeading
	case !c.here(a):
		return fmt.Errorf("suspend %v: %w", a, ErrElsewhere)
	}
	c.suspend(a, early, reason)
	c.finish()
	return nil
}

func (c *Core) suspend(a Actor, early bool, reason string) {
	b := c.beginTransaction()
	s := c.suspension(early, reason)
	b.buf = s.append(b.buf, a)
	b.undo = append(b.undo, undo{kind: undoSuspend, move: c.state.oldSuspension(a)})
	c.state.suspend(a, s)
}

// resume executes a Call that Resumes.
func (c *Core) resume(q Call) error {
	s, is := c.state.suspended[q.Actor]
	c.input = Input{caller: q.Caller, call: q.ID}
	if is {
		c.suspend(q.Actor, false, "")
		c.reply = []byte(s.reason)
		c.answerCall(nil)
	} else {
		c.beginTransaction() // as for a call that changes nothing
		c.answerCall(fmt.Errorf("%v is not suspended; holdfast status shows which actors are", q.Actor))
	}
	c.finish()
	return nil
}

// Suspended returns the suspended actors, in order.
func (c *Core) Suspended() []Suspended {
	var list []Suspended
	for _, a := range slices.SortedFunc(maps.Keys(c.state.suspended), Actor.Compare) {
		s := c.state.suspended[a]
		list = append(list, Suspended{a, s.reason, nanos(s.since), s.early, c.refused[a]})
	}
	return list
}

// refuse makes the present input fail for a suspended actor, without running a handler. It is not among Failures,
// because there may be many.
func (c *Core) refuse(app int, a Actor, s suspension) error {
	err := &SuspendedError{a, s.reason}
	c.failure = err
	c.logFailed(c.apps[app].Name(), err)
	if c.refused == nil {
		c.refused = map[Actor]uint64{}
	}
	c.refused[a]++
	return err
}

// enterSuspended is Enter for a suspended actor.
func (tx *Tx) enterSuspended(s suspension) {
	tx.suspended = tx.c.refuse(tx.index, tx.Actor(), s) // and no more: the input may be for other actors too
}

// Suspended returns why the last call of Enter returned false: nil if that was not because the actor is suspended.
func (tx *Tx) Suspended() error { return tx.suspended }

// Handler sets the name of the handler that calls Enter next, for Running.
func (tx *Tx) Handler(name string) { tx.entering = name }

// Leave is called when a handler has returned, and another one follows that may belong to another actor.
func (tx *Tx) Leave() {
	tx.pause()
	tx.handler, tx.entering = "", ""
	tx.resume(true)
}

// pause and resume are called around what changes Running. resume begins another call for the watchdog.
func (tx *Tx) pause() {
	if g := tx.c.guard; g != nil {
		g.End() // does not return if the watchdog has given this goroutine up
	}
}

func (tx *Tx) resume(early bool) {
	tx.early = early
	if g := tx.c.guard; g != nil {
		g.Begin()
	}
}

// check ends the goroutine if it was given up.
func (tx *Tx) check() {
	if g := tx.c.guard; g != nil {
		g.Check()
	}
}

// suspend applies OpSuspend.
func (s *state) suspend(a Actor, n suspension) {
	if n.reason == "" {
		delete(s.suspended, a)
		return
	}
	if s.suspended == nil {
		s.suspended = map[Actor]suspension{}
	}
	s.suspended[a] = n
}

// oldSuspension returns what undoes a change of the suspension of an actor.
func (s *state) oldSuspension(a Actor) *oldMove {
	return &oldMove{origin: origin{actor: a}, suspended: []suspendedActor{{a, s.suspended[a]}}}
}

// suspendedActor is an actor with its suspension; one without a reason is none.
type suspendedActor struct {
	Actor
	suspension
}

// suspendedOf returns the suspensions that move with an actor, in order.
func (s *state) suspendedOf(a Actor) (list []suspendedActor) {
	if len(s.suspended) == 0 {
		return nil
	}
	for _, of := range slices.SortedFunc(maps.Keys(s.suspended), Actor.Compare) {
		if of.mover() == a {
			list = append(list, suspendedActor{of, s.suspended[of]})
		}
	}
	return list
}

func (s *state) appendSuspended(b []byte) []byte {
	for _, a := range slices.SortedFunc(maps.Keys(s.suspended), Actor.Compare) {
		b = s.suspended[a].append(b, a)
	}
	return b
}

func (s suspension) append(b []byte, a Actor) []byte {
	b = binary.AppendUvarint(appendActor(append(b, byte(OpSuspend)), a), uint64(s.since))
	return appendString(append(b, flag(s.early)), s.reason)
}

// suspension reads what OpSuspend says after the actor.
func (r *Record) suspension(d *decoder) {
	r.Time, r.Early, r.Name = int64(d.uvarint()), d.byte() != 0, d.string()
}
