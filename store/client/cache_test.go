package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/store"
)

func value(t *testing.T, r store.Row) int64 {
	t.Helper()
	v, _ := r.Columns.Get(store.DefaultColumn)
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A read of a cache is not older than it says, also while watches end again and again; and most need no request.
func TestCache(t *testing.T) {
	c, cl := serveTable(t, 1)
	flaky := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
		defer cancel()
		c.served.ServeHTTP(w, r.WithContext(ctx))
	}))
	reading, err := New("n", flaky, c.addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	k := mustCache(t, reading, "t")
	defer k.Close()
	const maxAge = 200 * time.Millisecond
	type wrote struct {
		n  int64
		at time.Time
	}
	var last, before atomic.Pointer[wrote] // what was acknowledged last, and at least maxAge ago
	write := func(n int64) {
		t.Helper()
		o := store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value([]byte(fmt.Sprint(n)))}
		if _, err := cl.Do(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w := &wrote{n, time.Now()}
		last.Store(w)
		time.AfterFunc(maxAge, func() {
			if b := before.Load(); b == nil || b.n < w.n {
				before.Store(w)
			}
		})
	}
	write(0)
	reads := 0
	for n := int64(1); n <= 30; n++ {
		write(n)
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); reads++ {
			least := before.Load()
			row, err := k.Get(t.Context(), "t", "k", maxAge)
			if err != nil {
				t.Fatal(err)
			}
			if got := value(t, row); least != nil && got < least.n {
				t.Fatalf("read %d, which was replaced by %d more than %v before", got, least.n, maxAge)
			}
		}
	}
	if hits := k.Hits(); hits < uint64(reads)/2 {
		t.Errorf("%d of %d reads were answered from memory", hits, reads)
	}
	if row, err := k.Get(t.Context(), "t", "k", 0); err != nil || value(t, row) != 30 {
		t.Errorf("without an age: %+v, %v", row, err)
	}
}

// What is written through a cache is seen by its next read, of any age.
func TestCacheWrites(t *testing.T) {
	_, cl := serveTable(t, 1)
	k := mustCache(t, cl)
	defer k.Close()
	ctx := t.Context()
	do := func(o store.Op) uint64 {
		t.Helper()
		o.Table, o.Key = "t", "k"
		out, err := k.Do(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return out.Results[0].Version
	}
	read := func() (store.Row, error) { return k.Get(ctx, "t", "k", time.Hour) }
	want := func(n int64) {
		t.Helper()
		if row, err := read(); err != nil || value(t, row) != n {
			t.Errorf("read %+v (%v), want %d", row, err, n)
		}
	}
	for i := range int64(20) {
		v := do(store.Op{Kind: store.Put, Columns: store.Value([]byte(fmt.Sprint(i)))})
		want(i)
		do(store.Op{Kind: store.Add, Delta: 1})
		want(i + 1)
		row, err := read()
		if err != nil {
			t.Fatal(err)
		}
		do(store.Op{Kind: store.Update, Condition: &store.Condition{Version: &row.Version},
			Columns: store.Value([]byte("77"))})
		want(77)
		if _, err := k.Do(ctx, store.Op{Kind: store.Update, Table: "t", Key: "k", Condition: &store.Condition{Version: &v},
			Columns: store.Value([]byte("78"))}); err == nil {
			t.Error("a write that is based on an old row was not refused")
		}
		want(77)
		do(store.Op{Kind: store.Delete})
		if row, err := read(); err == nil {
			t.Errorf("read %+v, which was deleted", row)
		}
	}
	// Others write: the cache learns it from the watch.
	do(store.Op{Kind: store.Put, Columns: store.Value([]byte("1"))})
	want(1)
	await.Until(t, "the watch to begin", func() bool { _, _ = read(); return k.Hits() > 0 })
	if _, err := cl.Do(ctx, store.Op{Kind: store.Add, Table: "t", Key: "k", Delta: 4}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the change", func() bool { row, err := read(); return err == nil && value(t, row) == 5 })
	for i := range maxCached + 10 {
		k.mu.Lock()
		k.expect(place{"t", fmt.Sprint(i)})
		n := len(k.rows)
		k.mu.Unlock()
		if n > maxCached {
			t.Fatalf("%d rows", n)
		}
	}
}

// internal returns a cache of table t whose watch does not run: the test tells it what that would.
func internal(t *testing.T, cl *Client) *Cache {
	t.Helper()
	k := mustCache(t, cl, "t")
	k.Close()
	k.told = 10
	return k
}

func row(key string, version uint64) store.Row {
	return store.Row{Key: key, Version: version, Columns: store.Value([]byte("1"))}
}

// What arrives late, or whose next change nobody tells, is not kept.
func TestCacheKeeps(t *testing.T) {
	_, cl := serveTable(t, 1)
	now, p := time.Now(), place{"t", "k"}
	kept := func(k *Cache) bool { _, there := k.find(p, now); return there }

	k := internal(t, cl)
	k.find(p, now.Add(time.Hour))  // a read begins,
	k.keep(p, row("k", 5), 9, now) // and one ends that was of an earlier revision than what was told
	k.update(store.WatchResponse{Revision: 11, Changes: []store.Change{{Revision: 11, Table: "t", Key: "k",
		Removed: true}}})
	k.find(p, now.Add(time.Hour))
	k.keep(p, row("k", 5), 10, now)
	if kept(k) {
		t.Error("a row that was read before it was removed is kept")
	}
	k.keep(p, row("k", 12), 12, now)
	if !kept(k) {
		t.Error("a row that was read since is not kept")
	}

	k = internal(t, cl)
	k.told = 0 // the watch has not begun
	k.wrote(&store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(nil)}, 12, 12, now)
	k.keep(p, row("k", 12), 12, now)
	k.told = 12
	if kept(k) {
		t.Error("a row is kept that was read before the watch began")
	}
	k.keep(p, row("k", 11), 11, now)
	if kept(k) {
		t.Error("a row is kept that is older than a write of the cache")
	}

	k = internal(t, cl)
	other := place{"u", "k"}
	k.wrote(&store.Op{Kind: store.Put, Table: "u", Key: "k", Columns: store.Value(nil)}, 12, 12, now)
	k.keep(other, row("k", 12), 12, now)
	if _, there := k.find(other, now); there || len(k.rows) > 0 {
		t.Error("a row of another table is kept")
	}

	k = internal(t, cl)
	value := []byte("1")
	k.wrote(&store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(value)}, 12, 12, now)
	value[0] = '2'
	if got, there := k.find(p, now); !there || string(got.Columns[0].Value) != "1" {
		t.Errorf("what the caller has changed since it was written: %+v", got)
	}
}

func mustCache(t *testing.T, c *Client, tables ...string) *Cache {
	t.Helper()
	k, err := NewCache(c, tables...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A cache of what is no table is refused at once: it would keep nothing, and nobody would know.
func TestCacheOfNoTable(t *testing.T) {
	c, err := New("app", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tables := range [][]string{{""}, {"t", "no/table"}, make([]string, 65)} {
		var refused *store.Error
		if k, err := NewCache(c, tables...); !errors.As(err, &refused) || refused.Code != store.Invalid || k != nil {
			t.Errorf("a cache of tables %q: %v", tables, err)
		}
	}
}
