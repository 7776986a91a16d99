package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// Callers whose transactions are sent together do not notice: what is too much only together is executed, and a bad
// text of one is no error of another.
func TestTogether(t *testing.T) {
	const callers = 40
	c, cl := serveTable(t, 1)
	large := make([]byte, store.MaxValue)
	for i := range callers {
		o := store.Op{Kind: store.Put, Table: "t", Key: fmt.Sprint("row", i), Columns: store.Value(large)}
		if _, err := cl.Do(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	bad := store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Columns{{Name: "\xff"}}}
	for _, of := range []func(i int) []store.Op{
		func(i int) []store.Op { return []store.Op{{Kind: store.Get, Table: "t", Key: fmt.Sprint("row", i)}} },
		func(i int) []store.Op {
			return []store.Op{{Kind: store.Put, Table: "t", Key: fmt.Sprint("new", i), Columns: store.Value(large[:10_000])},
				{Kind: store.Get, Table: "t", Key: fmt.Sprint("new", i)}}
		},
		func(i int) []store.Op {
			return []store.Op{{Kind: store.Put, Table: "t", Key: fmt.Sprint("row", i), Columns: store.Value(large)}, add("t")}
		},
	} {
		kind := of(0)[0].Kind
		c.mu.Lock()
		var calling sync.WaitGroup
		for i := range callers {
			calling.Go(func() {
				if _, err := cl.Do(t.Context(), of(i)...); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			})
		}
		calling.Go(func() {
			if _, err := cl.Do(t.Context(), bad); err == nil {
				t.Error("a name that is not UTF-8")
			}
		})
		for cl.waiting() < callers {
			time.Sleep(time.Millisecond)
		}
		c.mu.Unlock()
		calling.Wait()
	}
	out, err := cl.Do(t.Context(), store.Op{Kind: store.Get, Table: "t", Key: "k"})
	if err != nil || string(out.Results[0].Row.Columns[0].Value) != fmt.Sprint(callers) {
		t.Errorf("the counter: %+v, %v", out, err)
	}
}

// Answers that do not fit one request are those of a few requests, and not each one of a request of its own.
func TestAnswersTooLargeTogether(t *testing.T) {
	c, cl := serveTable(t, 1)
	const callers, rounds = 500, 3
	const mostRequests = callers * rounds / 3 // some 50 to 110 are usual
	value := store.Value(make([]byte, 300))
	if _, err := cl.Do(t.Context(), add("t")); err != nil { // it has a session then
		t.Fatal(err)
	}
	for range rounds {
		c.mu.Lock() // nothing is answered
		var calling sync.WaitGroup
		for i := range callers {
			key := fmt.Sprint("row", i)
			calling.Go(func() {
				out, err := cl.Do(t.Context(), store.Op{Kind: store.Put, Table: "t", Key: key, Columns: value},
					store.Op{Kind: store.Get, Table: "t", Key: key})
				if err != nil || out.Results[1].Row == nil || out.Results[1].Row.Key != key {
					t.Errorf("%s: %+v, %v", key, out, err)
				}
			})
		}
		await.Until(t, "the callers to wait", func() bool {
			cl.mu.Lock()
			defer cl.mu.Unlock()
			n := len(cl.lanes[writes].queue)
			for _, b := range cl.lanes[writes].sent {
				n += len(b.work)
			}
			return n == callers
		})
		c.mu.Unlock()
		calling.Wait()
	}
	if cl.batches > mostRequests {
		t.Errorf("%d rounds of %d callers were %d requests, at most %d are expected", rounds, callers, cl.batches,
			mostRequests)
	}
}

// Requests have less work if most of the rest was refused, and not because of single transactions.
func TestMostOfRequest(t *testing.T) {
	for _, c := range []struct {
		before, work, answered, refused int
		most, alone                     int // afterwards
	}{
		{0, 300, 300, 0, 0, 0}, // it was not full
		{0, 300, 100, 200, 100, 0},
		{0, 300, 0, 300, 150, 1}, // the first one may be larger than all others
		{0, 300, 10, 5, 0, 5},    // these may be refused whatever they are sent with
		{100, 100, 100, 0, 101, 0},
		{100, 50, 50, 0, 100, 0},
		{1, 1, 1, 0, 2, 0},
	} {
		l, refused, alone := lane{most: c.before, queue: []*work{{}}}, make([]*work, c.refused), 0
		for i := range refused {
			refused[i] = &work{sent: true}
		}
		l.tooLarge(c.work, c.answered, refused)
		for i, w := range refused {
			if w.alone {
				alone++
			}
			if l.queue[i] != w || w.sent {
				t.Errorf("%+v: work %d does not wait again", c, i)
			}
		}
		if l.most != c.most || alone != c.alone || len(l.queue) != c.refused+1 {
			t.Errorf("%+v: at most %d, %d alone", c, l.most, alone)
		}
	}
}

// Transactions side by side are executed and refused each by itself, and are answered in their order.
func TestSideBySide(t *testing.T) {
	c, cl := serveTable(t, 1)
	refused := func(err error, code store.Code) bool {
		why, is := errors.AsType[*store.Error](err)
		return is && why.Code == code
	}
	outcomes, errs := cl.Together(t.Context(), []store.Op{add("t")}, nil,
		[]store.Op{{Kind: store.Get, Table: "t", Key: "missing"}}, []store.Op{add("t"), add("t")})
	if errs[0] != nil || !refused(errs[1], store.Invalid) || !refused(errs[2], store.NotFound) || errs[3] != nil {
		t.Fatalf("errors: %v", errs)
	}
	if n := outcomes[0].Results[0].Value; len(outcomes[3].Results) != 2 || n != 1 && n != 3 {
		t.Errorf("outcomes: %+v", outcomes)
	}
	c.mu.Lock() // nothing is answered
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan []error)
	go func() {
		_, errs := cl.Together(ctx, []store.Op{add("t")}, []store.Op{{Kind: store.Get, Table: "t", Key: "k"}})
		gaveUp <- errs
	}()
	sent := func() bool {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		return len(cl.lanes[reads].sent) == 1 && len(cl.lanes[writes].sent) == 1
	}
	for !sent() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	errs = <-gaveUp
	c.mu.Unlock()
	if _, unknown := errors.AsType[*UnknownError](errs[0]); !unknown || !errors.Is(errs[1], context.Canceled) {
		t.Errorf("errors of who has given up: %v", errs)
	}
}

// A controller without a store says nothing of writes that another one may have executed; and writes go on after it.
func TestNoStoreAfterExecution(t *testing.T) {
	c := serve(t, 1)
	c.healthy.Store(true)
	var lose atomic.Bool
	var held atomic.Int64 // executed, and not answered
	release := make(chan struct{})
	_, h := rpc.New().Serve(backend(func(ctx context.Context, q ledger.Call) ([]byte, error) {
		answer, err := c.call(ctx, q)
		if lose.Load() {
			held.Add(1)
			<-release
			return nil, ledger.ErrUnanswered
		}
		return answer, err
	}))
	cl, err := New("n", listen(t, h), listen(t, http.NotFoundHandler()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	lose.Store(true)
	var calling sync.WaitGroup
	for i := range int64(store.Window) {
		calling.Go(func() { // a batch waits for no others
			_, err := cl.Batch(t.Context(), []store.Op{add("t")}, []store.Op{add("t")})
			if _, unknown := errors.AsType[*UnknownError](err); !unknown {
				t.Errorf("it may be executed: %v", err)
			}
		})
		await.Until(t, "a batch to be executed", func() bool { return held.Load() > i })
	}
	lose.Store(false)
	close(release)
	calling.Wait()
	for n := 0; ; n++ { // the first attempts may be at the controller without a store
		if _, err := cl.Do(t.Context(), add("t")); err == nil {
			break
		} else if n > 10 {
			t.Fatal(err)
		}
	}
}

// A caller that has given up may change what it wrote, and leaves nothing behind.
func TestChangedAfterGivenUp(t *testing.T) {
	c := serve(t, 1)
	c.healthy.Store(true)
	var down atomic.Bool
	asked := make(chan struct{}, 1000)
	_, h := rpc.New().Serve(backend(func(ctx context.Context, q ledger.Call) ([]byte, error) {
		if down.Load() {
			asked <- struct{}{}
			return nil, errors.New("nobody leads")
		}
		return c.call(ctx, q)
	}))
	cl, err := New("n", listen(t, h))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	value := []byte("first")
	ctx, cancel := context.WithCancel(t.Context())
	var canceling sync.WaitGroup
	canceling.Go(func() { <-asked; <-asked; cancel() })
	_, err = cl.Do(ctx, store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(value)})
	canceling.Wait()
	copy(value, "OTHER")
	if _, unknown := errors.AsType[*UnknownError](err); !unknown {
		t.Error(err)
	}
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, _ = cl.Do(ctx, add("t"))
		cancel()
	}
	cl.mu.Lock()
	if left := len(cl.lanes[writes].queue); left > 0 {
		t.Errorf("%d requests that were given up wait", left)
	}
	cl.mu.Unlock()
	down.Store(false)
	if _, err := cl.Do(t.Context(), add("t")); err != nil {
		t.Error(err)
	}
	out, err := cl.Do(t.Context(), store.Op{Kind: store.List, Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range out.Results[0].Rows {
		if got := string(row.Columns[0].Value); got == "OTHER" {
			t.Errorf("%s is stored", got)
		}
	}
}

// What one caller may not do is refused to that one only, although others are sent together with it.
func TestDeniedAlone(t *testing.T) {
	c := serve(t, 1)
	c.healthy.Store(true)
	_, h := rpc.New().Serve(backend(func(ctx context.Context, q ledger.Call) ([]byte, error) {
		var r store.Request
		if err := r.Decode(q.Message); err != nil {
			return nil, err
		}
		for _, ops := range r.Transactions {
			if ops[0].Kind == store.Upload {
				return store.Refusal(q.Message, store.Fail(store.Denied, "it may not upload")), nil
			}
		}
		return c.call(ctx, q)
	}))
	cl, err := New("n", listen(t, h))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	var calling sync.WaitGroup
	for i := range 50 {
		calling.Go(func() {
			o, denied := add("t"), i%10 == 0
			if denied {
				o = store.Op{Kind: store.Upload, Component: "f", Source: "def run(args): return 1"}
			}
			_, err := cl.Do(t.Context(), o)
			if refused, is := errors.AsType[*store.Error](err); denied != is || denied && refused.Code != store.Denied ||
				!denied && err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	calling.Wait()
}
