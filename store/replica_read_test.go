package store

import "testing"

// A replica answers reads from what it has applied, and nothing else; the leader does not.
func TestReadAtReplica(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"}, Op{Kind: Put, Table: "t", Key: "k", Columns: Value([]byte("1"))})
	r.send(asked{Ops: []Op{{Kind: Put, Table: "t", Key: "k", Columns: Value([]byte("2"))}}}.of("n")) // not committed
	read := func(q Request) Response {
		t.Helper()
		q.Namespace = "n"
		b, ok := r.follower.Read(ActorOf("n"), q.Append(nil))
		var out Response
		if !ok || out.Decode(b) != nil {
			t.Fatal("no answer")
		}
		return out
	}
	get := [][]Op{{{Kind: Get, Table: "t", Key: "none"}}, {{Kind: Get, Table: "t", Key: "k"}, {Kind: List, Table: "t"}}}
	out := read(Request{ID: 5, Transactions: get, MaxAge: 100})
	if out.ID != 5 || len(out.Outcomes) != 2 || out.Outcomes[0].Error == nil || out.Outcomes[0].Error.Code != NotFound ||
		out.Outcomes[1].Revision != 2 || string(out.Outcomes[1].Results[0].Row.Columns[0].Value) != "1" ||
		len(out.Outcomes[1].Results[1].Rows) != 1 {
		t.Errorf("a read: %+v", out)
	}
	for _, q := range []Request{{Transactions: get}, {Transactions: get, MaxAge: 1, Session: 1, Seq: 1},
		{Transactions: [][]Op{{{Kind: Delete, Table: "t", Key: "k"}}}, MaxAge: 1},
		{Transactions: [][]Op{{{Kind: OpenSession}}}, MaxAge: 1}} {
		if out := read(q); out.Error == nil || out.Error.Code != Invalid {
			t.Errorf("%+v: %+v", q, out)
		}
	}
	q := Request{Namespace: "n", Transactions: get, MaxAge: 1}
	if b, ok := r.leader.Read(ActorOf("n"), q.Append(nil)); ok {
		t.Errorf("the leader answers %q", b)
	}
	r.commit()
	if out := read(Request{Transactions: get, MaxAge: 1}); string(out.Outcomes[1].Results[0].Row.Columns[0].Value) != "2" {
		t.Errorf("after the commit: %+v", out)
	}
	r.rows()
}
