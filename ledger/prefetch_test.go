package ledger

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// foreseer names a row of a table for each message, or several.
type foreseer struct {
	script
	more  int
	panic bool
	asked []string
}

func (f *foreseer) Prefetch(in *Input, row func(table string, cell, field Key)) {
	f.asked = append(f.asked, string(in.Message[len(in.Message)-1:]))
	row("t", Key{A: uint64(in.Switch)}, Key{A: uint64(len(f.asked))})
	for i := range f.more {
		row("t", Key{A: uint64(in.Switch)}, Key{A: uint64(len(f.asked)), B: uint64(1 + i)})
	}
	if f.panic {
		panic("a defect of the application")
	}
	row("small", Key{A: uint64(in.Switch)}, Key{A: uint64(len(f.asked))})
}

// An application is asked for some of the messages that come next, in their order, and when none of them had a row of a
// large table not again for some time.
func TestPrefetch(t *testing.T) {
	a := &foreseer{script: script{name: "a"}}
	p := newPair(t, Limits{}, &script{name: "other"}, a)
	c := p.leader
	var messages []byte
	for i := range 2 * maxPrefetch {
		messages = append(messages, packetIn(string(rune('A'+i%26)))...)
	}
	cut := append(slices.Clone(messages[:len(packetIn("A"))]), 4, 10, 0, 3, 0, 0, 0, 0)
	if n := c.Prefetch(1, messages); n != maxPrefetch || len(a.asked) != n || a.asked[0] != "A" || a.asked[1] != "B" {
		t.Errorf("%d messages, asked for %q", n, a.asked)
	}
	a.asked = nil
	if n := len(c.state.tables); n > 0 {
		t.Errorf("%d tables", n)
	}
	for range prefetchRest {
		if n := c.Prefetch(1, messages); n != maxPrefetch || len(a.asked) > 0 {
			t.Fatalf("%d messages, asked for %q, and it has no large table", n, a.asked)
		}
	}
	table := c.state.table(TableName{"a", "t"}).cells
	for i := range largeTable + 1 {
		table.Put(Key{A: 1}, Key{A: uint64(i)}, []byte{1})
	}
	for _, x := range []struct {
		name     string
		messages []byte
		want, of int
	}{
		{"many", messages, maxPrefetch, maxPrefetch},
		{"the last ones", messages[len(messages)-3*len(packetIn("A")):], 3, 3},
		{"not of applications", append(switchDown(), packetIn("A")...), 2, 1},
		{"damaged", cut, 1, 1},
		{"none", nil, 1, 0},
	} {
		a.asked, c.prefetch.rest = nil, 0
		if n := c.Prefetch(openflow.DatapathID(1), x.messages); n != x.want || len(a.asked) != x.of {
			t.Errorf("%s: %d messages, asked for %q", x.name, n, a.asked)
		}
		if c.prefetch.rest > 0 || c.prefetch.rows.Len() > 0 {
			t.Errorf("%s: %d calls are left out, %d rows remain", x.name, c.prefetch.rest, c.prefetch.rows.Len())
		}
	}
	a.asked, a.more = nil, 3
	if n := c.Prefetch(1, messages); n != cells.MaxPrefetch/4 || len(a.asked) != n {
		t.Errorf("%d messages with 4 rows each, asked for %d", n, len(a.asked))
	}
	a.panic = true
	if n := c.Prefetch(1, messages); n != 1 {
		t.Errorf("%d messages with a panic", n)
	}
	a.asked = nil
	if c.Prefetch(1, messages); len(a.asked) > 0 {
		t.Error("it is asked again after a panic")
	}
	if n := table.Count(Key{A: 1}); n != largeTable+1 {
		t.Errorf("the table has %d rows", n)
	}
}
