package store

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// replicas are a leader and a follower, each with its application.
type replicas struct {
	t        testing.TB
	leader   *ledger.Core
	follower *ledger.Core
	term     uint64
	now      time.Time
	calls    uint64
}

func newReplicas(t testing.TB) *replicas {
	t.Helper()
	r := &replicas{t: t, now: time.Unix(1_000_000, 0)}
	for _, c := range []**ledger.Core{&r.leader, &r.follower} {
		core, err := ledger.New([]ledger.Application{New()}, ledger.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		*c = core
	}
	r.lead()
	return r
}

func (r *replicas) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replicas) lead() {
	r.term++
	r.check(r.leader.Lead(r.term, r.now.UnixNano()))
}

// fail makes the follower the leader. What the leader has not committed is gone.
func (r *replicas) fail() {
	r.t.Helper()
	r.check(r.leader.Follow())
	r.leader, r.follower = r.follower, r.leader
	r.lead()
}

// commit commits what was executed.
func (r *replicas) commit() {
	r.t.Helper()
	for {
		entry, ok := r.leader.Cut()
		if !ok {
			return
		}
		r.check(r.follower.Commit(entry))
		r.check(r.leader.Commit(entry))
	}
}

// pass lets time go by.
func (r *replicas) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.leader.Tick(r.now.UnixNano())
	r.commit()
}

// send executes a request, and commits nothing.
func (r *replicas) send(ns string, body []byte) {
	r.t.Helper()
	q := httpcall.Encode(httpcall.Request{Method: "POST", Values: map[string]string{"namespace": ns}, Body: body})
	at, err := New().Callee(route, q)
	r.check(err)
	r.calls++
	r.check(r.leader.Call(ledger.Call{Actor: ledger.Actor{App: Name, Shard: at}, Name: route, Message: q, Caller: 1,
		ID: r.calls}))
}

// call executes a request, and returns the answer.
func (r *replicas) call(ns string, body []byte) (int, []byte) {
	r.t.Helper()
	r.send(ns, body)
	r.commit()
	answers := r.leader.Answers()
	last := answers[len(answers)-1]
	if last.Failed {
		r.t.Fatalf("%s: %s", body, last.Message)
	}
	a, err := httpcall.Decode[httpcall.Response](last.Message)
	r.check(err)
	return a.Status, a.Body
}

// do is call for a Request.
func (r *replicas) do(ns string, q Request) (Response, *Error) {
	r.t.Helper()
	body, err := json.Marshal(q)
	r.check(err)
	status, answer := r.call(ns, body)
	var out struct {
		Response
		Error *Error `json:"error"`
	}
	r.check(json.Unmarshal(answer, &out))
	if (status != 0) != (out.Error != nil) {
		r.t.Errorf("status %d with %s", status, answer)
	}
	return out.Response, out.Error
}

// must is do for ops that take effect, without a session.
func (r *replicas) must(ns string, ops ...Op) []Result {
	r.t.Helper()
	out, err := r.do(ns, Request{Ops: ops})
	if err != nil {
		r.t.Fatalf("%+v: %v", ops, err)
	}
	return out.Results
}

// rows returns everything that both replicas have, which is the same.
func (r *replicas) rows() []ledger.Row {
	r.t.Helper()
	list, err := r.leader.Rows(Name, 1<<20)
	r.check(err)
	other, err := r.follower.Rows(Name, 1<<20)
	r.check(err)
	byPlace := func(a, b ledger.Row) int {
		if c := strings.Compare(a.Table, b.Table); c != 0 {
			return c
		}
		if c := a.Cell.Compare(b.Cell); c != 0 {
			return c
		}
		return a.Field.Compare(b.Field)
	}
	slices.SortFunc(list, byPlace)
	slices.SortFunc(other, byPlace)
	if !reflect.DeepEqual(list, other) {
		r.t.Errorf("the replicas differ:\n%+v\n%+v", list, other)
	}
	return list
}
