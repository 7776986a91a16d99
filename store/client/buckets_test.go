package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// sharded is a namespace with 8 buckets.
const sharded = "n/8"

// serveBuckets returns controllers with three groups, and a client of a namespace with buckets that has a table t.
func serveBuckets(t *testing.T) (*controllers, *Client) {
	t.Helper()
	c := serveGroups(t, 3, 3)
	c.healthy.Store(true)
	cl := c.clientOf(sharded)
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	return c, cl
}

// Requests to a namespace with buckets, of which parts are lost or come twice, take effect once in each bucket. A watch
// is told each change once, and the changes of each bucket in order, although it ends again and again.
func TestOnceInBuckets(t *testing.T) {
	c, cl := serveBuckets(t)
	c.mu.Lock()
	c.fates = 40
	c.mu.Unlock()
	c.healthy.Store(false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const workers, each, keys = 16, 10, 5
	told := make(chan map[string]int, 1)
	go func() { told <- watchBuckets(ctx, t, c.clientOf(sharded), workers*each) }()
	var mu sync.Mutex // guards sums
	sums := map[string]map[int64]bool{}
	var working sync.WaitGroup
	for i := range workers {
		working.Go(func() {
			for n := range each {
				o := store.Op{Kind: store.Add, Table: "t", Key: fmt.Sprint("k", (i+n)%keys), Delta: 1}
				out, err := cl.Do(t.Context(), o)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if sums[o.Key] == nil {
					sums[o.Key] = map[int64]bool{}
				}
				if sum := out.Results[0].Value; sums[o.Key][sum] {
					t.Errorf("two requests were answered with %d", sum)
				} else {
					sums[o.Key][sum] = true
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	out, err := cl.Do(t.Context(), store.Op{Kind: store.List, Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	watched := <-told
	for _, row := range out.Results[0].Rows {
		want := fmt.Sprint(len(sums[row.Key]))
		if got := string(row.Columns[0].Value); got != want || fmt.Sprint(watched[row.Key]) != want {
			t.Errorf("the counter %s is %s, %s additions were acknowledged, and a watch was told %d", row.Key, got, want,
				watched[row.Key])
		}
	}
}

// watchBuckets watches until so many rows have changed, and returns how often each has. It goes on after revisions that
// were told, as a program that was started again.
func watchBuckets(ctx context.Context, t *testing.T, cl *Client, changes int) map[string]int {
	next, rows := make([]uint64, store.Buckets(sharded)), map[string]int{}
	for n, programs := 0, 0; n < changes && programs < changes; programs++ {
		for told, err := range cl.Watch(ctx, "", "", next...) {
			if err != nil {
				t.Error(err)
				return rows
			}
			for _, change := range told.Changes {
				if next[told.Bucket]++; change.Revision != next[told.Bucket] {
					t.Errorf("bucket %d: told revision %d where %d is next", told.Bucket, change.Revision, next[told.Bucket])
					return rows
				}
				if change.Key == "" {
					continue
				}
				n++
				rows[change.Key]++
				if v, _ := change.Columns.Get(store.DefaultColumn); string(v) != fmt.Sprint(rows[change.Key]) {
					t.Errorf("%+v is change %d of its row", change, rows[change.Key])
				}
			}
			if next = told.Revisions; n >= changes || len(told.Changes) > 0 && n%20 == 0 {
				break
			}
		}
	}
	return rows
}

// A watch of a namespace with buckets begins with what each bucket has, and ends if one has forgotten the next changes.
func TestWatchBuckets(t *testing.T) {
	c, cl := serveBuckets(t)
	put := func(key string, size int) {
		t.Helper()
		o := store.Op{Kind: store.Put, Table: "t", Key: key, Columns: store.Value(make([]byte, size))}
		if _, err := cl.Do(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	put("a/0", 1)
	var keys []string
	var last []uint64
	for told, err := range cl.Watch(t.Context(), "t", "a/") {
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range told.Changes {
			keys = append(keys, change.Key)
		}
		if last == nil { // the first one: it watches
			if len(told.Revisions) != 8 {
				t.Fatalf("it begins with %+v", told)
			}
			for _, key := range []string{"a/1", "b/1", "a/2", "b/2", "a/3"} {
				put(key, 1)
			}
		}
		if last = told.Revisions; len(keys) == 3 {
			break
		}
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"a/1", "a/2", "a/3"}) {
		t.Errorf("told of %v", keys)
	}
	for range 300 { // more than is kept of a bucket
		put("b/3", store.MaxValue)
	}
	plain := c.client()
	for _, w := range []struct {
		on    *Client
		after []uint64
		want  store.Code
	}{{cl, last, store.Forgotten}, {cl, last[:7], store.Invalid}, {plain, last, store.Invalid}} {
		var end error
		for _, err := range w.on.Watch(t.Context(), "", "", w.after...) {
			end = err
		}
		if refused, is := errors.AsType[*store.Error](end); !is || refused.Code != w.want {
			t.Errorf("a watch after %v ends with %v, want %v", w.after, end, w.want)
		}
	}
}

// A client goes on in another session if a bucket has forgotten its session, and before one can do so.
func TestSessionOfBuckets(t *testing.T) {
	c, cl := serveBuckets(t)
	var at, other string // keys of different buckets
	for i := 0; other == ""; i++ {
		switch k := fmt.Sprint(i); {
		case at == "":
			at = k
		case store.Bucket(k, 8) != store.Bucket(at, 8):
			other = k
		}
	}
	count := func(key string, want int64) {
		t.Helper()
		out, err := cl.Do(t.Context(), store.Op{Kind: store.Add, Table: "t", Key: key, Delta: 1})
		if err != nil || out.Results[0].Value != want {
			t.Errorf("%s: %+v, %v, want %d", key, out, err, want)
		}
	}
	for i := range int64(5) {
		count(at, i+1)
		c.pass(store.SessionTime / 2)
	}
	var working sync.WaitGroup
	for range 8 { // some of them in one request, of which a bucket has forgotten the session
		working.Go(func() {
			for _, key := range []string{other, at} {
				if _, err := cl.Do(t.Context(), store.Op{Kind: store.Add, Table: "t", Key: key, Delta: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	count(other, 9)
	count(at, 14)
	cl.mu.Lock()
	session := cl.session
	cl.asked = cl.asked.Add(-store.SessionTime)
	cl.mu.Unlock()
	count(at, 15)
	if cl.session == session {
		t.Errorf("the client keeps session %d, which is old", session)
	}
	c.pass(2 * store.SessionTime)
	_, err := cl.Batch(t.Context(), []store.Op{{Kind: store.Add, Table: "t", Key: at, Delta: 1}},
		[]store.Op{{Kind: store.Add, Table: "t", Key: other, Delta: 1}})
	if err != nil {
		t.Error(err)
	}
	count(at, 17)
}

// old makes the session of a client older.
func (c *Client) old(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.reopen = c.asked.Add(-by), time.Time{}
}

// present returns the session of a client.
func (c *Client) present() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Buckets without a leader do not stop the writes to others, also when another session is due, and the client gets that
// when they are back.
func TestWritesWithoutOneGroup(t *testing.T) {
	c, cl := serveBuckets(t)
	const down = 2
	keys := make([]string, store.Buckets(sharded)) // one of each bucket
	for i := range 1000 {
		keys[store.Bucket(fmt.Sprint(i), len(keys))] = fmt.Sprint(i)
	}
	put := func(when string, complete bool) {
		t.Helper()
		for bucket, key := range keys {
			at := store.New().Place(store.ActorOf(store.BucketName(sharded, bucket)).Shard, []uint64{0, 1, 2})
			leads := complete || at != down
			within := 20 * time.Millisecond
			if leads {
				within = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			_, err := cl.Do(ctx, store.Op{Kind: store.Put, Table: "t", Key: key, Columns: store.Value(nil)})
			if cancel(); (err == nil) != leads {
				t.Errorf("%s, bucket %d of group %d: %v", when, bucket, at, err)
			}
		}
	}
	put("at first", true)
	c.mu.Lock()
	c.groups[down].Follow()
	c.mu.Unlock()
	session := cl.present()
	put("without a leader", false)
	cl.old(renewAfter)
	put("when another session is due", false)
	cl.old(store.SessionTime)
	put("later", false)
	c.mu.Lock()
	if err := c.groups[down].Lead(99, c.now.UnixNano()); err != nil {
		t.Error(err)
	}
	c.mu.Unlock()
	cl.old(0)
	put("back", true)
	if cl.present() == session {
		t.Errorf("the client does not go on in another session than %d", session)
	}
}

// A client closes the sessions that it does not use any more, so many clients have room.
func TestSessionsAreClosed(t *testing.T) {
	_, cl := serveBuckets(t)
	put := store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(nil)}
	for range store.MaxSessions + 10 {
		before := cl.present()
		for cl.old(store.SessionTime); cl.present() == before; {
			if _, err := cl.Do(t.Context(), put); err != nil {
				t.Fatalf("after session %d: %v", before, err)
			}
		}
	}
}

// A cache of a namespace with buckets keeps nothing.
func TestCacheOfBuckets(t *testing.T) {
	_, cl := serveBuckets(t)
	k := mustCache(t, cl, "t")
	defer k.Close()
	if _, err := k.Do(t.Context(), store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(nil)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := k.Get(t.Context(), "t", "k", time.Hour); err != nil {
			t.Error(err)
		}
	}
	if k.Hits() > 0 {
		t.Error("it has answered from memory")
	}
}

// A transaction of several buckets is refused alone, also if the client has sent it together with others.
func TestSeveralBuckets(t *testing.T) {
	_, cl := serveBuckets(t)
	var ops []store.Op
	for i := range 20 {
		ops = append(ops, store.Op{Kind: store.Put, Table: "t", Key: fmt.Sprint(i), Columns: store.Value(nil)})
	}
	out, err := cl.Batch(t.Context(), ops[:1], ops, ops[1:2])
	if err != nil || out[0].Error != nil || out[2].Error != nil {
		t.Fatal(out, err)
	}
	if why := out[1].Error; why == nil || why.Code != store.SeveralBuckets || !strings.Contains(why.Message, `"0"`) {
		t.Errorf("a transaction of several buckets: %v", why)
	}
	_, err = cl.Do(t.Context(), ops...)
	if why, is := errors.AsType[*store.Error](err); !is || why.Code != store.SeveralBuckets {
		t.Errorf("a transaction of several buckets: %v", err)
	}
}
