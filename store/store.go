package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Name is the name of the application.
const Name = "store"

// route is where a request is served, below /apps/store.
const route = "POST /{namespace}"

// The tables of the ledger. The cells of a namespace have its name in Key.S.
const (
	metaTable    = "meta"     // a value: see meta
	tableTable   = "tables"   // by name: see table
	rowTable     = "rows"     // cells by the id of the table too (Key.A), fields by the key of the row: see stored
	sessionTable = "sessions" // by session, and its answers by session and seq: see session
)

// Application executes requests. It implements ledger.Server and ledger.Sharder.
type Application struct {
	tables map[tableID]*table // decoded definitions; the loop's own
}

// New returns the application.
func New() *Application { return &Application{tables: map[tableID]*table{}} }

// Name implements ledger.Application.
func (a *Application) Name() string { return Name }

// Routes implements ledger.Server.
func (a *Application) Routes() []string { return []string{route} }

// Callee implements ledger.Server. A name that no namespace can have is for the actor without a key, which refuses it.
func (a *Application) Callee(_ string, message []byte) (ledger.Shard, error) {
	q, err := httpcall.Decode[httpcall.Request](message)
	if err != nil {
		return ledger.Shard{}, err
	}
	ns := q.Values["namespace"]
	if CheckNamespace(ns) != nil {
		return ledger.Shard{}, nil
	}
	return shardOf(ns), nil
}

// Shard implements ledger.Sharder.
func (a *Application) Shard(_ string, cell ledger.Key) ledger.Shard { return shardOf(cell.S) }

func shardOf(ns string) ledger.Shard { return ledger.Shard{Key: ledger.Key{S: ns}} }

// Handle implements ledger.Application.
func (a *Application) Handle(tx *ledger.Tx, in *ledger.Input) error {
	switch in.Kind {
	case ledger.Called:
		if !tx.Enter(tx.Shard()) {
			return nil
		}
		answer, err := a.serve(tx, in.Message)
		if err != nil {
			return err
		}
		return tx.Reply(httpcall.Encode(answer))
	case ledger.Timer:
		if !tx.Enter(tx.Shard()) {
			return nil
		}
		return open(a, tx, tx.Shard().Key.S).expire()
	}
	return nil
}

// serve executes a request over HTTP.
func (a *Application) serve(tx *ledger.Tx, message []byte) (httpcall.Response, error) {
	q, err := httpcall.Decode[httpcall.Request](message)
	if err != nil {
		return httpcall.Response{}, err
	}
	var body []byte
	ns := q.Values["namespace"]
	if err = CheckNamespace(ns); err == nil {
		body, err = a.execute(tx, ns, q.Body)
	}
	status := 0
	if failed, is := errors.AsType[*Error](err); is {
		status = failed.status()
		body, err = json.Marshal(struct {
			Error *Error `json:"error"`
		}{failed})
	}
	return httpcall.Response{Status: status, Type: "application/json", Body: append(body, '\n')}, err
}

// execute executes a request, and returns the encoded Response. After an *Error nothing has changed.
func (a *Application) execute(tx *ledger.Tx, ns string, body []byte) ([]byte, error) {
	r, err := parse(body)
	if err != nil {
		return nil, err
	}
	before := tx.Mark()
	n := open(a, tx, ns)
	if r.Session != 0 {
		if answer, err := n.answered(&r); answer != nil || err != nil {
			return answer, err
		}
	}
	answer, err := n.run(&r)
	refused, is := errors.AsType[*Error](err)
	if !is {
		return answer, err
	}
	if undone := tx.Rewind(before); undone != nil {
		return nil, undone
	}
	if r.Session != 0 {
		if failed := n.refuse(&r, refused); failed != nil {
			return nil, failed
		}
	}
	return nil, err
}

// run executes the ops of a request.
func (n *namespace) run(r *Request) ([]byte, error) {
	out := Response{Results: make([]Result, len(r.Ops))}
	for i := range r.Ops {
		if err := n.do(&r.Ops[i], &out.Results[i]); err != nil {
			if failed, is := errors.AsType[*Error](err); is {
				failed.Op = i
			}
			return nil, err
		}
	}
	out.Revision = n.meta.revision
	answer, err := json.Marshal(out)
	if err == nil && (n.changed || n.closes) {
		err = n.commit(r, answer)
	}
	return answer, err
}

// status is that of HTTP.
func (e *Error) status() int {
	switch e.Code {
	case NotFound, NoTable, NoColumn:
		return http.StatusNotFound
	case Exists, Conflict:
		return http.StatusConflict
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Expired, Outdated:
		return http.StatusGone
	}
	return http.StatusBadRequest
}

// damaged is the error for stored data that this release cannot read.
func damaged(what, ns string, err error) error {
	return fmt.Errorf("namespace %s: %s: %w: another release has written it", ns, what, err)
}
