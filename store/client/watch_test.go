package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// A watch is told each change once and in order, although controllers end it again and again.
func TestWatch(t *testing.T) {
	c, cl := serveTable(t, 1)
	const rounds = 50
	for i := range 3 { // these end each watch after some milliseconds
		c.addresses = append(c.addresses, listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Duration(i+1)*2*time.Millisecond)
			defer cancel()
			c.served.ServeHTTP(w, r.WithContext(ctx))
		})))
	}
	c.addresses = c.addresses[1:]
	watching, err := New("n", c.addresses...)
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Close()
	wrote := make(chan error, 1)
	go func() { // ends after the rounds, or with an error
		for i := range rounds {
			k := fmt.Sprint("k", i%3)
			_, err := cl.Do(context.Background(), add("t"), store.Op{Kind: store.Add, Table: "t", Key: k, Delta: 1})
			if err != nil {
				wrote <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
		wrote <- nil
	}()
	after, last := uint64(0), uint64(0)
	sums := map[string]int{}
	for told, err := range watching.Watch(t.Context(), "", "", after) {
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range told.Changes {
			if last++; change.Revision != last {
				t.Fatalf("revision %d comes after %d", change.Revision, last-1)
			}
			if last == 1 {
				if change.Key != "" || change.Definition == nil {
					t.Errorf("the first change is %+v, want a table", change)
				}
				continue
			}
			sums[change.Key]++
			if v, _ := change.Columns.Get(store.DefaultColumn); string(v) != fmt.Sprint(sums[change.Key]) {
				t.Errorf("%+v is change %d of its row", change, sums[change.Key])
			}
		}
		if last == 1+2*rounds {
			break
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// mute is a response of which nothing comes any more after the first message, as of a controller that hangs.
type mute struct {
	http.ResponseWriter
	flushed bool
}

func (m *mute) Write(b []byte) (int, error) {
	if m.flushed {
		return len(b), nil
	}
	return m.ResponseWriter.Write(b)
}

func (m *mute) Flush() {
	if !m.flushed {
		m.ResponseWriter.(http.Flusher).Flush()
	}
	m.flushed = true
}

// A watch goes on at another controller if the present one hangs after it has answered.
func TestWatchOfOneThatHangs(t *testing.T) {
	c, cl := serveTable(t, 1)
	hangs := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.served.ServeHTTP(&mute{ResponseWriter: w}, r)
	}))
	watcher, err := New("n", hangs, c.addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	put := store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value([]byte("1"))}
	wrote := false
	w := watching{client: watcher, request: store.WatchRequest{Namespace: "n"}, without: map[string]bool{},
		lack: map[string]int{}, silence: 100 * time.Millisecond}
	w.yield = func(r store.WatchResponse, err error) bool {
		if err != nil {
			t.Error(err)
			return false
		}
		if !wrote {
			wrote = true
			if _, err := cl.Do(t.Context(), put); err != nil {
				t.Error(err)
			}
		}
		return len(r.Changes) == 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if w.run(ctx); ctx.Err() != nil {
		t.Error("the change is not told")
	}
}

// A watch of some rows learns of the revisions of others, and ends when its changes are forgotten.
func TestWatchSome(t *testing.T) {
	_, cl := serveTable(t, 1)
	put := func(key string, size int) {
		t.Helper()
		o := store.Op{Kind: store.Put, Table: "t", Key: key, Columns: store.Value(make([]byte, size))}
		if _, err := cl.Do(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	last := uint64(0)
	for told, err := range cl.Watch(t.Context(), "t", "a/") {
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range told.Changes {
			keys = append(keys, change.Key)
		}
		if last == 0 { // the first one: it watches
			put("a/1", 1)
			put("b/1", 1)
			put("a/2", 1)
			put("b/2", 1)
		}
		if last = told.Revision; last == 5 {
			break
		}
	}
	if !slices.Equal(keys, []string{"a/1", "a/2"}) {
		t.Errorf("told of %v", keys)
	}
	for range 300 { // more than is kept
		put("b/3", store.MaxValue)
	}
	for _, w := range []struct {
		table string
		after uint64
		want  store.Code
	}{{"t", last, store.Forgotten}, {"t", 1 << 40, store.Invalid}, {"no/name", last, store.Invalid}} {
		for told, err := range cl.Watch(t.Context(), w.table, "", w.after) {
			if refused, is := err.(*store.Error); err != nil && (!is || refused.Code != w.want) || len(told.Changes) > 0 {
				t.Errorf("%q after %d: %+v, %v", w.table, w.after, told, err)
			}
		}
	}
	for told, err := range cl.Watch(t.Context(), "other", "") {
		if refused, is := err.(*store.Error); !is || refused.Code != store.NoTable {
			t.Errorf("without the table: %+v, %v", told, err)
		}
	}
}

// Where no controller has a replica, a watch ends and says so. It goes on while one may have one.
func TestWatchWithoutReplica(t *testing.T) {
	c, cl := serveTable(t, 1)
	_, without := rpc.New().Serve(elsewhere{c.call})
	addresses := []string{listen(t, without), listen(t, without)}
	for i, all := range [][]string{addresses, append(addresses, gone(t))} {
		on, err := New("n", all...)
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if i > 0 {
			time.AfterFunc(4*time.Second, cancel)
		}
		var last error
		changed := false
		for _, err := range on.Watch(ctx, "", "") {
			if last = err; !changed {
				changed = true
				if _, err := cl.Do(t.Context(), add("t")); err != nil {
					t.Error(err)
				}
			}
		}
		refused, is := errors.AsType[*store.Error](last)
		if i == 0 && (!is || refused.Code != store.NoReplica) || i > 0 && last != nil {
			t.Errorf("a watch at %d controllers ends with %v", len(all), last)
		}
	}
}

// Where there is no store, a watch fails.
func TestWatchNothing(t *testing.T) {
	cl, err := New("n", listen(t, http.NotFoundHandler()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, err := range cl.Watch(t.Context(), "t", "") {
		if err == nil {
			t.Error("it watches")
		}
	}
	// One that nobody serves waits until its context ends.
	deaf, err := New("n", gone(t))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, err := range deaf.Watch(ctx, "t", "") {
		t.Error(err)
	}
}
