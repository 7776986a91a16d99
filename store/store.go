package store

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store/component"
)

// Name is the name of the application.
const Name = "store"

// callName is that of a call with an encoded Request.
const callName = "do"

// CallOf returns the call that executes an encoded request of a client, and its MaxAge; the reply to it is an encoded
// Response. A request to a namespace with Buckets needs a Split. The error is an *Error.
func CallOf(request []byte) (q ledger.Call, maxAge time.Duration, err error) {
	_, ns, maxAge := peek(request)
	if err := CheckNamespace(ns); err != nil {
		return ledger.Call{}, 0, err
	}
	return ledger.Call{Actor: ActorOf(ns), Name: callName, Message: request}, maxAge, nil
}

// NewCall is CallOf for a request of a controller, which may be for a bucket.
func NewCall(r *Request) ledger.Call {
	return ledger.Call{Actor: ActorOf(r.Namespace), Name: callName, Message: r.Append(nil)}
}

// ActorOf returns the actor that a namespace is, or a bucket of one.
func ActorOf(namespace string) ledger.Actor {
	return ledger.Actor{App: Name, Shard: shardOf(namespace)}
}

// The tables of the ledger. The cells of a namespace have its name in Key.S.
const (
	metaTable      = "meta"       // a value: see meta
	tableTable     = "tables"     // by name: see table
	rowTable       = "rows"       // cells by the id of the table too (Key.A), fields by the key of the row: see stored
	componentTable = "components" // by name: see storedComponent
	sessionTable   = "sessions"   // by session, and its answers by session and seq: see session
)

// Application executes requests, in one goroutine. It implements ledger.Spreader, ledger.Terse,
// ledger.Reader and ledger.Placer.
type Application struct {
	tables  map[tableID]*table // decoded definitions
	columns [MaxColumns][]byte // of the row that was found last
	row     []byte             // that was encoded last
	results []Result           // of the present transaction
	answers encoder            // to the request that was executed last
	scratch scratch
	request requestMemory // of the present one

	programs map[programID]program
	parsed   int              // bytes of the sources of programs
	runs     component.Limits // what is left to the components of the present request
	many     int              // how many ops of it look at many
}

// New returns the application.
func New() *Application {
	return &Application{tables: map[tableID]*table{}, programs: map[programID]program{}}
}

// Name implements ledger.Application.
func (a *Application) Name() string { return Name }

// LogsEffects implements ledger.Terse.
func (a *Application) LogsEffects() {}

// Shard implements ledger.Sharder.
func (a *Application) Shard(_ string, cell ledger.Key) ledger.Shard { return shardOf(cell.S) }

// SpreadsCells implements ledger.Spreader: each table of a namespace has a cell.
func (a *Application) SpreadsCells() {}

func shardOf(ns string) ledger.Shard { return ledger.Shard{Key: ledger.Key{S: ns}} }

// Handle implements ledger.Application.
func (a *Application) Handle(tx *ledger.Tx, in *ledger.Input) error {
	switch in.Kind {
	case ledger.Called:
		if !tx.Enter(tx.Shard()) {
			return nil
		}
		answer, err := a.execute(tx, in.Message)
		if err != nil {
			return err
		}
		return tx.Reply(answer)
	case ledger.Timer:
		if !tx.Enter(tx.Shard()) {
			return nil
		}
		return open(a, tx, tx.Shard().Key.S).expire()
	}
	return nil
}

// execute executes an encoded request, and returns the encoded response.
func (a *Application) execute(tx *ledger.Tx, request []byte) ([]byte, error) {
	r, err := a.decode(request)
	if err != nil {
		return Refusal(request, err), nil
	}
	n := open(a, tx, tx.Shard().Key.S)
	n.client = r.Client
	a.runs, a.many = component.Limits{Steps: runsOfRequest * MaxSteps, Bytes: runsOfRequest * maxRunBytes}, 0
	if r.Session != 0 {
		answer, err := n.answered(&r)
		if refused, is := errors.AsType[*Error](err); is {
			return Refusal(request, refused), nil
		}
		if answer != nil || err != nil {
			return withID(&r, answer), err
		}
	}
	answer, failed := n.run(&r)
	return withID(&r, answer), failed
}

// decode decodes a request, and checks it. It is valid until the next one.
func (a *Application) decode(request []byte) (r Request, err *Error) {
	if err := r.decodeInto(&a.request, request); err != nil {
		return r, Fail(Invalid, "the request cannot be decoded: %v", err)
	}
	return r, r.check()
}

// Read answers an encoded request with MaxAge from what a replica has applied. It implements ledger.Reader.
func (a *Application) Read(tx *ledger.Tx, request []byte) []byte {
	r, err := a.decode(request)
	if err == nil && r.MaxAge == 0 { // then it might write
		err = Fail(Invalid, "the request is not for a replica")
	}
	if err != nil {
		return Refusal(request, err)
	}
	a.many = 0
	answer, failed := open(a, tx, tx.Shard().Key.S).run(&r)
	if failed != nil {
		return Refusal(request, Fail(Failed, "%v", failed))
	}
	return bytes.Clone(withID(&r, answer))
}

// withID adds the id of a request to the encoded outcomes.
func withID(r *Request, outcomes []byte) []byte {
	return (&Response{ID: r.ID}).Append(outcomes)
}

// run executes the transactions of a request, and returns the encoded outcomes, which are valid until the next call.
func (n *namespace) run(r *Request) ([]byte, error) {
	answers := n.app.answers[:0]
	defer func() { n.app.answers = answers }()
	refused, bound := false, maxAnswer
	bounded := r.Session != 0 || n.buckets > 0 && r.writes() // so that a Split has room for all parts
	if bounded {
		bound = maxKept
		for _, ops := range r.Transactions {
			bound -= opShare * len(ops)
		}
	}
	for _, ops := range r.Transactions {
		if bounded { // those after it keep their shares
			bound += opShare * len(ops)
		}
		failed, err := n.transaction(ops, &answers, bound)
		if err != nil {
			return nil, err
		}
		refused = refused || failed
	}
	if n.changed || n.closes || r.Session != 0 && (refused || r.writes()) {
		n.commit(r, answers)
	}
	return answers, nil
}

// maxAnswer bounds an answer, in bytes. It has room for MaxReply and everything else that MaxOps results have.
const maxAnswer = MaxReply + 64<<10

const (
	// opShare is what each op may add to an answer that is kept, in bytes, whatever others have added.
	opShare = maxKept / MaxOps
	// refusalSize is that of an encoded refusal without its message, in bytes, at most.
	refusalSize = 16
)

// transaction executes ops, or refuses them, and adds the outcome to the answers, which have room for it up to bound.
func (n *namespace) transaction(ops []Op, answers *encoder, bound int) (refused bool, err error) {
	before, was, start := n.tx.Mark(), *n, len(*answers)
	n.app.scratch.reset()
	results := n.app.results[:0]
	for range ops {
		results = append(results, Result{})
	}
	n.app.results = results
	if err = n.ops(ops, results); err == nil {
		out := Outcome{Revision: n.meta.revision, Results: results}
		answers.message(2, func() { answers.outcome(&out) })
		if size := len(*answers); size > bound {
			err = Fail(TooLarge, "the answer has %d bytes, %d are possible: ask for less, or without a session",
				size-start, bound-start)
		}
	}
	why, is := errors.AsType[*Error](err)
	if !is {
		return false, err
	}
	*n, *answers = was, (*answers)[:start]
	why.cut(bound - start - refusalSize)
	answers.message(2, func() { answers.outcome(&Outcome{Error: why}) })
	return true, n.tx.Rewind(before)
}

// ops executes ops.
func (n *namespace) ops(ops []Op, results []Result) error {
	for i := range ops {
		err := error(nil)
		if wrong := n.checkOp(&ops[i]); wrong != nil {
			err = wrong
		} else {
			err = n.do(&ops[i], &results[i])
		}
		if err != nil {
			if failed, is := errors.AsType[*Error](err); is {
				failed.Op = i
			}
			return err
		}
	}
	return nil
}

// damaged is the error for stored data that this release cannot read.
func damaged(what, ns string, err error) error {
	return fmt.Errorf("namespace %s: %s: %w: another release has written it", ns, what, err)
}
