package store

import (
	"reflect"
	"strings"
	"testing"
)

// A value that is written is in the log once.
func TestLoggedOnce(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	r.send(asked{Ops: []Op{{Kind: Put, Table: "t", Key: "k", Columns: Value(make([]byte, MaxValue))}}}.of("n"))
	entry, ok := r.leader.Cut()
	if !ok || len(entry) < MaxValue || len(entry) > MaxValue+1000 {
		t.Errorf("an entry of %d bytes", len(entry))
	}
}

// Transactions of a request take effect one by one, and all of their outcomes are kept for a client that asks again,
// even if many are refused with long messages.
func TestTransactions(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	id := r.must("n", Op{Kind: OpenSession})[0].Session
	q := Request{ID: 1, Namespace: "n", Session: id, Seq: 1}
	long := strings.Repeat("é", MaxKey/2)
	for i := range MaxOps {
		o := Op{Kind: Add, Table: "t", Key: "sum", Delta: 1}
		if i%2 > 0 {
			o = Op{Kind: Update, Table: "t", Key: long, Columns: Value(nil)}
		}
		q.Transactions = append(q.Transactions, []Op{o})
	}
	first := r.call(q.Append(nil))
	r.fail()
	q.ID = 2
	again := r.call(q.Append(nil))
	if first.ID != 1 || again.ID != 2 || !reflect.DeepEqual(again.Outcomes, first.Outcomes) ||
		len(first.Outcomes) != MaxOps {
		t.Fatalf("%+v and then %+v", first, again)
	}
	for i, o := range first.Outcomes {
		if sum := int64(i/2 + 1); i%2 == 0 && (o.Error != nil || o.Results[0].Value != sum) ||
			i%2 > 0 && (o.Error == nil || o.Error.Code != NotFound || o.Error.Op != 0) {
			t.Fatalf("transaction %d: %+v", i, o)
		}
	}
	if last := first.Outcomes[MaxOps-1]; last.Error.Message == "" {
		t.Error("the last refusal has no room for a message, although those before had")
	}
	r.rows()
}
