package store

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// replicas are a leader and a follower, each with its application.
type replicas struct {
	t        testing.TB
	leader   *ledger.Core
	follower *ledger.Core
	feeds    [2]*Feed
	term     uint64
	now      time.Time
	calls    uint64
}

func newReplicas(t testing.TB) *replicas {
	t.Helper()
	r := &replicas{t: t, now: time.Unix(1_000_000, 0)}
	for i, c := range []**ledger.Core{&r.leader, &r.follower} {
		core, err := ledger.New([]ledger.Application{New()}, ledger.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		r.feeds[i] = NewFeed()
		core.ObserveTables(Name, r.feeds[i].Follow(1))
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

// send executes an encoded request, and commits nothing.
func (r *replicas) send(request []byte) {
	r.t.Helper()
	q, _, err := CallOf(request)
	r.check(err)
	r.calls++
	q.Caller, q.ID = 1, r.calls
	r.check(r.leader.Call(q))
}

// call executes an encoded request.
func (r *replicas) call(request []byte) (out Response) {
	r.t.Helper()
	r.send(request)
	r.commit()
	answers := r.leader.Answers()
	last := answers[len(answers)-1]
	if last.Failed {
		r.t.Fatalf("%q: %s", request, last.Message)
	}
	r.check(out.Decode(last.Message))
	return out
}

// asked is a request with one transaction.
type asked struct {
	Session, Seq, Acked uint64
	Ops                 []Op
}

func (q asked) of(ns string) []byte {
	return (&Request{ID: 7, Namespace: ns, Session: q.Session, Seq: q.Seq, Acked: q.Acked,
		Transactions: [][]Op{q.Ops}}).Append(nil)
}

// do executes a request.
func (r *replicas) do(ns string, q asked) (Outcome, *Error) {
	r.t.Helper()
	out := r.call(q.of(ns))
	switch {
	case out.ID != 7:
		r.t.Errorf("the response has id %d", out.ID)
	case out.Error != nil:
		return Outcome{}, out.Error
	case len(out.Outcomes) != 1:
		r.t.Fatalf("%+v: %d outcomes", q, len(out.Outcomes))
	}
	return out.Outcomes[0], out.Outcomes[0].Error
}

// must is do for ops that take effect, without a session.
func (r *replicas) must(ns string, ops ...Op) []Result {
	r.t.Helper()
	out, err := r.do(ns, asked{Ops: ops})
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
