package store

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Clients of other languages compute the bucket of a key too, so these values stay.
func TestBucket(t *testing.T) {
	for _, c := range []struct {
		key                     string
		of2, of16, of255, of256 int
	}{
		{"", 0, 6, 227, 38},
		{"a", 1, 11, 185, 91},
		{"b", 0, 0, 244, 208},
		{"10.0.0.1", 0, 8, 195, 136},
		{"00:00:00:00:00:01", 0, 12, 77, 220},
		{"é/ü", 1, 9, 31, 121},
		{strings.Repeat("k", MaxKey), 0, 2, 216, 66},
	} {
		got := [...]int{Bucket(c.key, 2), Bucket(c.key, 16), Bucket(c.key, 255), Bucket(c.key, 256)}
		if got != [...]int{c.of2, c.of16, c.of255, c.of256} {
			t.Errorf("key %q is in the buckets %v", c.key, got)
		}
	}
	counts := make([]int, 16)
	for i := range 16_000 {
		counts[Bucket(fmt.Sprintf("10.0.%d.%d", i/250, i%250), 16)]++
	}
	if slices.Min(counts) < 850 || slices.Max(counts) > 1150 {
		t.Errorf("of 16,000 keys the buckets have %v", counts)
	}
}

func TestBucketNames(t *testing.T) {
	long := strings.Repeat("n", 128)
	for name, want := range map[string]int{"flows/16": 16, "a.b:c-d/2": 2, long + "/256": 256, "flows": 0, "flows/1": 0,
		"flows/257": 0, "flows/016": 0, "flows/+16": 0, "flows/": 0, "/16": 0, "flows/16/3": 0, "flows/x": 0, "flows:16": 0,
		long + "n/16": 0, "flows/16/": 0} {
		if got := Buckets(name); got != want {
			t.Errorf("namespace %s has %d buckets, want %d", name, got, want)
		}
		if legal := CheckNamespace(name) == nil; legal != (want > 0 || isName(name)) {
			t.Errorf("a client can name %s: %v", name, legal)
		}
	}
	for i := range 16 {
		if ns, bucket, of := parseBucket(BucketName("flows/16", i)); ns != "flows/16" || bucket != i || of != 16 {
			t.Errorf("bucket %d is number %d of %d of %s", i, bucket, of, ns)
		}
	}
	for _, name := range []string{"flows/16", "flows/16/16", "flows/16/03", "flows/1/0", "flows", "x/flows/16/1"} {
		if _, _, of := parseBucket(name); of != 0 {
			t.Errorf("%s is a bucket of %d", name, of)
		}
	}
}

// The buckets of a namespace begin in all groups evenly.
func TestPlace(t *testing.T) {
	in := map[uint64]int{}
	for i := range 16 {
		in[New().Place(ActorOf(BucketName("flows/16", i)).Shard, []uint64{7, 2, 5, 9})]++
	}
	if want := map[uint64]int{2: 4, 5: 4, 7: 4, 9: 4}; !reflect.DeepEqual(in, want) {
		t.Errorf("groups have %v buckets, want %v", in, want)
	}
	if g := New().Place(ActorOf("flows").Shard, []uint64{7, 2}); g != 0 {
		t.Errorf("a namespace without buckets begins in group %d", g)
	}
}

// Property: outcome i is that of transaction i, each transaction with a key goes to the bucket of its keys and to no
// other, in order, and one with keys of several buckets goes nowhere.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		of := rapid.IntRange(2, 9).Draw(rt, "buckets")
		r := Request{ID: 9, Namespace: fmt.Sprint("n/", of), Session: 3, Seq: 5, Acked: 4, Client: "c"}
		for i := range rapid.IntRange(1, 12).Draw(rt, "transactions") {
			var ops []Op
			for range rapid.IntRange(1, 3).Draw(rt, "ops") {
				key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key")
				ops = append(ops, putRow(key, fmt.Sprint(i)))
			}
			r.Transactions = append(r.Transactions, ops)
		}
		s, err := NewSplit(r)
		if err != nil {
			rt.Fatal(err)
		}
		seen := map[string]int{} // in which bucket the transaction with a value was
		for parts := s.Next(); len(parts) > 0; parts = s.Next() {
			for _, p := range parts {
				_, bucket, _ := parseBucket(p.Request.Namespace)
				answer, last := Response{}, -1
				for _, ops := range p.Request.Transactions {
					i := 0
					fmt.Sscan(string(ops[0].Columns[0].Value), &i)
					if !reflect.DeepEqual(ops, r.Transactions[i]) || i <= last {
						rt.Fatalf("bucket %d is asked %+v after transaction %d", bucket, ops, last)
					}
					if _, twice := seen[fmt.Sprint(i)]; twice {
						rt.Fatalf("transaction %d goes to two buckets", i)
					}
					last, seen[fmt.Sprint(i)] = i, bucket
					answer.Outcomes = append(answer.Outcomes, Outcome{Revision: uint64(i) + 100,
						Results: make([]Result, len(ops))})
				}
				if p.Request.Session != 3 || p.Request.Seq != 5 || p.Request.Acked != 4 || p.Request.Client != "c" {
					rt.Fatalf("a part is %+v", p.Request)
				}
				s.Answer(p, answer)
			}
		}
		out := s.Response()
		if out.ID != 9 || out.Error != nil || len(out.Outcomes) != len(r.Transactions) {
			rt.Fatalf("the response is %+v", out)
		}
		for i, ops := range r.Transactions {
			bucket, one := Bucket(ops[0].Key, of), true
			for _, o := range ops {
				one = one && Bucket(o.Key, of) == bucket
			}
			at, executed := seen[fmt.Sprint(i)]
			got := out.Outcomes[i]
			switch {
			case one && (!executed || at != bucket || got.Revision != uint64(i)+100):
				rt.Fatalf("transaction %d of bucket %d was executed in %d: %v, %+v", i, bucket, at, executed, got)
			case !one && (executed || got.Error == nil || got.Error.Code != SeveralBuckets):
				rt.Fatalf("transaction %d has keys of several buckets: %v, %+v", i, executed, got)
			}
		}
	})
}

// To find one table or component, a Split does not read those after it.
func TestSplitReadsOne(t *testing.T) {
	r := newReplicas(t)
	for i := range 5 {
		r.must("n", Op{Kind: CreateTable, Table: fmt.Sprint("t", i)}, upload(fmt.Sprint("c", i), "def run(args): return 1"))
	}
	s, err := NewSplit(Request{Namespace: "n/2", Transactions: [][]Op{{{Kind: CreateTable, Table: "t1"}},
		{{Kind: RemoveComponent, Component: "c1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Answer(s.Next()[0], Response{Outcomes: []Outcome{{Results: []Result{{}}}, {Results: []Result{{}}}}})
	look := s.Next()[0].Request.Transactions[0][0]
	s.outcomes[0].Error = Fail(Invalid, "this one is done")
	component := s.spread(1)[0].Request.Transactions[0][0]
	tables, components := r.must("n", look)[0], r.must("n", component)[0]
	if len(tables.Tables) != 1 || tables.Tables["t1"].Version == 0 || tables.Next != "t2" ||
		len(components.Components) != 1 || components.Components["c1"].Version == 0 || components.Next != "c2" {
		t.Errorf("it reads %+v and %+v", tables, components)
	}
}

// How refusals of parts become one response.
func TestSplitRefused(t *testing.T) {
	ok := Response{Outcomes: []Outcome{{Results: []Result{{Version: 1}}}}}
	refused := func(c Code) Response { return Response{Error: Fail(c, "no")} }
	for _, c := range []struct {
		answers  [2]Response
		whole    Code // of the response
		outcomes [2]Code
	}{
		{[2]Response{ok, ok}, 0, [2]Code{}},
		{[2]Response{ok, refused(Unavailable)}, Unknown, [2]Code{}},
		{[2]Response{refused(Unavailable), refused(Unavailable)}, Unavailable, [2]Code{}},
		{[2]Response{refused(Unknown), refused(Unavailable)}, Unknown, [2]Code{}},
		{[2]Response{refused(Unavailable), refused(Unknown)}, Unknown, [2]Code{}},
		{[2]Response{refused(Expired), refused(Expired)}, Expired, [2]Code{}},
		{[2]Response{refused(Expired), refused(Outdated)}, 0, [2]Code{Expired, Outdated}},
		{[2]Response{refused(Expired), ok}, 0, [2]Code{Expired, 0}},
		{[2]Response{ok, {}}, 0, [2]Code{0, Failed}},
		{[2]Response{ok, {Outcomes: []Outcome{{}}}}, 0, [2]Code{0, Failed}},
		{[2]Response{ok, {Outcomes: []Outcome{{Results: []Result{{}}}, {}}}}, 0, [2]Code{0, Failed}},
	} {
		keys := keysOf(2)
		s, err := NewSplit(Request{Namespace: "n/2", Transactions: [][]Op{{putRow(keys[0][0], "")}, {putRow(keys[1][0], "")}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range s.Next() {
			s.Answer(p, c.answers[i])
		}
		out := s.Response()
		if len(s.Next()) > 0 || code(out.Error) != c.whole {
			t.Errorf("%+v: %v, want %v", c.answers, out.Error, c.whole)
		}
		for i := range out.Outcomes {
			if got := code(out.Outcomes[i].Error); got != c.outcomes[i] {
				t.Errorf("%+v: outcome %d is %v, want %v", c.answers, i, got, c.outcomes[i])
			}
		}
	}
}

// Property: merged pages of disjoint lists are a page of the sorted list of all.
func TestMergePages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringN(1, 3, 6), rapid.ID).Draw(rt, "keys")
		slices.Sort(keys)
		of := rapid.IntRange(1, 5).Draw(rt, "lists")
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		lists, nexts := make([][]Row, of), make([]string, of)
		for _, k := range keys {
			i := rapid.IntRange(0, of-1).Draw(rt, "list")
			if len(lists[i]) < limit {
				lists[i] = append(lists[i], Row{Key: k})
			} else {
				nexts[i] = cmp.Or(nexts[i], k)
			}
		}
		var rows []Row
		next := ""
		for i := range of {
			rows, next = mergePages(rows, next, lists[i], nexts[i], limit)
		}
		want := keys[:min(limit, len(keys))]
		var got []string
		for _, row := range rows {
			got = append(got, row.Key)
		}
		wantNext := ""
		if len(keys) > limit {
			wantNext = keys[limit]
		}
		if !slices.Equal(got, want) || next != wantNext {
			rt.Fatalf("merged to %q and then %q, want %q and then %q", got, next, want, wantNext)
		}
	})
}
