package store

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func columns(pairs ...string) (c Columns) {
	for i := 0; i < len(pairs); i += 2 {
		c = append(c, Column{pairs[i], []byte(pairs[i+1])})
	}
	return c
}

func version(v uint64) *Condition { return &Condition{Version: &v} }

// Section IV-A to IV-C: rows with versions, conditions, columns, and references to rows of another table.
func TestRows(t *testing.T) {
	r := newReplicas(t)
	r.must("net", Op{Kind: CreateTable, Table: "devices", Definition: &Definition{Columns: []string{"port", "seen"}}},
		Op{Kind: CreateTable, Table: "addresses", Definition: &Definition{Columns: []string{"since", "mac"},
			RefersTo: "devices", Through: "mac"}})
	made := r.must("net", Op{Kind: Create, Table: "devices", Key: "m1", Columns: columns("port", "7", "seen", "today")},
		Op{Kind: Put, Table: "addresses", Key: "10.0.0.1", Columns: columns("mac", "m1")},
		Op{Kind: Resolve, Table: "addresses", Key: "10.0.0.1", Only: []string{"port"}})
	if got := *made[2].Row; got.Key != "m1" || !reflect.DeepEqual(got.Columns, columns("port", "7")) ||
		got.Version != made[0].Version {
		t.Errorf("resolved to %+v", got)
	}
	v := made[0].Version
	wrote := r.must("net", Op{Kind: Update, Table: "devices", Key: "m1", Condition: version(v), Columns: columns("port", "8")},
		Op{Kind: Get, Table: "devices", Key: "m1"})
	if got := *wrote[1].Row; got.Version <= v || !reflect.DeepEqual(got.Columns, columns("port", "8", "seen", "today")) {
		t.Errorf("after the update: %+v", got)
	}
	if _, err := r.do("net", asked{Ops: []Op{{Kind: Update, Table: "devices", Key: "m1", Condition: version(v),
		Columns: columns("port", "9")}}}); err == nil || err.Code != Conflict {
		t.Errorf("update of an old version: %v", err)
	}
	gone := r.must("net", Op{Kind: Delete, Table: "devices", Key: "m1",
		Condition: &Condition{Columns: columns("seen", "today")}})[0].Version
	if again := r.must("net", Op{Kind: Put, Table: "devices", Key: "m1", Condition: version(0),
		Columns: columns("port", "1")})[0].Version; again <= gone {
		t.Errorf("a row that is made again has version %d, which is not after %d", again, gone)
	}
	// Namespaces are apart.
	if _, err := r.do("other", asked{Ops: []Op{{Kind: Get, Table: "devices", Key: "m1"}}}); err == nil ||
		err.Code != NoTable {
		t.Errorf("in another namespace: %v", err)
	}
	r.fail()
	if got := r.must("net", Op{Kind: Get, Table: "devices", Key: "m1"})[0].Row; !reflect.DeepEqual(got.Columns,
		columns("port", "1")) {
		t.Errorf("after a failover: %+v", got)
	}
}

func TestList(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	var want []string
	for i := range 250 {
		key := fmt.Sprintf("%c%03d", 'a'+i%5, i)
		want = append(want, key)
		r.must("n", Op{Kind: Put, Table: "t", Key: key, Columns: columns("value", strings.Repeat("x", 5000))})
	}
	slices.Sort(want)
	list := func(o Op) (keys []string) {
		t.Helper()
		o.Kind, o.Table = List, "t"
		for {
			out := r.must("n", o)[0]
			for _, row := range out.Rows {
				keys = append(keys, row.Key)
			}
			if out.Next == "" {
				return keys
			}
			if len(out.Rows) == 0 || out.Next <= keys[len(keys)-1] {
				t.Fatalf("%+v: %d rows, next is %q", o, len(out.Rows), out.Next)
			}
			o.Start = out.Next
		}
	}
	for _, o := range []Op{{}, {Limit: 7}, {Limit: MaxPage}} { // without a limit, the size of an answer is one
		if got := list(o); !slices.Equal(got, want) {
			t.Errorf("%+v: %d rows, want %d", o, len(got), len(want))
		}
	}
	between := func(from, to string) []string {
		at := func(k string) int { i, _ := slices.BinarySearch(want, k); return i }
		return want[at(from):at(to)]
	}
	if got := list(Op{Prefix: "c", Limit: 3}); !slices.Equal(got, between("c", "d")) {
		t.Errorf("with a prefix: %v", got)
	}
	if got := list(Op{Start: "b1", End: "c1", Limit: 9}); !slices.Equal(got, between("b1", "c1")) {
		t.Errorf("in a range: %v", got)
	}
	if got := list(Op{Start: "x"}); len(got) > 0 {
		t.Errorf("after the last: %v", got)
	}
}

// Each kind of mistake has its error, and a request that has one changes nothing, with all of its ops.
func TestErrors(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t", Definition: &Definition{Columns: []string{"a", "b"}}},
		Op{Kind: CreateTable, Table: "refers", Definition: &Definition{Columns: []string{"to"}, RefersTo: "t"}},
		Op{Kind: CreateTable, Table: "astray", Definition: &Definition{Columns: []string{"to"}, RefersTo: "none"}},
		Op{Kind: Put, Table: "t", Key: "k", Columns: columns("a", "1")},
		Op{Kind: Put, Table: "t", Key: "max", Columns: columns("a", fmt.Sprint(int64(math.MaxInt64)), "b", "text")},
		Op{Kind: Put, Table: "refers", Key: "k", Columns: columns("to", "nobody")},
		Op{Kind: Put, Table: "astray", Key: "k", Columns: columns("to", "nobody")})
	before := r.leader.Counters().Transactions
	all := func() []Result {
		return slices.Concat(r.must("n", Op{Kind: List, Table: "t"}), r.must("n", Op{Kind: List, Table: "refers"}),
			r.must("n", Op{Kind: ListTables}))
	}
	state := all()
	big := Columns{{"a", make([]byte, MaxValue+1)}}
	for _, c := range []struct {
		code Code
		op   Op
	}{
		{Invalid, Op{Kind: 99, Table: "t", Key: "k"}},
		{Invalid, Op{Kind: Get, Table: "no table", Key: "k"}},
		{Invalid, Op{Kind: Get, Table: "t"}},
		{Invalid, Op{Kind: Get, Table: "t", Key: strings.Repeat("k", MaxKey+1)}},
		{Invalid, Op{Kind: Get, Table: "t", Key: "k", Columns: columns("a", "1")}},
		{Invalid, Op{Kind: Get, Table: "t", Key: "k", Condition: version(1)}},
		{Invalid, Op{Kind: Get, Table: "t", Key: "k", Limit: 1}},
		{Invalid, Op{Kind: Get, Table: "t", Key: "k", Delta: 1}},
		{Invalid, Op{Kind: Put, Table: "t", Key: "k"}},
		{Invalid, Op{Kind: Put, Table: "t", Key: "k", Columns: columns("a", "1"), Only: []string{"a"}}},
		{Invalid, Op{Kind: List, Table: "t", Key: "k"}},
		{Invalid, Op{Kind: List, Table: "t", Limit: MaxPage + 1}},
		{Invalid, Op{Kind: Delete, Table: "t", Key: "k", Definition: &Definition{}}},
		{Invalid, Op{Kind: CreateTable, Table: "u", Definition: &Definition{}}},
		{Invalid, Op{Kind: CreateTable, Table: "u", Definition: &Definition{Columns: []string{"a", "a"}}}},
		{Invalid, Op{Kind: CreateTable, Table: "u", Definition: &Definition{Columns: []string{""}}}},
		{Invalid, Op{Kind: CreateTable, Table: "u", Definition: &Definition{Columns: []string{"a"}, Through: "a"}}},
		{Invalid, Op{Kind: CreateTable, Table: "u", Definition: &Definition{Columns: []string{"a"}, RefersTo: "/"}}},
		{Invalid, Op{Kind: Resolve, Table: "t", Key: "k"}},
		{Invalid, Op{Kind: ListTables, Table: "t"}},
		{TooLarge, Op{Kind: Put, Table: "t", Key: "k", Columns: big}},
		{Invalid, Op{Kind: Get, Table: "t", Key: "k", Only: slices.Repeat([]string{"a"}, MaxColumns+1)}},
		{NoTable, Op{Kind: Get, Table: "none", Key: "k"}},
		{NoTable, Op{Kind: Resolve, Table: "astray", Key: "k"}},
		{NoTable, Op{Kind: DropTable, Table: "none"}},
		{NoColumn, Op{Kind: Get, Table: "t", Key: "k", Only: []string{"c"}}},
		{NoColumn, Op{Kind: Put, Table: "t", Key: "k", Columns: columns("c", "1")}},
		{NoColumn, Op{Kind: Add, Table: "t", Key: "k", Delta: 1}},
		{NotFound, Op{Kind: Get, Table: "t", Key: "none"}},
		{NotFound, Op{Kind: Update, Table: "t", Key: "none", Columns: columns("a", "1")}},
		{NotFound, Op{Kind: Delete, Table: "t", Key: "none"}},
		{NotFound, Op{Kind: Resolve, Table: "refers", Key: "none"}},
		{NotFound, Op{Kind: Resolve, Table: "refers", Key: "k"}},
		{Exists, Op{Kind: Create, Table: "t", Key: "k", Columns: columns("a", "1")}},
		{Exists, Op{Kind: CreateTable, Table: "t"}},
		{Conflict, Op{Kind: Put, Table: "t", Key: "k", Columns: columns("a", "1"), Condition: version(0)}},
		{Conflict, Op{Kind: Delete, Table: "t", Key: "k", Condition: &Condition{Columns: columns("a", "2")}}},
		{Conflict, Op{Kind: Delete, Table: "t", Key: "k", Condition: &Condition{Columns: columns("b", "")}}},
		{Conflict, Op{Kind: Delete, Table: "t", Key: "k", Condition: &Condition{Columns: columns("a", "1", "a", "2")}}},
		{Conflict, Op{Kind: DropTable, Table: "t"}},
		{Invalid, Op{Kind: Get, Table: strings.Repeat("long", 1000), Key: "k"}},
		{WrongType, Op{Kind: Add, Table: "t", Key: "max", Column: "a", Delta: 1}},
		{WrongType, Op{Kind: Add, Table: "t", Key: "max", Column: "b", Delta: 1}},
	} {
		ops := []Op{{Kind: Put, Table: "t", Key: "first", Columns: columns("a", "1")},
			{Kind: CreateTable, Table: "new"}, c.op}
		if _, err := r.do("n", asked{Ops: ops}); err == nil || err.Code != c.code || err.Op != 2 || err.Message == "" ||
			len(err.Message) > maxMessage {
			t.Errorf("%+v: %+v, want %s", c.op, err, c.code)
		}
	}
	list := []Op{{Kind: ListTables}}
	for _, c := range []struct {
		code Code
		Request
	}{
		{Invalid, Request{}},
		{Invalid, Request{Transactions: [][]Op{{{Kind: CloseSession}}}}},
		{Invalid, Request{Transactions: [][]Op{list}, Session: 1}},
		{Invalid, Request{Transactions: [][]Op{list}, Session: 1, Seq: 2, Acked: 2}},
		{Expired, Request{Transactions: [][]Op{list}, Session: 99, Seq: 2, Acked: 1}},
		{Invalid, Request{Transactions: [][]Op{list, list}}},
		{Invalid, Request{Transactions: [][]Op{list, {}}}},
		{Invalid, Request{Transactions: [][]Op{{{Kind: OpenSession}}}, Session: 1, Seq: 1}},
		{Invalid, Request{Transactions: [][]Op{make([]Op, 200_000)}}},
		{Invalid, Request{Transactions: [][]Op{{{Kind: Put, Table: "t", Key: "k", Columns: make(Columns, 60_000)}}}}},
		{Invalid, Request{Transactions: [][]Op{slices.Repeat([]Op{{Kind: Get, Table: "t", Key: "k"}}, MaxOps+1)}}},
		{Invalid, Request{Transactions: slices.Repeat([][]Op{{{Kind: Get, Table: "t", Key: "k"}}}, MaxOps+1)}},
	} {
		c.Namespace, c.ID = "n", 3
		if out := r.call(c.Append(nil)); out.Error == nil || out.Error.Code != c.code || out.ID != 3 {
			t.Errorf("%+v: %+v", c, out)
		}
	}
	for _, more := range []string{"\x00", "\xff", "\x32\x7f", "\x32\x04\x0a\x02\x12\xff", "\x18"} {
		if out := r.call(append(asked{Ops: list}.of("n"), more...)); out.Error == nil || out.Error.Code != Invalid {
			t.Errorf("with %q at the end: %+v", more, out)
		}
	}
	if _, _, err := CallOf(asked{Ops: list}.of("no namespace")); err == nil {
		t.Error("a bad namespace")
	}
	if after := all(); !reflect.DeepEqual(after, state) {
		t.Errorf("requests with mistakes have changed %+v to %+v", state, after)
	}
	if r.leader.Counters().Failures > 0 || r.leader.Counters().Transactions == before {
		t.Errorf("%+v", r.leader.Counters())
	}
}

// Whatever a request reads or writes, the ledger has room for it, or it is refused.
func TestBounds(t *testing.T) {
	r := newReplicas(t)
	wide := &Definition{}
	for i := range MaxColumns {
		wide.Columns = append(wide.Columns, fmt.Sprintf("column%0100d", i))
	}
	for i := range 200 {
		r.must("n", Op{Kind: CreateTable, Table: fmt.Sprintf("wide%03d", i), Definition: wide})
	}
	tables, from := 0, ""
	for ok := true; ok; ok = from != "" {
		out := r.must("n", Op{Kind: ListTables, Start: from})[0]
		tables += len(out.Tables)
		from = out.Next
	}
	if tables != 200 {
		t.Errorf("%d tables are listed", tables)
	}
	// Rows of many small columns.
	r.must("m", Op{Kind: CreateTable, Table: "t", Definition: wide})
	var small Columns
	for _, c := range wide.Columns {
		small = append(small, Column{c, []byte("x")})
	}
	for i := range 300 {
		r.must("m", Op{Kind: Put, Table: "t", Key: fmt.Sprintf("%03d%s", i, strings.Repeat("&\x01", 250)), Columns: small})
	}
	rows := 0
	for ok := true; ok; ok = from != "" {
		out := r.must("m", Op{Kind: List, Table: "t", Start: from})[0]
		rows += len(out.Rows)
		from = out.Next
	}
	if rows != 300 {
		t.Errorf("%d rows are listed", rows)
	}
	large := Columns{{wide.Columns[0], make([]byte, MaxValue)}, {wide.Columns[1], []byte("0")}}
	r.must("m", Op{Kind: Put, Table: "t", Key: "k", Columns: large})
	add := Op{Kind: Add, Table: "t", Key: "k", Column: wide.Columns[1], Delta: 1}
	get := Op{Kind: Get, Table: "t", Key: "k"}
	for _, o := range []Op{add, get} {
		if _, err := r.do("m", asked{Ops: slices.Repeat([]Op{o}, MaxOps)}); err == nil || err.Code != TooLarge {
			t.Errorf("%s of a large row, %d times: %v", o.Kind, MaxOps, err)
		}
	}
}

// Random requests on few rows have the results of a map, and are told to watches, through failovers.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newReplicas(t)
		r.must("n", Op{Kind: CreateTable, Table: "t", Definition: &Definition{Columns: modelColumns}})
		m := model{revision: 1, rows: map[string]Row{},
			changes: []Change{{Revision: 1, Table: "t", Definition: &Definition{Columns: modelColumns}}}}
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			if rapid.IntRange(0, 9).Draw(rt, "failover") == 0 {
				lost := rapid.SliceOfN(rapid.Custom(m.draw), 0, 2).Draw(rt, "lost")
				r.send(asked{Ops: lost}.of("n"))
				r.fail()
			}
			next := model{m.revision, maps.Clone(m.rows), slices.Clip(m.changes)}
			var ops []Op
			ok := true
			for range rapid.IntRange(1, 4).Draw(rt, "ops") {
				ops = append(ops, next.draw(rt))
				ok = ok && next.apply(&ops[len(ops)-1])
			}
			out, err := r.do("n", asked{Ops: ops})
			if ok != (err == nil) || ok && out.Revision != next.revision {
				rt.Fatalf("%+v: %+v, %v", ops, out, err)
			}
			if ok {
				m = next
			}
			got := map[string]Row{}
			for _, row := range r.must("n", Op{Kind: List, Table: "t"})[0].Rows {
				got[row.Key] = row
			}
			if !reflect.DeepEqual(got, m.rows) {
				rt.Fatalf("after %+v: %+v, want %+v", ops, got, m.rows)
			}
		}
		r.rows()
		for _, f := range r.feeds {
			m.told(rt, f)
		}
	})
}

// told checks that a watch is told the changes after any revision.
func (m *model) told(rt *rapid.T, f *Feed) {
	after := rapid.Uint64Range(0, m.revision).Draw(rt, "after")
	var want []Change
	for _, c := range m.changes {
		if c.Revision > after {
			want = append(want, c)
		}
	}
	w, err := f.Cursor(WatchRequest{Namespace: "n", After: &after},
		map[string]Table{"t": {1, Definition{Columns: modelColumns}}}, m.revision)
	if err != nil {
		rt.Fatal(err)
	}
	var got []Change
	for w.Revision() < m.revision {
		list, err := w.Next(context.Background())
		if err != nil {
			rt.Fatal(err)
		}
		got = append(got, list...)
	}
	if !reflect.DeepEqual(got, want) {
		rt.Fatalf("after %d: told %+v, want %+v", after, got, want)
	}
}

var modelColumns = []string{"a", "b", "c"}

// model is a table.
type model struct {
	revision uint64
	rows     map[string]Row
	changes  []Change
}

// draw returns a random op that changes a row.
func (m *model) draw(rt *rapid.T) Op {
	o := Op{Kind: rapid.SampledFrom([]Kind{Create, Put, Update, Delete}).Draw(rt, "kind"), Table: "t",
		Key: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "key")}
	if o.Kind != Delete {
		for range rapid.IntRange(1, 3).Draw(rt, "columns") {
			o.Columns = append(o.Columns, Column{rapid.SampledFrom(modelColumns).Draw(rt, "name"),
				rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(rt, "value")})
		}
	}
	if o.Kind != Create && rapid.Bool().Draw(rt, "conditional") {
		o.Condition = version(m.rows[o.Key].Version + uint64(rapid.IntRange(0, 1).Draw(rt, "off")))
	}
	return o
}

// apply applies an op, and reports whether it can be.
func (m *model) apply(o *Op) bool {
	row, there := m.rows[o.Key]
	if o.Condition != nil && *o.Condition.Version != row.Version || o.Kind == Create && there ||
		(o.Kind == Update || o.Kind == Delete) && !there {
		return false
	}
	m.revision++
	if o.Kind == Delete {
		delete(m.rows, o.Key)
		m.changes = append(m.changes, Change{Revision: m.revision, Table: "t", Key: o.Key, Removed: true})
		return true
	}
	written := o.Columns
	if o.Kind == Update {
		written = slices.Concat(row.Columns, o.Columns)
	}
	var columns Columns
	for _, name := range modelColumns {
		if v, there := written.Get(name); there {
			columns = append(columns, Column{name, append([]byte{}, v...)})
		}
	}
	m.rows[o.Key] = Row{o.Key, m.revision, columns}
	m.changes = append(m.changes, Change{Revision: m.revision, Table: "t", Key: o.Key, Columns: columns})
	return true
}

func FuzzRequest(f *testing.F) {
	f.Add(asked{1, 1, 0, []Op{{Kind: Put, Table: "t", Key: "k", Columns: columns("value", "a")}}}.of("n"))
	f.Add(asked{Ops: []Op{{Kind: List, Table: "t", Start: "a", End: "b", Prefix: "a", Limit: 3}}}.of("n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		if _, ns, _ := peek(request); ns != "n" {
			return
		}
		r := newReplicas(t)
		r.must("n", Op{Kind: CreateTable, Table: "t"})
		r.call(request)
		r.rows()
	})
}

// FuzzWatch decodes what clients and controllers say of watches: what is taken can be sent again.
func FuzzWatch(f *testing.F) {
	after := uint64(7)
	f.Add((&WatchRequest{Namespace: "n", Table: "t", Prefix: "p", After: &after}).Append(nil))
	f.Add((&WatchResponse{Revision: 3, Changes: []Change{{Revision: 3, Table: "t", Key: "k",
		Columns: columns("value", "a")}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, askedAgain WatchRequest
		if q.Decode(b) == nil {
			if err := askedAgain.Decode(q.Append(nil)); err != nil || !reflect.DeepEqual(askedAgain, q) {
				t.Errorf("%+v becomes %+v, %v", q, askedAgain, err)
			}
		}
		var r, again WatchResponse
		if r.Decode(b) == nil {
			if err := again.Decode(r.Append(nil)); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add((&stored{7, [][]byte{[]byte("a"), nil, {}}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRow(b, make([][]byte, 3))
		if err != nil {
			return
		}
		again, err := decodeRow(r.append(nil), make([][]byte, 3))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v (%v), want %+v", again, err, r)
		}
	})
}
