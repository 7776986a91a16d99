package app

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Applications call each other by the type of the request, which one application handles (HandleCall). There are two
// ways to call:
//
//   - Call sends the request, and the handler goes on. The answer is handed to a handler of its own (HandleAnswer).
//   - Ask returns the answer. The handler is run twice for that: see Ask.
//
// Caller and callee may be in different groups, and may move meanwhile. The request is executed once, and the call ends
// once: with the answer, with the error of the handler, or with ErrLate.

// ErrLate is the error of a call that was not answered within its time limit. The request may have been executed, or
// may still be; its answer is dropped.
var ErrLate = errors.New("no answer in time: the call may have been executed, or may still be")

// CallError is the error of a call whose handler has failed, with the text of its error. Nothing that the handler did
// took effect.
type CallError string

func (e CallError) Error() string { return string(e) }

// Answer is the end of a call with a request of type Q.
type Answer[Q, A any] struct {
	Request Q
	Value   A
	Err     error // nil, a CallError, or ErrLate
}

const (
	callPrefix   = "call "   // precedes the type of a request
	answerPrefix = "answer " // likewise
)

// maxAsked bounds the calls of Ask for one message.
const maxAsked = 16

// maxCall bounds a request and an answer, in bytes.
const maxCall = 256 << 10

// maxCallError bounds the text of a CallError, in bytes.
const maxCallError = 1 << 10

// request is what a call sends, and response what it is answered with. ID is the timer of the caller.
type request struct {
	ID      string `cbor:"1,keyasint"`
	Request []byte `cbor:"2,keyasint"`
}

type response struct {
	ID     string `cbor:"1,keyasint"`
	Failed string `cbor:"2,keyasint,omitempty"`
	Value  []byte `cbor:"3,keyasint,omitempty"`
}

// canonical encodes equal requests equally.
var canonical = func() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// HandleCall adds the handler of calls with requests of type Q, whose answers have type A. If it returns an error or
// panics, nothing that it did takes effect, and the caller receives the error. cells is as for Handle. Requests and
// answers travel as CBOR, so their fields must be exported. Of all applications of a cluster, one may handle a type.
func HandleCall[Q, A any](a *App, cells func(Q) Cells, run func(*Tx, Q) (A, error)) {
	name := typeName[Q]()
	if a.emitted[callPrefix+name] != nil {
		panic(fmt.Sprintf("application %s: calls with %s are handled twice", a.name, name))
	}
	f := newFunction(a, cells)
	f.explain(ledger.Emitted, 0, callPrefix+name)
	a.emitted[callPrefix+name] = []handler{func(tx *Tx, in *ledger.Input) error {
		var r request
		if err := cbor.Unmarshal(in.Message, &r); err != nil {
			return fmt.Errorf("%s%s: %w", callPrefix, name, err)
		}
		var value []byte
		ran := false
		err := tx.apart(func() error {
			var q Q
			if err := cbor.Unmarshal(r.Request, &q); err != nil {
				return err
			}
			return f.handle(tx, &q, func(tx *Tx, q Q) error {
				ran = true
				answer, err := run(tx, q)
				if err == nil {
					value, err = cbor.Marshal(answer)
				}
				if len(value) > maxCall {
					err = fmt.Errorf("the answer has %d bytes, %d are possible", len(value), maxCall)
				}
				return err
			})
		})
		if err == nil && !ran {
			err = tx.ledger.Suspended()
		}
		if err == nil && (!ran || tx.refused || tx.trial.void()) || tx.waits(err) {
			return err // another actor handles it, or this one later
		}
		if p := (*panicked)(nil); errors.As(err, &p) {
			a.failed(in, err)
		}
		return tx.respond(name, r.ID, value, err)
	}}
}

// respond answers the present call.
func (tx *Tx) respond(name, id string, value []byte, failure error) error {
	r := response{ID: id, Value: value}
	if failure != nil {
		text := cmp.Or(failure.Error(), "failed")
		r = response{ID: id, Failed: text[:min(len(text), maxCallError)]}
	}
	data, err := cbor.Marshal(r)
	if err != nil {
		return err
	}
	caller, _ := tx.ledger.Sender()
	return tx.ledger.EmitTo(caller, answerPrefix+name, data)
}

// Answers implements ledger.Answerer.
func (a *App) Answers() (names []string) {
	for name := range a.emitted {
		if strings.HasPrefix(name, callPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// Call sends a request to the application that handles its type. The call ends within the time limit, if a majority of
// the controllers of this group runs: then a handler of HandleAnswer of this application receives the answer or an
// error, once. That handler belongs to the actor that calls Call. If both are in one group, all of it is one
// transaction.
func Call[Q any](tx *Tx, q Q, limit time.Duration) error {
	p, err := tx.pend(typeName[Q](), q, limit)
	if err != nil {
		return err
	}
	if tx.app.answers[p.Type] == nil {
		return fmt.Errorf("application %s calls with %s and handles no answers: add app.HandleAnswer", tx.app.name,
			p.Type)
	}
	return tx.wait(p)
}

// pend returns a call with a request.
func (tx *Tx) pend(name string, q any, limit time.Duration) (*pending, error) {
	if !tx.ledger.Handled(callPrefix + name) {
		return nil, fmt.Errorf("no application handles calls with %s: add one with app.HandleCall to the cluster", name)
	}
	request, err := canonical.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("call with %s: %w", name, err)
	}
	if len(request) > maxCall {
		return nil, fmt.Errorf("call with %s: the request has %d bytes, %d are possible", name, len(request), maxCall)
	}
	return &pending{Type: name, Request: request, after: limit}, nil
}

// send sends the request of a call.
func (tx *Tx) send(id string, p *pending) error {
	data, err := cbor.Marshal(request{id, p.Request})
	if err != nil {
		return err
	}
	return tx.ledger.Emit(callPrefix+p.Type, data)
}

// HandleAnswer adds the handler of the answers to calls with requests of type Q. cells must name cells of the actor
// that has called, which cannot depend on the answer; with nil, these are the cells that the handler uses. The handler
// must not wait: it cannot use Ask or Later.
func HandleAnswer[Q, A any](a *App, cells func(Q) Cells, run func(*Tx, Answer[Q, A]) error) {
	name := typeName[Q]()
	if a.answers[name] != nil {
		panic(fmt.Sprintf("application %s: answers to %s are handled twice", a.name, name))
	}
	f := newFunction(a, cells)
	a.answers[name] = func(tx *Tx, r *result) error {
		var m Answer[Q, A]
		if err := cbor.Unmarshal(r.Request, &m.Request); err != nil {
			return fmt.Errorf("%s%s: %w", answerPrefix, name, err)
		}
		m.Value, m.Err = valueOf[A](r)
		return f.handleHere(tx, &m.Request, func(tx *Tx, _ Q) error {
			err := run(tx, m)
			if tx.waits(err) {
				return fmt.Errorf("a handler of answers to %s waits: use app.Ask in the handler of the message instead",
					name)
			}
			return err
		})
	}
}

func valueOf[A any](r *result) (value A, err error) {
	switch {
	case r.Late:
		return value, ErrLate
	case r.Failed != "":
		return value, CallError(r.Failed)
	}
	if err := cbor.Unmarshal(r.Value, &value); err != nil {
		return value, fmt.Errorf("answer to %s: %w", r.Type, err)
	}
	return value, nil
}

// answered takes the answer to a call. One that comes after the time limit is dropped.
func (a *App) answered(in *ledger.Input) error {
	var r response
	if err := cbor.Unmarshal(in.Message, &r); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	data, waits := a.tx.ledger.TimerData(r.ID)
	if !waits || !ledger.IsWait(r.ID) {
		return nil
	}
	a.tx.ledger.CancelTimer(r.ID)
	err := a.tx.apart(func() error { return a.goOn(data, result{Failed: r.Failed, Value: r.Value}) })
	if err != nil {
		a.failed(in, err) // and not returned, since the call has ended
	}
	return nil
}

// Ask calls the application that handles requests of type Q, and returns its answer or a CallError or ErrLate.
//
// A handler cannot wait for another one, because actors of a group are executed one after the other. So when Ask has no
// answer yet, it returns an error, which the handler must return at once: then everything that the handler did is
// undone, the message is kept, and the handler is run again from its beginning when the answer has come. Then Ask
// returns it. The handler may ask up to 16 different questions in that way; equal ones are asked once.
//
// The second run sees the newest cells, which other messages may have changed meanwhile; messages that come after this
// one do not wait for it. The effects of the last run take place exactly once, those of the others never; only Go
// variables keep what the handler assigned to them.
func Ask[A, Q any](tx *Tx, q Q, limit time.Duration) (answer A, err error) {
	p, err := tx.pend(typeName[Q](), q, limit)
	if err != nil {
		return answer, err
	}
	for i := range tx.answers {
		if r := &tx.answers[i]; r.Type == p.Type && bytes.Equal(r.Request, p.Request) {
			return valueOf[A](r)
		}
	}
	if len(tx.answers) >= maxAsked {
		return answer, fmt.Errorf("ask %s: a handler may ask %d questions", p.Type, maxAsked)
	}
	if tx.asks == nil {
		tx.asks = p
	}
	return answer, errAsks
}

// errAsks is returned by Ask to a handler that will be run again.
var errAsks = errors.New("the handler is run again with the answer")

// waits reports whether a handler that has returned an error is to be run again.
func (tx *Tx) waits(err error) bool {
	var l *later
	return tx.asks != nil || errors.As(err, &l)
}
