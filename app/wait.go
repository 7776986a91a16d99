package app

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Later is what a handler returns to postpone its message: what the handler did is undone, and the message is handed to
// it again after a time, or as soon as another handler has changed the cell, if one is given. The cell must belong to
// the actor that handles the message. Messages that come after it do not wait. Those that wait for the same time or
// cell are handled in the order in which they came.
//
// The message is kept in the log, so it survives the leader and moves with the actor, and it is handled once in the
// end. The messages and calls that wait in a group are bounded as its timers are, to 65,536 and 64 MiB; beyond that the
// handler fails. A request of an HTTP client may be postponed too; the client is answered when it has been handled.
func Later(after time.Duration, cell ...Cell) error {
	l := &later{after: after}
	if len(cell) > 1 {
		panic("app.Later: a message waits for one cell")
	}
	if len(cell) == 1 {
		l.cell = cell[0]
	}
	return l
}

type later struct {
	after     time.Duration
	cell      Cell
	scattered *scattered // it waits for these actors
}

func (l *later) Error() string { return fmt.Sprintf("the message is postponed by %v", l.after) }

// pending is a message that waits, or a call, or a message that waits for the answer to a call.
type pending struct {
	Type    string   `cbor:"1,keyasint,omitempty"` // of the request of a call
	Request []byte   `cbor:"2,keyasint,omitempty"`
	Kept    []byte   `cbor:"3,keyasint,omitempty"` // the message
	Handler int      `cbor:"4,keyasint,omitempty"` // of the message, among those of its type
	Answers []result `cbor:"5,keyasint,omitempty"` // that it has received
	Until   int64    `cbor:"6,keyasint,omitempty"` // if it waits for other actors: when it fails

	after     time.Duration
	on        ledger.CellName
	scattered *scattered
}

// result is the end of a call.
type result struct {
	Type    string `cbor:"1,keyasint,omitempty"` // of the request
	Request []byte `cbor:"2,keyasint,omitempty"`
	Late    bool   `cbor:"3,keyasint,omitempty"`
	Failed  string `cbor:"4,keyasint,omitempty"` // why
	Value   []byte `cbor:"5,keyasint,omitempty"` // otherwise
}

// maxKept bounds what is kept of a message that waits, in bytes.
const maxKept = 768 << 10

// handle runs one handler of a message. If it is to wait, what was done since a point is undone and the message is
// kept. nil is the point at which the call began.
func (a *App) handle(list []handler, i int, in *ledger.Input, since *ledger.Mark) error {
	tx := &a.tx
	err := list[i](tx, in)
	if err == nil && tx.asks == nil {
		return nil
	}
	p := tx.asks
	tx.asks = nil
	if l := (*later)(nil); p == nil && errors.As(err, &l) {
		if p, err = tx.postponed(l); err != nil {
			return err
		}
	}
	if p == nil {
		return err
	}
	m := tx.ledger.Begun()
	if since != nil {
		m = *since
	}
	if err := tx.ledger.Rewind(m); err != nil {
		return err
	}
	p.Kept, p.Handler, p.Answers = tx.ledger.Keep(), i, tx.answers
	return tx.wait(p)
}

// postponed returns the message that is to wait, without what is kept of it.
func (tx *Tx) postponed(l *later) (*pending, error) {
	p := &pending{after: l.after, scattered: l.scattered}
	if l.scattered != nil {
		p.on = ledger.CellName{Table: ledger.BondTable, Key: l.scattered.missing[0].Key}
		if p.Until = tx.gathering.until; p.Until == 0 {
			p.Until = tx.ledger.Now().Add(gatherFor).UnixNano()
		}
	}
	if l.cell.table != nil {
		if is := tx.ledger.Actor(); !tx.whole && tx.ledger.Sharded() && l.cell.shard() != is.Shard {
			return nil, fmt.Errorf("%s is to wait for cell %s, which does not belong to %v", tx.handler, l.cell, is)
		}
		p.on = ledger.CellName{Table: l.cell.table.name, Key: l.cell.key}
	}
	return p, nil
}

// wait keeps what waits, and sends the request if it is for an answer.
func (tx *Tx) wait(p *pending) error {
	data, err := canonical.Marshal(p)
	if err != nil {
		return err
	}
	if len(data) > maxKept {
		return fmt.Errorf("a message that waits has %d bytes with the answers that it has received, %d are possible",
			len(data), maxKept)
	}
	name, err := tx.ledger.Wait(p.after, data, p.on)
	switch {
	case err != nil:
		return err
	case p.scattered != nil:
		return tx.gather(name, p.scattered)
	case p.Type != "":
		return tx.send(name, p)
	}
	return nil
}

// goOn continues with what has waited. answer is that to its call, if it was one.
func (a *App) goOn(data []byte, answer result) error {
	var p pending
	if err := cbor.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("%s: a message that waited: %w", a.name, err)
	}
	tx := &a.tx
	tx.free = true // it has counted
	if p.Type != "" {
		answer.Type, answer.Request = p.Type, p.Request
	}
	if p.Kept == nil {
		h := a.answers[p.Type]
		if h == nil {
			return fmt.Errorf("%s: no handler of answers to %s: run the same release at all controllers", a.name,
				p.Type)
		}
		return h(tx, &answer)
	}
	in, err := tx.ledger.Resume(p.Kept)
	if err != nil {
		return err
	}
	if tx.answers = p.Answers; p.Type != "" {
		tx.answers = append(tx.answers, answer)
	}
	if p.Until != 0 {
		tx.gathering = gathering{p.Until, answer.Failed}
	}
	list := a.list(in)
	if p.Handler >= len(list) {
		return fmt.Errorf("%s: %d handlers of %s, and number %d waited: run the same release at all controllers",
			a.name,
			len(list), in, p.Handler)
	}
	m := tx.ledger.Mark()
	if err := a.handle(list, p.Handler, in, &m); err != nil {
		return err
	}
	return a.strayed()
}

// due takes a timer of something that has waited.
func (a *App) due(in *ledger.Input) error {
	if !a.tx.ledger.Enter(a.tx.at) {
		return nil
	}
	if in.Name == meteredTimer {
		return a.tx.released()
	}
	return a.goOn(in.Message, result{Late: true})
}

// apart runs part of a handler that may fail without the rest: then what it did is undone.
func (tx *Tx) apart(run func() error) (err error) {
	m := tx.ledger.Mark()
	defer func() {
		if r := recover(); r != nil {
			err = &panicked{r, debug.Stack()}
		} else if err == nil || tx.waits(err) {
			return
		}
		if broken := tx.ledger.Rewind(m); broken != nil {
			panic(broken)
		}
	}()
	return run()
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// failed records a failure of the application that does not undo its transaction.
func (a *App) failed(in *ledger.Input, err error) {
	f := ledger.Failure{App: a.name, Input: *in, Err: err}
	f.Input.Message, f.Input.Command = nil, nil
	if p := (*panicked)(nil); errors.As(err, &p) {
		f.Stack = p.stack
	}
	a.tx.ledger.Fail(f)
}
