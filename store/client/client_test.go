package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// controllers serve a namespace, at several addresses. Unless they are healthy, they lose requests and answers.
type controllers struct {
	t         *testing.T
	addresses []string
	served    http.Handler
	healthy   atomic.Bool

	mu     sync.Mutex // guards the fields below
	groups []*ledger.Core
	now    time.Time
	id     uint64
	rand   *rand.Rand
	fates  int // of a call; three of these are bad
}

func serve(t *testing.T, addresses int) *controllers {
	t.Helper()
	return serveGroups(t, addresses, 1)
}

func serveGroups(t *testing.T, addresses, groups int) *controllers {
	t.Helper()
	c := &controllers{t: t, now: time.Now(), rand: rand.New(rand.NewPCG(1, 2)), fates: 4}
	a := rpc.New()
	for i := range groups {
		core, err := ledger.New([]ledger.Application{store.New()}, ledger.Limits{})
		if err == nil {
			err = core.Lead(1, c.now.UnixNano())
		}
		if err != nil {
			t.Fatal(err)
		}
		core.ObserveTables(store.Name, a.Follow(uint64(i)))
		c.groups = append(c.groups, core)
	}
	_, c.served = a.Serve(backend(c.call))
	for range addresses {
		c.addresses = append(c.addresses, listen(t, c.served))
	}
	return c
}

// backend is a ledger.Backend that calls itself.
type backend func(context.Context, ledger.Call) ([]byte, error)

func (b backend) Call(ctx context.Context, q ledger.Call) ([]byte, error) { return b(ctx, q) }

func (b backend) Begin(q ledger.Call, within time.Duration, w ledger.Waiter) (uint64, bool) {
	go func() { // ends with the call
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		w.Answer(b(ctx, q))
		w.Flush()
	}()
	return 0, true
}

func (b backend) End(uint64) bool { return false }

func (b backend) Replica(ledger.Actor) bool { return true }

// elsewhere is a backend without replicas.
type elsewhere struct{ backend }

func (elsewhere) Replica(ledger.Actor) bool { return false }

func (b backend) Read(context.Context, ledger.Actor, []byte) ([]byte, bool) { return nil, false }

// listen serves HTTP, and returns the address.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// gone returns an address at which nobody listens.
func gone(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.Listener.Addr().String()
}

func (c *controllers) client() *Client {
	c.t.Helper()
	return c.clientOf("n")
}

func (c *controllers) clientOf(namespace string) *Client {
	c.t.Helper()
	cl, err := New(namespace, c.addresses...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// serveTable returns healthy controllers, and a client whose namespace has a table t.
func serveTable(t *testing.T, addresses int) (*controllers, *Client) {
	t.Helper()
	c := serve(t, addresses)
	c.healthy.Store(true)
	cl := c.client()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	return c, cl
}

// call executes a call, unless it is lost.
func (c *controllers) call(_ context.Context, q ledger.Call) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fate := c.rand.IntN(c.fates)
	if c.healthy.Load() {
		fate = 3
	}
	if fate == 0 {
		return nil, errors.New("nobody leads")
	}
	answer, err := c.execute(q)
	switch fate {
	case 1:
		return nil, ledger.ErrUnanswered
	case 2: // it comes twice
		return c.execute(q)
	}
	return answer, err
}

// execute executes a call and commits it.
func (c *controllers) execute(q ledger.Call) ([]byte, error) {
	c.id++
	q.ID = c.id
	var numbers []uint64
	for i := range c.groups {
		numbers = append(numbers, uint64(i))
	}
	core := c.groups[store.New().Place(q.Actor.Shard, numbers)]
	err := core.Call(q)
	if err != nil { // it does not lead
		return nil, err
	}
	entry, ok := core.Cut()
	if ok {
		err = core.Commit(entry)
	}
	answers := core.Answers()
	if err != nil || len(answers) != 1 || answers[0].Failed {
		c.t.Errorf("%+v, %v", answers, err)
		return nil, ledger.ErrCallFailed
	}
	return answers[0].Message, nil
}

// pass lets ledger time go by.
func (c *controllers) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, core := range c.groups {
		core.Tick(c.now.UnixNano())
		if entry, ok := core.Cut(); ok {
			if err := core.Commit(entry); err != nil {
				c.t.Error(err)
			}
		}
	}
}

func add(table string) store.Op { return store.Op{Kind: store.Add, Table: table, Key: "k", Delta: 1} }

// Many requests of one client at a time, of which a half and more are lost or come twice, take effect once.
func TestOnce(t *testing.T) {
	c := serve(t, 3)
	cl := c.client()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	const workers, each = 2 * store.Window, 6
	var seen sync.Map
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for range each {
				out, err := cl.Do(t.Context(), add("t"))
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := seen.LoadOrStore(out.Results[0].Value, true); twice {
					t.Errorf("two requests were answered with %d", out.Results[0].Value)
				}
			}
		})
	}
	working.Wait()
	out, err := cl.Do(t.Context(), store.Op{Kind: store.Get, Table: "t", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Results[0].Row.Columns[0].Value); got != fmt.Sprint(workers*each) {
		t.Errorf("the counter is %s, want %d", got, workers*each)
	}
}

// A client whose session has expired begins another one.
func TestSessionExpires(t *testing.T) {
	c := serve(t, 1)
	c.healthy.Store(true)
	cl := c.client()
	for i := range 3 {
		if i == 0 {
			if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := cl.Do(t.Context(), add("t")); err != nil || out.Results[0].Value != int64(i)+1 {
			t.Errorf("%+v, %v", out, err)
		}
		c.pass(2 * store.SessionTime)
	}
}

// What a namespace refuses is not repeated. What nobody answers is, until the context ends.
func TestErrors(t *testing.T) {
	c := serve(t, 2)
	cl := c.client()
	for _, o := range []store.Op{{Kind: store.Get, Table: "none", Key: "k"}, add("none")} {
		_, err := cl.Do(t.Context(), o)
		if refused, is := errors.AsType[*store.Error](err); !is || refused.Code != store.NoTable || refused.Op != 0 {
			t.Errorf("%s: %v", o.Kind, err)
		}
	}
	without, err := New("n", listen(t, http.NotFoundHandler()))
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.Do(t.Context(), add("t")); err == nil || !strings.Contains(err.Error(), "add store to `apps`") {
		t.Errorf("without a store: %v", err)
	}
	if _, err := New("n"); err == nil {
		t.Error("a client without addresses")
	}
	for _, ns := range []string{"", "a/b", "..", "x?y", "%78"} {
		if _, err := New(ns, "127.0.0.1:1"); err == nil {
			t.Errorf("a client of namespace %q", ns)
		}
	}
	put := store.Op{Kind: store.Put, Table: "t", Key: "\xff", Columns: store.Value(nil)}
	if _, err := cl.Do(t.Context(), put); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a key that is not UTF-8: %v", err)
	}
}

// A client whose requests nobody answers says whether they may have been executed.
func TestNobodyAnswers(t *testing.T) {
	for _, sent := range []bool{true, false} {
		_, cl := serveTable(t, 1)
		if _, err := cl.Do(t.Context(), add("t")); err != nil {
			t.Fatal(err)
		}
		received := make(chan struct{}, 1)
		_, h := rpc.New().Serve(backend(func(ctx context.Context, _ ledger.Call) ([]byte, error) {
			received <- struct{}{}
			<-ctx.Done()
			return nil, ledger.ErrUnanswered
		}))
		address := listen(t, h)
		if !sent {
			address = gone(t)
		}
		deaf, err := New("n", address)
		if err != nil {
			t.Fatal(err)
		}
		deaf.session = 1
		for _, o := range []store.Op{add("t"), {Kind: store.ListTables}} {
			ctx, cancel := context.WithCancel(t.Context())
			if sent {
				go func() { <-received; cancel() }() // ends with the request
			} else {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			_, err := deaf.Do(ctx, o)
			_, unknown := errors.AsType[*UnknownError](err)
			if unknown != (sent && o.Kind.Writes()) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, sent %v: %v", o.Kind, sent, err)
			}
			cancel()
		}
		deaf.session = 0
		deaf.Close()
	}
}

// A client that was idle until its session had expired, and whose controller is dead, goes on with another one.
func TestIdleFailover(t *testing.T) {
	c, cl := serveTable(t, 1)
	c.pass(2 * store.SessionTime)
	id := cl.session
	cl.Close()
	again, err := New("n", gone(t), c.addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.session = id
	if out, err := again.Do(t.Context(), add("t")); err != nil || out.Results[0].Value != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A controller that does not execute the second attempt says nothing of the first one.
func TestSecondAttemptFails(t *testing.T) {
	c := serve(t, 1)
	c.healthy.Store(true)
	n := 0
	_, h := rpc.New().Serve(backend(func(ctx context.Context, q ledger.Call) ([]byte, error) {
		switch n++; n {
		case 1, 2: // it opens a session
			return c.call(ctx, q)
		case 3:
			return nil, ledger.ErrUnanswered
		}
		return nil, ledger.ErrCallFailed
	}))
	cl, err := New("n", listen(t, h))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	_, err = cl.Do(t.Context(), add("t"))
	if _, unknown := errors.AsType[*UnknownError](err); !unknown || !errors.Is(err, ledger.ErrCallFailed) &&
		!strings.Contains(err.Error(), "failed") {
		t.Errorf("%v", err)
	}
}

// Transactions of a batch have outcomes of their own, and those of many callers are sent together.
func TestBatch(t *testing.T) {
	c, cl := serveTable(t, 1)
	put := store.Op{Kind: store.Create, Table: "t", Key: "k", Columns: store.Value([]byte("1"))}
	out, err := cl.Batch(t.Context(), []store.Op{put}, []store.Op{put}, []store.Op{add("t"), {Kind: store.Get, Table: "t",
		Key: "none"}}, []store.Op{add("t")})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Error != nil || out[1].Error == nil || out[1].Error.Code != store.Exists || out[2].Error == nil ||
		out[2].Error.Op != 1 || out[3].Error != nil || out[3].Results[0].Value != 2 {
		t.Errorf("%+v", out)
	}
	c.mu.Lock()
	before := c.id
	var callers sync.WaitGroup
	for range 4 * store.Window {
		callers.Go(func() {
			if _, err := cl.Do(t.Context(), add("t")); err != nil {
				t.Error(err)
			}
		})
	}
	for cl.waiting() < 4*store.Window {
		time.Sleep(time.Millisecond)
	}
	c.mu.Unlock()
	callers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent := c.id - before; sent >= 4*store.Window {
		t.Errorf("%d requests for %d transactions", sent, 4*store.Window)
	}
}

// A request that was given up does not hold up later ones.
func TestGivenUp(t *testing.T) {
	_, cl := serveTable(t, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * store.Window {
		if _, err := cl.Do(ended, add("t")); err == nil {
			t.Fatal("a request with a context that has ended is answered")
		}
	}
	if out, err := cl.Do(t.Context(), add("t")); err != nil || out.Results[0].Value != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// waiting returns how much work is not answered.
func (c *Client) waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.lanes {
		n += len(c.lanes[i].queue)
		for _, b := range c.lanes[i].sent {
			n += len(b.work)
		}
	}
	return n
}
