package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// split executes a request to a namespace with buckets. lose says which parts are not executed (1), or executed without
// an answer (2).
func (r *replicas) split(q Request, lose func(p Part) int) Response {
	r.t.Helper()
	s, refused := NewSplit(q)
	if refused != nil {
		return Response{Error: refused}
	}
	for parts := s.Next(); len(parts) > 0; parts = s.Next() {
		rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		r.parts(s, parts, lose)
	}
	encoded := s.Response()
	r.parts(s, s.Undo(), lose)
	var out Response
	r.check(out.Decode(encoded.Append(nil)))
	return out
}

// parts executes some parts.
func (r *replicas) parts(s *Split, parts []Part, lose func(p Part) int) {
	r.t.Helper()
	for _, p := range parts {
		fate := 0
		if lose != nil {
			fate = lose(p)
		}
		if fate == 1 {
			s.Answer(p, Response{Error: Fail(Unavailable, "nobody leads")})
			continue
		}
		answer := r.callBucket(&p.Request)
		if fate == 2 {
			answer = Response{Error: Fail(Unknown, "no answer in time")}
		}
		s.Answer(p, answer)
	}
}

// callBucket executes the request of a controller.
func (r *replicas) callBucket(q *Request) (out Response) {
	r.t.Helper()
	call := NewCall(q)
	r.calls++
	call.Caller, call.ID = 1, r.calls
	r.check(r.leader.Call(call))
	r.commit()
	answers := r.leader.Answers()
	r.check(out.Decode(answers[len(answers)-1].Message))
	return out
}

// one executes one transaction, without a session.
func (r *replicas) one(ns string, ops ...Op) (Outcome, *Error) {
	r.t.Helper()
	out := r.split(Request{Namespace: ns, Transactions: [][]Op{ops}}, nil)
	if out.Error != nil {
		return Outcome{}, out.Error
	}
	return out.Outcomes[0], out.Outcomes[0].Error
}

func putRow(key, value string) Op {
	return Op{Kind: Put, Table: "t", Key: key, Columns: columns("value", value)}
}

// keysOf returns keys of each bucket, a hundred of them.
func keysOf(of int) [][]string {
	keys := make([][]string, of)
	for i := 0; slices.ContainsFunc(keys, func(k []string) bool { return len(k) < 100 }); i++ {
		k := fmt.Sprint("k", i)
		keys[Bucket(k, of)] = append(keys[Bucket(k, of)], k)
	}
	return keys
}

// code returns the code of an error; 0 without one.
func code(err *Error) Code {
	if err == nil {
		return 0
	}
	return err.Code
}

// What a namespace with buckets executes, and what it refuses.
func TestBuckets(t *testing.T) {
	const ns = "n/4"
	r := newReplicas(t)
	keys := keysOf(4)
	same, other := keys[1], keys[2][0]
	do := func(want Code, ops ...Op) Outcome {
		t.Helper()
		out, err := r.one(ns, ops...)
		if code(err) != want {
			t.Fatalf("%+v: %v, want %v", ops, err, want)
		}
		return out
	}
	create := Op{Kind: CreateTable, Table: "t"}
	do(NoTable, putRow(other, "1"))
	do(0, create)
	do(Exists, create)
	do(0, Op{Kind: CreateTable, Table: "u", Definition: &Definition{Columns: []string{"to"}, RefersTo: "t"}})
	do(0, putRow(same[0], "1"), putRow(same[1], "2"), Op{Kind: Put, Table: "u", Key: same[2], Columns: columns("to", same[1])})
	do(0, Op{Kind: Put, Table: "u", Key: same[3], Columns: columns("to", other)})
	do(0, putRow(other, "3"))
	if _, err := r.one(ns, putRow(same[0], "9"), putRow(other, "9")); code(err) != SeveralBuckets || err.Op != 1 ||
		!strings.Contains(err.Message, same[0]) || !strings.Contains(err.Message, other) {
		t.Errorf("a transaction of two buckets: %v", err)
	}
	if got := do(0, Op{Kind: Get, Table: "t", Key: same[0]}).Results[0].Row; string(got.Columns[0].Value) != "1" {
		t.Errorf("after a transaction that was refused: %+v", got)
	}
	if got := do(0, Op{Kind: Resolve, Table: "u", Key: same[2]}).Results[0].Row; got.Key != same[1] {
		t.Errorf("resolved to %+v", got)
	}
	do(SeveralBuckets, Op{Kind: Resolve, Table: "u", Key: same[3]})
	do(SeveralBuckets, Op{Kind: List, Table: "t"}, Op{Kind: Get, Table: "t", Key: other})
	do(SeveralBuckets, Op{Kind: ListTables}, Op{Kind: Get, Table: "t", Key: other})
	do(Invalid, Op{Kind: adopt, Table: "t"})
	do(Invalid, Op{Kind: join, Delta: 3})
	if got := do(0, Op{Kind: ListTables}).Results[0].Tables; len(got) != 2 {
		t.Errorf("the tables are %+v", got)
	}
	upload := Op{Kind: Upload, Component: "c",
		Source: "def run(args): return store.get('t', args['key'])['value']"}
	do(0, upload)
	run := func(at, key string) Op {
		return Op{Kind: Run, Component: "c", Key: at, Columns: columns("key", key)}
	}
	do(Invalid, run("", other))
	do(SeveralBuckets, run(same[5], other))
	if got := do(0, run(keys[2][7], other)).Results[0].Row; string(got.Columns[0].Value) != "3" {
		t.Errorf("the component returns %+v", got)
	}
	do(0, Op{Kind: RemoveComponent, Component: "c"})
	do(NotFound, run(same[5], same[0]))
	do(NotFound, Op{Kind: RemoveComponent, Component: "c"})
	do(Conflict, Op{Kind: DropTable, Table: "t"})
	do(0, putRow(other, "4"))
	do(0, Op{Kind: Delete, Table: "t", Key: same[0]}, Op{Kind: Delete, Table: "t", Key: same[1]})
	do(0, Op{Kind: Delete, Table: "t", Key: other})
	do(0, Op{Kind: DropTable, Table: "t"})
	do(NoTable, Op{Kind: DropTable, Table: "t"})
	// Transactions of one request, in order in each bucket, after the table is in all of them.
	all := r.split(Request{Namespace: ns, Transactions: [][]Op{{create}, {putRow(same[0], "1")}, {putRow(other, "2")},
		{{Kind: Add, Table: "t", Key: same[0], Delta: 4}}, {{Kind: List, Table: "t"}},
		{{Kind: OpenSession}}, {{Kind: OpenSession}}}}, nil)
	for i, want := range []Code{0, 0, 0, 0, 0, 0, Invalid} {
		if code(all.Outcomes[i].Error) != want {
			t.Errorf("transaction %d of a request: %v, want %v", i, all.Outcomes[i].Error, want)
		}
	}
	if list := all.Outcomes[4].Results[0].Rows; len(list) != 2 || all.Outcomes[3].Results[0].Value != 5 {
		t.Errorf("in one request: %+v", all.Outcomes)
	}
	all = r.split(Request{Namespace: ns, Transactions: [][]Op{{{Kind: DropTable, Table: "t"}}, {putRow(other, "3")}}}, nil)
	if code(all.Outcomes[0].Error) != SeveralBuckets || all.Outcomes[1].Error != nil {
		t.Errorf("drop_table beside others: %+v", all)
	}
	r.rows()
	if out := r.call(asked{Ops: []Op{{Kind: adopt, Table: "t"}}}.of("plain")); code(out.Outcomes[0].Error) != Invalid {
		t.Errorf("another namespace adopts: %+v", out)
	}
	if _, err := NewSplit(Request{Namespace: ns}); code(err) != Invalid {
		t.Errorf("a request without transactions: %v", err)
	}
}

// Property: pages of a list are those of the sorted list of all rows.
func TestBucketList(t *testing.T) {
	r := newReplicas(t)
	const ns = "n/5"
	r.one(ns, Op{Kind: CreateTable, Table: "t"})
	var keys []string
	for i := range 120 {
		keys = append(keys, fmt.Sprint(i))
		if _, err := r.one(ns, putRow(keys[i], "v")); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	rapid.Check(t, func(rt *rapid.T) {
		o := Op{Kind: List, Table: "t", Limit: rapid.IntRange(0, 130).Draw(rt, "limit"),
			Prefix: rapid.SampledFrom([]string{"", "1", "11", "x"}).Draw(rt, "prefix"),
			Start:  rapid.SampledFrom([]string{"", "1", "55", "z"}).Draw(rt, "start"),
			End:    rapid.SampledFrom([]string{"", "2", "77", "z"}).Draw(rt, "end")}
		var want, got []string
		for _, k := range keys {
			if strings.HasPrefix(k, o.Prefix) && k >= o.Start && (o.End == "" || k < o.End) {
				want = append(want, k)
			}
		}
		for pages := 0; ; pages++ {
			out, err := r.one(ns, o)
			if err != nil || len(out.Revisions) != 5 || o.Limit > 0 && len(out.Results[0].Rows) > o.Limit || pages > 130 {
				rt.Fatalf("page %d of %+v: %+v, %v", pages, o, out, err)
			}
			for _, row := range out.Results[0].Rows {
				got = append(got, row.Key)
			}
			if o.Start = out.Results[0].Next; o.Start == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("listed %q, want %q", got, want)
		}
	})
}

// What ends half-way is completed by the next attempt, and then refused as ever. Buckets end with the definitions that
// bucket 0 has.
func TestBucketsHalfWay(t *testing.T) {
	const ns = "n/8"
	loses := func(p Part) bool { return p.Request.Transactions[0][0].Kind == adopt && p.Request.Namespace > ns+"/3" }
	definition := &Definition{Columns: []string{"a", "b"}}
	source := "def run(args): return 1"
	for _, step := range []struct {
		op    Op
		again Code // of a third time
	}{
		{Op{Kind: CreateTable, Table: "t", Definition: definition}, Exists},
		{Op{Kind: Upload, Component: "c", Source: source}, 0},
		{Op{Kind: Upload, Component: "c", Source: source + "1"}, 0},
		{Op{Kind: Upload, Component: "c", Source: source, Condition: version(0)}, Conflict},
		{Op{Kind: RemoveComponent, Component: "c"}, NotFound},
		{Op{Kind: DropTable, Table: "t"}, NoTable},
	} {
		for fate := 1; fate <= 2; fate++ {
			r := newReplicas(t)
			for _, before := range []Op{{Kind: CreateTable, Table: "t", Definition: definition},
				{Kind: Upload, Component: "c", Source: source}} {
				if before.Kind != step.op.Kind {
					r.one(ns, before)
				}
			}
			q := Request{Namespace: ns, Transactions: [][]Op{{step.op}}}
			half := r.split(q, func(p Part) int {
				if loses(p) {
					return fate
				}
				return 0
			})
			if code(half.Error) != Unknown {
				t.Fatalf("%s, half-way: %+v", step.op.Kind, half)
			}
			if fate == 2 { // all buckets have it
				if out, err := r.one(ns, step.op); code(err) != step.again {
					t.Errorf("%s, after the answers were lost: %+v, %v", step.op.Kind, out, err)
				}
				continue
			}
			if out, err := r.one(ns, step.op); err != nil || out.Results[0].Version == 0 {
				t.Errorf("%s, again: %+v, %v", step.op.Kind, out, err)
			}
			if _, err := r.one(ns, step.op); code(err) != step.again {
				t.Errorf("%s, a third time: %v", step.op.Kind, err)
			}
			if differs := r.differs(ns); differs != "" {
				t.Errorf("%s: %s", step.op.Kind, differs)
			}
		}
	}
}

// differs says which bucket does not have the tables and components that bucket 0 has.
func (r *replicas) differs(ns string) string {
	r.t.Helper()
	var first [2]string
	for i := range Buckets(ns) {
		var has [2]string
		for k, kind := range []Kind{ListTables, ListComponents} {
			out := r.callBucket(&Request{Namespace: BucketName(ns, i), Transactions: [][]Op{{{Kind: kind}}}})
			res := out.Outcomes[0].Results[0]
			for name, table := range res.Tables {
				table.Version = 0
				res.Tables[name] = table
			}
			for name, c := range res.Components {
				c.Version = 0
				res.Components[name] = c
			}
			has[k] = fmt.Sprint(res.Tables, res.Components)
		}
		if i == 0 {
			first = has
		} else if has != first {
			return fmt.Sprintf("bucket %d has %v, and bucket 0 %v", i, has, first)
		}
	}
	return ""
}

// A request may change as many tables and components as it has room for.
func TestManyInBuckets(t *testing.T) {
	const ns, each = "n/3", 20
	r := newReplicas(t)
	q := Request{Namespace: ns}
	for i := range each {
		q.Transactions = append(q.Transactions, []Op{{Kind: CreateTable, Table: fmt.Sprint("t", i)}},
			[]Op{upload(fmt.Sprint("c", i), "def run(args): return 1")})
	}
	out := r.split(q, nil)
	if out.Error != nil {
		t.Fatal(out.Error)
	}
	for i := range out.Outcomes {
		if err := out.Outcomes[i].Error; err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
	if differs := r.differs(ns); differs != "" {
		t.Error(differs)
	}
}

// Property: whatever several controllers do at the same time, all buckets have the same tables and components in the
// end. If some of them die, that is so after everything was asked once more.
func TestBucketsAlike(t *testing.T) {
	const ns = "n/3"
	ops := []Op{{Kind: CreateTable, Table: "t"}, {Kind: DropTable, Table: "t"}, {Kind: RemoveComponent, Component: "c"},
		{Kind: CreateTable, Table: "t", Definition: &Definition{Columns: []string{"a"}}},
		{Kind: Upload, Component: "c", Source: "def run(args): return 1"},
		{Kind: Upload, Component: "c", Source: "def run(args): return 2"}}
	rapid.Check(t, func(rt *rapid.T) {
		r := newReplicas(t)
		deaths, died := rapid.Bool().Draw(rt, "deaths"), false
		var running []*Split
		var waiting [][]Part
		for range rapid.IntRange(2, 5).Draw(rt, "requests") {
			s, err := NewSplit(Request{Namespace: ns, Transactions: [][]Op{{rapid.SampledFrom(ops).Draw(rt, "op")}}})
			if err != nil {
				rt.Fatal(err)
			}
			running, waiting = append(running, s), append(waiting, s.Next())
		}
		for len(running) > 0 {
			i := rapid.IntRange(0, len(running)-1).Draw(rt, "request")
			dies := deaths && rapid.IntRange(0, 9).Draw(rt, "dies") == 0
			if died = died || dies; dies || len(waiting[i]) == 0 {
				running, waiting = slices.Delete(running, i, i+1), slices.Delete(waiting, i, i+1)
				continue
			}
			n := rapid.IntRange(0, len(waiting[i])-1).Draw(rt, "part")
			p := waiting[i][n]
			waiting[i] = slices.Delete(slices.Clone(waiting[i]), n, n+1)
			running[i].Answer(p, r.callBucket(&p.Request))
			if len(waiting[i]) == 0 {
				waiting[i] = running[i].Next()
			}
		}
		for _, o := range ops {
			if !died {
				break
			}
			if out := r.split(Request{Namespace: ns, Transactions: [][]Op{{o}}}, nil); out.Error != nil {
				rt.Fatalf("%s: %v", o.Kind, out.Error)
			}
		}
		if differs := r.differs(ns); differs != "" {
			rt.Fatal(differs)
		}
	})
}

// Each bucket executes the transactions of a request with a session once, however often the request comes, and
// whichever parts or answers are lost.
func TestBucketsOnce(t *testing.T) {
	const ns, requests = "n/6", 40
	r := newReplicas(t)
	r.one(ns, Op{Kind: CreateTable, Table: "t"})
	opened, err := r.one(ns, Op{Kind: OpenSession})
	if err != nil {
		t.Fatal(err)
	}
	session, random := opened.Results[0].Session, rand.New(rand.NewPCG(1, 2))
	sums := map[string]int64{}
	for seq := uint64(1); seq <= requests; seq++ {
		q := Request{Namespace: ns, Session: session, Seq: seq, Acked: seq - 1}
		for range 1 + random.IntN(8) {
			q.Transactions = append(q.Transactions, []Op{{Kind: Add, Table: "t", Key: fmt.Sprint(random.IntN(20)), Delta: 1}})
		}
		out := Response{Error: Fail(Unknown, "it is not sent")}
		for out.Error != nil {
			if out.Error.Code != Unknown && out.Error.Code != Unavailable {
				t.Fatal(out.Error)
			}
			out = r.split(q, func(Part) int { return max(0, random.IntN(6)-3) })
		}
		for i, ops := range q.Transactions {
			sums[ops[0].Key]++
			if got := out.Outcomes[i].Results[0].Value; got != sums[ops[0].Key] {
				t.Fatalf("the counter %s is %d after %d additions", ops[0].Key, got, sums[ops[0].Key])
			}
		}
		if seq%10 == 0 {
			r.fail()
		}
	}
	if out := r.split(Request{Namespace: ns, Session: session, Seq: requests + 1,
		Transactions: [][]Op{{{Kind: CloseSession}}}}, nil); out.Error != nil || out.Outcomes[0].Error != nil {
		t.Errorf("close: %+v", out)
	}
	if out := r.split(Request{Namespace: ns, Session: session, Seq: requests + 2,
		Transactions: [][]Op{{putRow("a", "1")}, {putRow("b", "1")}}}, nil); code(out.Error) != Expired {
		t.Errorf("after its end: %+v", out)
	}
	r.rows()
}

// A copy of a drop_table that comes late does what its client was told.
func TestLateDrop(t *testing.T) {
	const ns = "n/4"
	r := newReplicas(t)
	opened, _ := r.one(ns, Op{Kind: OpenSession})
	key := keysOf(4)[2][0]
	q := Request{Namespace: ns, Session: opened.Results[0].Session, Transactions: [][]Op{{{Kind: DropTable, Table: "t"}}}}
	there := func(want Code) {
		t.Helper()
		if _, err := r.one(ns, putRow(key, "1")); code(err) != want {
			t.Errorf("seq %d, a write after it: %v, want %v", q.Seq, err, want)
		}
	}
	for _, want := range []Code{Conflict, 0} {
		q.Seq, q.Acked = q.Seq+1, q.Seq
		r.one(ns, Op{Kind: CreateTable, Table: "t"})
		if want == Conflict {
			there(0)
		}
		if out := r.split(q, nil); out.Error != nil || code(out.Outcomes[0].Error) != want {
			t.Errorf("drop_table: %+v, want %v", out, want)
		}
		r.one(ns, Op{Kind: CreateTable, Table: "t"})
		if there(0); want == Conflict {
			r.one(ns, Op{Kind: Delete, Table: "t", Key: key})
			if out := r.split(q, nil); out.Error != nil || code(out.Outcomes[0].Error) != want {
				t.Errorf("a late copy of drop_table: %+v, want %v", out, want)
			}
			there(0)
			r.one(ns, Op{Kind: Delete, Table: "t", Key: key})
		} else if out := r.split(q, nil); out.Error != nil || out.Outcomes[0].Error != nil {
			t.Errorf("a late copy of drop_table: %+v", out)
		} else {
			there(0) // it is another table of this name
		}
	}
}

// Attempts to open a session that not all buckets answer leave none in the others.
func TestSessionHalfWay(t *testing.T) {
	const ns = "n/4"
	r := newReplicas(t)
	q := Request{Namespace: ns, Transactions: [][]Op{{{Kind: OpenSession}}}}
	for range MaxSessions + 1 {
		out := r.split(q, func(p Part) int {
			if p.Request.Namespace == ns+"/3" {
				return 1
			}
			return 0
		})
		if code(out.Error) != Unknown {
			t.Fatalf("a bucket has not answered: %+v", out)
		}
	}
	for range MaxSessions { // and one that is full refuses all
		if out := r.callBucket(&Request{Namespace: ns + "/2", Transactions: [][]Op{{{Kind: OpenSession}}}}); out.Error != nil ||
			out.Outcomes[0].Error != nil {
			t.Fatal(out)
		}
	}
	for range MaxSessions + 1 {
		if _, err := r.one(ns, Op{Kind: OpenSession}); code(err) != TooLarge || !strings.Contains(err.Message, ns+"/2") {
			t.Fatal(err)
		}
	}
}

// A bucket to which a session writes nothing forgets it. Then only the transactions of that bucket are refused.
func TestBucketForgetsSession(t *testing.T) {
	const ns = "n/2"
	r := newReplicas(t)
	keys := keysOf(2)
	r.one(ns, Op{Kind: CreateTable, Table: "t"})
	opened, _ := r.one(ns, Op{Kind: OpenSession})
	q := Request{Namespace: ns, Session: opened.Results[0].Session}
	ask := func(transactions ...[]Op) Response {
		q.Seq++
		q.Transactions = transactions
		return r.split(q, nil)
	}
	for range 5 {
		if out := ask([]Op{putRow(keys[1][0], "1")}); out.Error != nil {
			t.Fatal(out.Error)
		}
		r.pass(SessionTime / 2)
	}
	out := ask([]Op{putRow(keys[0][0], "1")}, []Op{putRow(keys[1][0], "2")})
	if out.Error != nil || code(out.Outcomes[0].Error) != Expired || out.Outcomes[1].Error != nil {
		t.Errorf("one bucket has forgotten the session: %+v", out)
	}
	if out := ask([]Op{putRow(keys[0][0], "1")}); code(out.Error) != Expired {
		t.Errorf("the only bucket has forgotten the session: %+v", out)
	}
	r.pass(3 * time.Minute)
	if rows := r.rows(); slices.ContainsFunc(rows, func(row ledger.Row) bool { return row.Table == sessionTable }) {
		t.Error("sessions are left")
	}
}

// A response has room for what a request reads.
func TestBucketsRead(t *testing.T) {
	const ns, rows = "n/16", 16
	r := newReplicas(t)
	r.one(ns, Op{Kind: CreateTable, Table: "t"})
	q := Request{Namespace: ns}
	for i, keys := range keysOf(rows) {
		if _, err := r.one(ns, putRow(keys[0], strings.Repeat("v", MaxValue))); err != nil {
			t.Fatal(i, err)
		}
		q.Transactions = append(q.Transactions, []Op{{Kind: Get, Table: "t", Key: keys[0]}})
	}
	read := 0
	for _, out := range r.split(q, nil).Outcomes {
		switch {
		case out.Error == nil:
			read += out.Results[0].Row.size()
		case out.Error.Code != TooLarge:
			t.Error(out.Error)
		}
	}
	if read > MaxReply || read < MaxReply/2 {
		t.Errorf("%d bytes were read at once, want up to %d", read, MaxReply)
	}
	if out, err := r.one(ns, Op{Kind: List, Table: "t"}); err != nil || out.Results[0].Next == "" {
		t.Errorf("a list of more than a response has room for: %v", err)
	}
	old := Request{Namespace: ns, MaxAge: 7, Transactions: q.Transactions[:2]}
	s, err := NewSplit(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Next() {
		call := NewCall(&p.Request)
		b, ok := r.follower.Read(call.Actor, call.Message)
		var out Response
		if r.check(out.Decode(b)); !ok || p.Request.MaxAge != 7 || out.Outcomes[0].Results[0].Row == nil {
			t.Errorf("a part of a read that may be old is %+v, and the answer of a follower %+v", p.Request, out)
		}
	}
}
