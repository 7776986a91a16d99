package store

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A request of a session that comes again, before or after a failover, is answered as before, and changes nothing.
func TestSession(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	id := r.must("n", Op{Kind: OpenSession})[0].Session
	add := func(seq, acked uint64) (int64, *Error) {
		t.Helper()
		out, err := r.do("n", asked{Session: id, Seq: seq, Acked: acked,
			Ops: []Op{{Kind: Add, Table: "t", Key: "k", Delta: 1}}})
		if err != nil {
			return 0, err
		}
		return out.Results[0].Value, nil
	}
	want := func(seq, acked uint64, value int64) {
		t.Helper()
		if got, err := add(seq, acked); err != nil || got != value {
			t.Errorf("seq %d: %d (%v), want %d", seq, got, err, value)
		}
	}
	wantError := func(seq, acked uint64, code Code) {
		t.Helper()
		if got, err := add(seq, acked); err == nil || err.Code != code {
			t.Errorf("seq %d after %d: %d (%v), want %s", seq, acked, got, err, code)
		}
	}
	want(1, 0, 1)
	want(1, 0, 1)
	want(3, 0, 2) // in any order
	want(2, 0, 3)
	r.send(asked{Session: id, Seq: 4, Ops: []Op{{Kind: Add, Table: "t", Key: "k", Delta: 1}}}.of("n"))
	r.fail() // it was not committed
	want(3, 0, 2)
	want(4, 0, 4)
	r.fail()
	want(4, 0, 4)
	want(5, 3, 5)
	want(4, 0, 4) // not acknowledged yet
	wantError(3, 0, Outdated)
	wantError(4+Window, 0, Invalid)
	wantError(math.MaxUint64, 3, Invalid)
	want(3+Window, 3, 6)
	want(1_000_000, 999_999, 7) // those before have only read
	// It lives as long as it is used.
	for i := range uint64(10) {
		r.pass(SessionTime / 2)
		want(1_000_001+i, 1_000_000+i, 8+int64(i))
	}
	r.pass(2 * SessionTime)
	wantError(1_000_011, 1_000_010, Expired)
	for _, table := range r.rows() {
		if table.Table == sessionTable {
			t.Errorf("left of a session that has expired: %+v", table)
		}
	}
}

// A request that was refused stays refused. Else a copy that is late could be executed, after the client was told that
// nothing has changed.
func TestRefusedStaysRefused(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"}, Op{Kind: Put, Table: "t", Key: "k", Columns: columns("value", "1")})
	id := r.must("n", Op{Kind: OpenSession})[0].Session
	create := asked{Session: id, Seq: 1, Ops: []Op{{Kind: Create, Table: "t", Key: "k", Columns: columns("value", "2")}}}
	_, first := r.do("n", create)
	r.must("n", Op{Kind: Delete, Table: "t", Key: "k"})
	r.fail()
	if _, again := r.do("n", create); first == nil || first.Code != Exists || !reflect.DeepEqual(again, first) {
		t.Errorf("refused with %+v, and then %+v", first, again)
	}
	r.rows()
}

// A component that has changed nothing is not run again either.
func TestUnchangedStaysUnchanged(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"}, upload("touch", `
def run(args):
    if store.get("t", "k") != None:
        store.put("t", "k", {"value": "2"})
`))
	id := r.must("n", Op{Kind: OpenSession})[0].Session
	run := asked{Session: id, Seq: 1, Ops: []Op{{Kind: Run, Component: "touch"}}}
	results, err := r.do("n", run)
	r.must("n", Op{Kind: Put, Table: "t", Key: "k", Columns: columns("value", "1")})
	r.fail()
	late, again := r.do("n", run)
	if err != nil || again != nil || !reflect.DeepEqual(late, results) {
		t.Errorf("%+v, %v; and then %+v, %v", results, err, late, again)
	}
	if row := r.must("n", Op{Kind: Get, Table: "t", Key: "k"})[0].Row; string(row.Columns[0].Value) != "1" {
		t.Errorf("a late copy has written %+v", row)
	}
}

// A session is for the client that has opened it, whoever others say they are: what the controller appends counts.
func TestSessionOfAClient(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	of := func(q asked, says, is string) []byte {
		b, ok := WithClient(append(q.of("n"), (&Request{Client: says}).Append(nil)...), is)
		if !ok {
			t.Fatal("refused")
		}
		return b
	}
	id := r.call(of(asked{Ops: []Op{{Kind: OpenSession}}}, "", "client a")).Outcomes[0].Results[0].Session
	add := asked{Session: id, Seq: 1, Ops: []Op{{Kind: Add, Table: "t", Key: "k", Delta: 1}}}
	for i, c := range []struct {
		is    string
		value int64
	}{{"client b", 0}, {"", 0}, {"client a", 1}, {"client b", 0}, {"client a", 1}} {
		out := r.call(of(add, "client a", c.is))
		if c.value == 0 != (out.Error != nil) || out.Error != nil && out.Error.Code != Expired ||
			out.Error == nil && out.Outcomes[0].Results[0].Value != c.value {
			t.Errorf("request %d, of %q: %+v", i, c.is, out)
		}
		if i == 2 {
			r.fail()
		}
	}
	r.rows()
	// A field at the end would have what is appended as its content.
	open := append(add.of("n"), (&Request{Client: "client a"}).Append(nil)...)
	open = protowire.AppendVarint(protowire.AppendTag(open, 15, protowire.BytesType), 2+uint64(len("client b")))
	if b, ok := WithClient(open, "client b"); ok {
		t.Errorf("a malformed request is completed: %x", b)
	}
}

// Sessions that the timer has not removed, because it was lost, make room for others.
func TestLostTimer(t *testing.T) {
	r := newReplicas(t)
	for range MaxSessions / MaxOps {
		r.must("n", slices.Repeat([]Op{{Kind: OpenSession}}, MaxOps)...)
	}
	at := ledger.Actor{App: Name, Shard: shardOf("n")}
	r.check(r.leader.Suspend(at, false, "it hangs"))
	r.commit()
	r.pass(2 * SessionTime)
	r.check(r.leader.Suspend(at, false, ""))
	r.commit()
	for range 3 * MaxSessions / MaxOps {
		r.must("n", slices.Repeat([]Op{{Kind: OpenSession}}, MaxOps/4)...)
	}
	r.pass(3 * SessionTime) // some at a time
	for range maxEnded {
		r.pass(time.Second)
	}
	for _, row := range r.rows() {
		if row.Table == sessionTable {
			t.Fatalf("a session is left: %+v", row)
		}
	}
}

// A session that is closed leaves nothing, and its requests are not executed any more.
func TestCloseSession(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	before := r.rows()
	for range 3 * MaxSessions {
		id := r.must("n", Op{Kind: OpenSession})[0].Session
		q := asked{Session: id, Seq: 1, Ops: []Op{{Kind: Add, Table: "t", Key: "k", Delta: 1}}}
		out, err := r.do("n", q)
		if err != nil {
			t.Fatal(err)
		}
		if id%MaxSessions == 1 {
			r.fail()
		}
		if _, err := r.do("n", asked{Session: id, Seq: 2, Ops: []Op{{Kind: CloseSession}}}); err != nil {
			t.Fatal(err)
		}
		if again, err := r.do("n", q); err == nil || err.Code != Expired {
			t.Fatalf("after %+v: %+v, %v", out, again, err)
		}
	}
	r.must("n", Op{Kind: Delete, Table: "t", Key: "k"})
	if after := r.rows(); len(after) != len(before) {
		t.Errorf("%d rows, before %d: %+v", len(after), len(before), after)
	}
}

// As many sessions are possible as are stated.
func TestMaxSessions(t *testing.T) {
	r := newReplicas(t)
	for range MaxSessions / MaxOps {
		ops := make([]Op, MaxOps)
		for i := range ops {
			ops[i].Kind = OpenSession
		}
		r.must("n", ops...)
	}
	if _, err := r.do("n", asked{Ops: []Op{{Kind: OpenSession}}}); err == nil || err.Code != TooLarge {
		t.Errorf("one more: %v", err)
	}
	r.pass(2 * SessionTime)
	r.must("n", Op{Kind: OpenSession})
}
