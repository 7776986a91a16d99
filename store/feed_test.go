package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// feed tells a feed of a request in the log of a group that changes so many rows, each with so many bytes.
func feed(to func(ledger.Change), namespace string, revision *uint64, rows, size int) {
	for range rows {
		*revision++
		r := stored{*revision, [][]byte{make([]byte, size)}}
		to(ledger.Change{Table: rowTable, Cell: ledger.Key{A: 1, S: namespace},
			Field: ledger.Key{S: fmt.Sprint("k", *revision)}, Value: r.append(nil)})
	}
	m := meta{revision: *revision}
	var b []byte
	for _, v := range m.fields() {
		b = append(b, byte(*v)) // all below 128
	}
	if *revision >= 128 {
		panic("a larger revision is not encoded so")
	}
	to(ledger.Change{Table: metaTable, Cell: ledger.Key{S: namespace}, Value: b})
}

// read returns how many changes after a revision a feed tells, up to another one, and the error.
func read(t *testing.T, f *Feed, namespace string, after, last uint64) (n int, _ error) {
	t.Helper()
	r, err := f.Cursor(WatchRequest{Namespace: namespace, After: &after},
		map[string]Table{"t": {1, Definition{Columns: []string{"value"}}}}, last)
	for err == nil && r.Revision() < last {
		var list []Change
		list, err = r.Next(context.Background())
		for i, c := range list {
			if want := after + uint64(n+i) + 1; c.Revision != want {
				t.Fatalf("told revision %d where %d is next", c.Revision, want)
			}
		}
		n += len(list)
	}
	return n, err
}

func isCode(err error, code Code) bool {
	why, is := errors.AsType[*Error](err)
	return is && why.Code == code
}

// A namespace that moves to another group is told from the logs of both, whichever a controller reads first.
func TestFeedOfTwoGroups(t *testing.T) {
	f := NewFeed()
	one, two := f.Follow(1), f.Follow(2)
	last := uint64(0)
	feed(one, "n", &last, 3, 10)
	moved := last + 2
	feed(two, "n", &moved, 4, 10)
	if n, err := read(t, f, "n", 1, moved); n != 2 || !isCode(err, Forgotten) {
		t.Errorf("with a gap: %d changes, %v", n, err)
	}
	feed(one, "n", &last, 2, 10) // the log of the first group was behind
	if n, err := read(t, f, "n", 1, moved); n != 8 || err != nil {
		t.Errorf("%d changes, %v", n, err)
	}
	back := moved
	feed(one, "n", &back, 1, 10)
	if n, err := read(t, f, "n", 5, back); n != 5 || err != nil {
		t.Errorf("after it has moved back: %d changes, %v", n, err)
	}
	if n, err := read(t, f, "n", back, back+1); n != 0 || !isCode(err, Unavailable) {
		t.Errorf("a change that is not here: %d changes, %v", n, err)
	}
}

// Nothing is kept for namespaces that somebody only asks for, and who waits for one is told when there is one.
func TestFeedOfNothing(t *testing.T) {
	f := NewFeed()
	list, news, gap := f.after("n", 0, 10, nil)
	f.after("m", 0, 10, nil)
	if len(list) > 0 || gap || f.has("n") || len(f.spaces) > 0 {
		t.Errorf("%d changes, a gap: %t, %d namespaces", len(list), gap, len(f.spaces))
	}
	last := uint64(0)
	feed(f.Follow(1), "n", &last, 1, 10)
	select {
	case <-news:
	default:
		t.Error("who waits is not told of a new namespace")
	}
	if list, _, _ = f.after("n", 0, 10, nil); len(list) != 1 {
		t.Errorf("%d changes of a new namespace", len(list))
	}
}

// A feed that is full forgets the oldest changes of the largest namespace.
func TestFeedIsBounded(t *testing.T) {
	f := NewFeed()
	revisions := map[string]*uint64{}
	for i := range 8 {
		ns := fmt.Sprint("n", i)
		revisions[ns] = new(uint64)
		follow := f.Follow(1)
		feed(follow, "small", new(uint64), 1, 100) // one that restarts: the old changes are gone
		for range 20 {
			feed(follow, ns, revisions[ns], 1, 1<<20)
		}
		if f.bytes > maxFeedBytes || f.spaces[ns].bytes > maxSpaceBytes || f.bytes < f.spaces[ns].bytes {
			t.Fatalf("%d bytes, %d of namespace %s", f.bytes, f.spaces[ns].bytes, ns)
		}
	}
	if n, err := read(t, f, "small", 0, 1); n != 1 || err != nil {
		t.Errorf("of the small namespace: %d changes, %v", n, err)
	}
	if n, err := read(t, f, "n7", 15, 20); n != 5 || err != nil {
		t.Errorf("of the last namespace: %d changes, %v", n, err)
	}
	if n, err := read(t, f, "n0", 0, 20); n != 0 || !isCode(err, Forgotten) {
		t.Errorf("of the first namespace: %d changes, %v", n, err)
	}
	total := 0
	for _, s := range f.spaces {
		for _, r := range s.runs {
			for i := range r.len {
				total += r.at(i).size()
			}
		}
	}
	if total != f.bytes {
		t.Errorf("%d bytes are counted, %d are there", f.bytes, total)
	}
}

// What a namespace had is not kept as empty places, nor the definitions of all its tables.
func TestFeedShrinks(t *testing.T) {
	f := NewFeed()
	add := func(first uint64, n int, c committed) {
		changes := slices.Repeat([]committed{c}, n)
		f.add(1, "n", first+uint64(n)-1, changes)
	}
	add(1, maxFeedChanges, committed{table: 1})
	for i := range uint64(32) {
		add(maxFeedChanges+1+i, 1, committed{table: 1, value: make([]byte, 1<<20)})
	}
	if r := f.spaces["n"].runs[0]; len(r.ring) > minRing {
		t.Errorf("a ring of %d for %d changes", len(r.ring), r.len)
	}
	s := f.spaces["n"]
	add(s.runs[0].next(), maxFeedChanges/2, committed{table: 1})
	add(s.runs[0].next()+1, 1, committed{table: 1}) // after a gap
	if r := s.runs[0]; len(r.ring) > minRing {
		t.Errorf("after a gap: a ring of %d for %d changes", len(r.ring), r.len)
	}
	first := s.runs[0].next()
	for i := range uint64(2000) {
		table, _ := json.Marshal(table{ID: i, Definition: Definition{Columns: []string{strings.Repeat("c", 8<<10)}}})
		add(first+i, 1, committed{key: fmt.Sprint("t", i), value: table})
		if s.madeBytes > maxMadeBytes || len(s.made) > maxMadeBytes/(8<<10) {
			t.Fatalf("%d tables, %d bytes", len(s.made), s.madeBytes)
		}
	}
}

// A watch that begins before a table was dropped is told of its rows.
func TestWatchOfDroppedTable(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	r.must("n", Op{Kind: Put, Table: "t", Key: "k", Columns: Value([]byte("1"))})
	r.must("n", Op{Kind: Delete, Table: "t", Key: "k"}, Op{Kind: DropTable, Table: "t"})
	for _, f := range r.feeds {
		after := uint64(1)
		c, err := f.Cursor(WatchRequest{Namespace: "n", Table: "t", After: &after}, map[string]Table{}, 4)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Next(context.Background())
		if err != nil || len(list) != 3 || list[0].Key != "k" || !list[1].Removed || !list[2].Removed {
			t.Errorf("told %+v, %v", list, err)
		}
	}
}

// A watch of several tables is told of these only, also of one that is made later.
func TestWatchOfTables(t *testing.T) {
	r := newReplicas(t)
	r.must("n", Op{Kind: CreateTable, Table: "a"}, Op{Kind: CreateTable, Table: "other"})
	r.must("n", Op{Kind: CreateTable, Table: "b"})
	for _, table := range []string{"other", "a", "b"} {
		r.must("n", Op{Kind: Put, Table: table, Key: "k", Columns: Value([]byte("1"))})
	}
	made := map[string]Table{"a": {1, Definition{Columns: []string{DefaultColumn}}},
		"other": {2, Definition{Columns: []string{DefaultColumn}}}}
	for _, f := range r.feeds {
		after := uint64(2)
		c, err := f.Cursor(WatchRequest{Namespace: "n", Tables: []string{"a", "b"}, After: &after}, made, 6)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Next(context.Background())
		if err != nil || len(list) != 3 || list[0].Table != "b" || list[1].Table != "a" || list[2].Table != "b" {
			t.Errorf("told %+v, %v", list, err)
		}
	}
}

// What a watch asks for is bounded.
func TestWatchRefused(t *testing.T) {
	for _, w := range []WatchRequest{{Table: "a", Tables: []string{"b"}}, {Tables: []string{""}},
		{Tables: make([]string, maxWatchedTables+1)}, {Tables: []string{"a"}, Prefix: "p"},
		{GatherMS: maxGatherMS + 1}} {
		w.Namespace = "n"
		if refused, is := w.Check().(*Error); !is || refused.Code != Invalid {
			t.Errorf("%+v: %v", w, refused)
		}
	}
}

// A watch learns whether it has left changes, so that it does not wait before it reads these.
func TestMore(t *testing.T) {
	f := NewFeed()
	last, none := uint64(0), uint64(0)
	feed(f.Follow(1), "n", &last, 100, maxReadBytes/80)
	r, err := f.Cursor(WatchRequest{Namespace: "n", After: &none},
		map[string]Table{"t": {1, Definition{Columns: []string{"value"}}}}, last)
	for _, more := range []bool{true, false} {
		if err == nil {
			_, err = r.Next(t.Context())
		}
		if err != nil || r.More() != more || (r.Revision() < last) != more {
			t.Fatalf("at revision %d of %d, more: %v, %v", r.Revision(), last, r.More(), err)
		}
	}
}
