package onstore

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/store"
)

// rounds counts how often a Store is asked.
type rounds struct {
	backwards
	n, ops int
}

func (r *rounds) Do(ctx context.Context, ops ...store.Op) (store.Outcome, error) {
	r.n, r.ops = r.n+1, r.ops+len(ops)
	return r.backwards.Do(ctx, ops...)
}

func (r *rounds) Together(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, []error) {
	r.n, r.ops = r.n+1, r.ops+len(transactions)
	return r.backwards.Together(ctx, transactions...)
}

// Reads that depend on each other take one round trip each the first time, and one together from then on. If a row
// refers to another one than before, that one is read.
func TestFollow(t *testing.T) {
	s := &rounds{backwards: backwards{newStore(t)}}
	b := base{store: s, referred: &guesses{of: map[string]map[string]string{}}}
	write := func(kind store.Kind, table, key, value string) {
		t.Helper()
		if _, err := s.one.Do(t.Context(), store.Op{Kind: kind, Table: table, Key: key,
			Columns: store.Value([]byte(value))}); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"a", "b", "c"} {
		if err := b.setup(t.Context(), makeTable(table, "", store.DefaultColumn)); err != nil {
			t.Fatal(err)
		}
	}
	refers := func(row *store.Row) (string, error) { return text(row, store.DefaultColumn), nil }
	chain := func(from string) []step {
		return []step{{Op: store.Op{Kind: store.Get, Table: "a", Key: from}},
			{store.Op{Kind: store.Get, Table: "b"}, refers}, {store.Op{Kind: store.Get, Table: "c"}, refers}}
	}
	check := func(what string, rounds, ops int, want ...string) {
		t.Helper()
		s.n, s.ops = 0, 0
		walks, err := b.follow(t.Context(), chain("1"), chain("2"))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{text(walks[0].row(), store.DefaultColumn), text(walks[1].row(), store.DefaultColumn)}
		if !slices.Equal(got, want) || s.n != rounds || s.ops != ops {
			t.Errorf("%s: %q in %d rounds with %d ops, want %q in %d with %d", what, got, s.n, s.ops, want, rounds, ops)
		}
	}
	write(store.Create, "a", "1", "x")
	write(store.Create, "b", "x", "y")
	write(store.Create, "c", "y", "end")
	check("at first", 3, 4, "end", "")
	check("again", 1, 4, "end", "")
	write(store.Create, "a", "2", "z")
	write(store.Create, "b", "z", "y")
	check("a new row", 3, 6, "end", "end")
	check("again", 1, 6, "end", "end")
	write(store.Create, "c", "w", "other")
	write(store.Put, "b", "x", "w")
	check("it refers to another row", 2, 7, "other", "end")
	write(store.Put, "a", "1", "z")
	check("so does the first one", 2, 8, "end", "end")
	if _, err := s.one.Do(t.Context(), store.Op{Kind: store.Delete, Table: "c", Key: "y"}); err != nil {
		t.Fatal(err)
	}
	check("the row is removed", 2, 8, "", "")
	write(store.Create, "c", "y", "end")
	check("and made again", 1, 6, "end", "end")
}

// What is guessed is bounded.
func TestGuesses(t *testing.T) {
	g := guesses{of: map[string]map[string]string{}}
	for n := range maxGuesses + 5 {
		g.set("t", string(rune('A'+n)), "x")
	}
	if n := len(g.of["t"]); n != maxGuesses || g.n != n {
		t.Errorf("%d guesses, or %d; at most %d are possible", n, g.n, maxGuesses)
	}
}
