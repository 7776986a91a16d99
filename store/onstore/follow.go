package onstore

import (
	"context"
	"sync"

	"github.com/holdfast-sdn/holdfast/store"
)

// step is one of a chain of reads: of the row whose key is in the row before.
type step struct {
	store.Op
	key func(before *store.Row) (string, error) // nil: the Op has it
}

// walk is a chain of reads, as far as it is done.
type walk struct {
	steps []step
	rows  []*store.Row // of the first steps; nil is a row that is not there, and the last one
	next  string       // key of the row after these
	asked []store.Op   // of the steps after these
}

func (w *walk) ended() bool {
	n := len(w.rows)
	return n == len(w.steps) || n > 0 && w.rows[n-1] == nil
}

// row returns that of the last step; nil if it, or one before it, is not there.
func (w *walk) row() *store.Row {
	if len(w.rows) < len(w.steps) {
		return nil
	}
	return w.rows[len(w.rows)-1]
}

// follow goes through chains of reads, side by side. Most rows refer to the same row as they did before, so that is
// read at the same time, and counts if it is the one. So a chain takes one round trip, and reads nothing that it would
// not read otherwise, as long as nothing has changed. It takes at most one for each step.
func (b *base) follow(ctx context.Context, chains ...[]step) ([]walk, error) {
	walks := make([]walk, len(chains))
	for i, steps := range chains {
		walks[i].steps = steps
	}
	for {
		var ops []store.Op
		for i := range walks {
			walks[i].ask(b.referred)
			ops = append(ops, walks[i].asked...)
		}
		if len(ops) == 0 {
			return walks, nil
		}
		results, err := b.together(ctx, ops...)
		if err != nil {
			return nil, err
		}
		for i := range walks {
			n := len(walks[i].asked)
			if err := walks[i].take(results[:n], b.referred); err != nil {
				return nil, err
			}
			results = results[n:]
		}
	}
}

// ask sets what is to be read next: one step, and those after it that can be guessed.
func (w *walk) ask(g *guesses) {
	w.asked = w.asked[:0]
	if w.ended() {
		return
	}
	n := len(w.rows)
	o := w.steps[n].Op
	if n > 0 {
		o.Key = w.next
	}
	w.asked = append(w.asked, o)
	for _, s := range w.steps[n+1:] {
		key, is := g.get(o.Table, o.Key)
		if !is {
			break
		}
		o = s.Op
		o.Key = key
		w.asked = append(w.asked, o)
	}
}

// take takes the rows that were asked for, up to a wrong guess. A guessed row that is not there is asked for again: it
// may have been read before the row that refers to it.
func (w *walk) take(results []store.Result, g *guesses) error {
	for i, r := range results {
		if i > 0 && (w.asked[i].Key != w.next || r.Row == nil) {
			break
		}
		w.rows = append(w.rows, r.Row)
		if w.ended() {
			break
		}
		key, err := w.steps[len(w.rows)].key(r.Row)
		if err != nil {
			return err
		}
		w.next = key
		g.set(w.asked[i].Table, w.asked[i].Key, key)
	}
	return nil
}

// maxGuesses bounds guesses. For another one, any of them is forgotten.
const maxGuesses = 10_000

// guesses are the keys of rows to which other rows referred when they were read last.
type guesses struct {
	mu sync.Mutex                   // guards what follows
	of map[string]map[string]string // by table and key
	n  int
}

func (g *guesses) get(table, key string) (to string, is bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	to, is = g.of[table][key]
	return to, is
}

func (g *guesses) set(table, key, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, is := g.of[table][key]
	switch {
	case is && before == to:
		return
	case !is && g.n >= maxGuesses:
		g.forgetOne()
	}
	if !is {
		g.n++
	}
	if g.of[table] == nil {
		g.of[table] = map[string]string{}
	}
	g.of[table][key] = to
}

// forgetOne forgets any of them. g.mu is held.
func (g *guesses) forgetOne() {
	for table, keys := range g.of {
		for key := range keys {
			g.n--
			if delete(keys, key); len(keys) == 0 {
				delete(g.of, table)
			}
			return
		}
	}
}
