package ledger

import (
	"bytes"
	"errors"
	"fmt"
)

// Call is a request of a client of a controller to one actor, which answers it. The client waits at that controller, so
// nothing of it is replicated: if the controller dies the client gets no answer, and does not know whether the call was
// executed.
type Call struct {
	Actor          // that executes it
	Name    string // of the handler, for the application
	Message []byte
	// Of the answer: the controller at which the client waits, and its number for the call.
	Caller, ID uint64
	Resumes    bool // the actor is suspended, and is resumed; it executes nothing
	Forgets    bool // the actor is a switch, and is forgotten; see Core.Forget
}

// Answer is the answer to a Call that is committed.
type Answer struct {
	Caller, ID uint64
	Failed     bool   // the application has failed, and what it did is undone
	Message    []byte // what it gave to Tx.Reply; if it has failed, why
}

// Errors of who makes a Call. Another error means that it was not executed.
var (
	// ErrUnanswered means that the call may have been executed, or may still be.
	ErrUnanswered = errors.New("the request may have been executed")
	// ErrNoActor means that the call was not executed: the actor has never been written, and the caller may only read.
	ErrNoActor = errors.New("there is no such actor: nothing was ever written with this key")
	// ErrCallFailed means that the application has failed, and what it did is undone.
	ErrCallFailed = errors.New("the application has failed")
)

// maxReply bounds an answer, in bytes.
const maxReply = 1 << 20

// maxFailedReply bounds the reason of an Answer that has Failed, in bytes.
const maxFailedReply = 1 << 10

// Call executes a call. The caller has checked Room. After an error nothing has changed: ErrElsewhere if the actor does
// not live here, ErrFull if the call would send something to another group that does not take it.
//
// The log keeps no watermark of calls: one that is made twice is executed twice. A call that changes nothing is not
// logged, but its answer waits for the entry all the same: once that is committed, this was the leader when it read.
func (c *Core) Call(q Call) error {
	app := c.appOf(q.App)
	switch {
	case !c.leading:
		return errNotLeading
	case app < 0 && !q.Forgets || !c.here(q.Actor):
		return fmt.Errorf("call of %v: %w", q.Actor, ErrElsewhere)
	case q.Resumes:
		return c.resume(q)
	case q.Forgets:
		return c.forgetFor(q)
	}
	before := c.beginPatient()
	b := c.beginTransaction()
	start := len(b.buf)
	message := q.Message
	if _, is := c.apps[app].(Terse); is {
		message = nil
	}
	b.buf = appendBytes(appendString(appendActor(append(b.buf, byte(OpCall)), q.Actor), q.Name), message)
	logged, changes := len(b.buf), len(b.undo)
	c.input = Input{Kind: Called, Name: q.Name, Message: q.Message, from: q.Actor, at: q.Shard, exact: true,
		to: q.Actor, crossed: true, caller: q.Caller, call: q.ID}
	_ = c.call(app) // it is answered
	c.runEmitted()
	c.finish()
	if err := c.endPatient(before); err != nil {
		return err
	}
	if len(b.buf) == logged && len(b.undo) == changes {
		b.buf = b.buf[:start]
	}
	return nil
}

// answerCall answers the call that was executed.
func (c *Core) answerCall(err error) {
	if err != nil {
		text := err.Error()
		c.reply = []byte(text[:min(len(text), maxFailedReply)])
	}
	b := &c.batch
	b.answers = append(b.answers, Answer{c.input.caller, c.input.call, err != nil, c.reply})
	b.replies += len(c.reply)
	c.reply = nil
}

// Reply sets the answer to the call that the handler executes. It is sent after commit. For another input it does
// nothing.
func (tx *Tx) Reply(message []byte) error {
	if len(message) > maxReply {
		return fmt.Errorf("a reply of %d bytes; %d are possible", len(message), maxReply)
	}
	if tx.c.input.Kind == Called {
		tx.c.reply = bytes.Clone(message)
	}
	return nil
}

// Answers returns the answers to the calls that were committed since the last call of Answers, and forgets them.
func (c *Core) Answers() []Answer {
	list := c.answers
	c.answers = nil
	return list
}
