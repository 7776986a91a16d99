package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// route is where the store serves requests.
var route = store.New().Routes()[0]

// controllers serve a namespace, at several addresses. Unless they are healthy, they lose requests and answers.
type controllers struct {
	t         *testing.T
	addresses []string
	healthy   atomic.Bool

	mu   sync.Mutex // guards the fields below
	core *ledger.Core
	now  time.Time
	id   uint64
	rand *rand.Rand
}

func serve(t *testing.T, addresses int) *controllers {
	t.Helper()
	c := &controllers{t: t, now: time.Now(), rand: rand.New(rand.NewPCG(1, 2))}
	var err error
	if c.core, err = ledger.New([]ledger.Application{store.New()}, ledger.Limits{}); err == nil {
		err = c.core.Lead(1, c.now.UnixNano())
	}
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apps/store/{namespace}", c.answer)
	for range addresses {
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		c.addresses = append(c.addresses, strings.TrimPrefix(s.URL, "http://"))
	}
	return c
}

func (c *controllers) client() *Client {
	c.t.Helper()
	cl, err := New("n", c.addresses...)
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

func (c *controllers) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	fate := c.rand.IntN(4)
	if c.healthy.Load() {
		fate = 3
	}
	var a httpcall.Response
	if fate > 0 {
		a = c.execute(r.PathValue("namespace"), body)
	}
	if fate == 2 { // it comes twice
		a = c.execute(r.PathValue("namespace"), body)
	}
	c.mu.Unlock()
	switch {
	case fate == 0:
		http.Error(w, "nobody leads", http.StatusServiceUnavailable)
	case fate == 1:
		panic(http.ErrAbortHandler) // the answer is lost
	case a.Status != 0:
		w.WriteHeader(a.Status)
		fallthrough
	default:
		_, _ = w.Write(a.Body)
	}
}

// execute executes a request and commits it.
func (c *controllers) execute(ns string, body []byte) httpcall.Response {
	c.id++
	message := httpcall.Encode(httpcall.Request{Values: map[string]string{"namespace": ns}, Body: body})
	err := c.core.Call(ledger.Call{Actor: ledger.Actor{App: store.Name, Shard: ledger.Shard{Key: ledger.Key{S: ns}}},
		Name: route, Message: message, ID: c.id})
	entry, ok := c.core.Cut()
	if err == nil && ok {
		err = c.core.Commit(entry)
	}
	answers := c.core.Answers()
	if err != nil || len(answers) != 1 || answers[0].Failed {
		c.t.Errorf("%s: %+v, %v", body, answers, err)
		return httpcall.Response{Status: http.StatusInternalServerError}
	}
	a, err := httpcall.Decode[httpcall.Response](answers[0].Message)
	if err != nil {
		c.t.Error(err)
	}
	return a
}

// pass lets ledger time go by.
func (c *controllers) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.core.Tick(c.now.UnixNano())
	if entry, ok := c.core.Cut(); ok {
		if err := c.core.Commit(entry); err != nil {
			c.t.Error(err)
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
	if got := string(out.Results[0].Row.Columns[store.DefaultColumn]); got != fmt.Sprint(workers*each) {
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
	nobody := httptest.NewServer(http.NotFoundHandler())
	defer nobody.Close()
	without, err := New("n", strings.TrimPrefix(nobody.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.Do(t.Context(), add("t")); err == nil || !strings.Contains(err.Error(), "add store to `apps`") {
		t.Errorf("without a store: %v", err)
	}

	if _, err := cl.Do(t.Context(), store.Op{Kind: store.CreateTable, Table: "t"}); err != nil {
		t.Fatal(err)
	}
	var giveUp atomic.Pointer[context.CancelFunc]
	aborts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		(*giveUp.Load())()
		panic(http.ErrAbortHandler)
	}))
	defer aborts.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for s, patience := range map[*httptest.Server]time.Duration{aborts: time.Hour, gone: 20 * time.Millisecond} {
		cl.addresses = []string{strings.TrimPrefix(s.URL, "http://")}
		for _, o := range []store.Op{add("t"), {Kind: store.ListTables}} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			giveUp.Store(&cancel)
			_, err := cl.Do(ctx, o)
			_, unknown := errors.AsType[*UnknownError](err)
			if unknown != (s == aborts && o.Kind.Writes()) || !errors.Is(err, ctx.Err()) {
				t.Errorf("%s that nobody answers: %v", o.Kind, err)
			}
			cancel()
		}
	}
	if _, err := New("n"); err == nil {
		t.Error("a client without addresses")
	}
	for _, ns := range []string{"", "a/b", "..", "x?y", "%78"} {
		if _, err := New(ns, "127.0.0.1:1"); err == nil {
			t.Errorf("a client of namespace %q", ns)
		}
	}
	put := store.Op{Kind: store.Put, Table: "t", Key: "\xff", Columns: map[string][]byte{"value": nil}}
	if _, err := cl.Do(t.Context(), put); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a key that is not UTF-8: %v", err)
	}
}

// A client that was idle until its session had expired, and whose controller is dead, goes on with another one.
func TestIdleFailover(t *testing.T) {
	c, cl := serveTable(t, 2)
	c.pass(2 * store.SessionTime)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	cl.addresses[cl.at.Load()] = strings.TrimPrefix(dead.URL, "http://")
	cl.http.CloseIdleConnections()
	if out, err := cl.Do(t.Context(), add("t")); err != nil || out.Results[0].Value != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A controller that does not execute the second attempt says nothing of the first one.
func TestSecondAttemptFails(t *testing.T) {
	_, cl := serveTable(t, 1)
	n := 0
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "suspended", http.StatusInternalServerError)
	}))
	defer fails.Close()
	cl.addresses = []string{strings.TrimPrefix(fails.URL, "http://")}
	_, err := cl.Do(t.Context(), add("t"))
	if _, unknown := errors.AsType[*UnknownError](err); !unknown || !strings.Contains(err.Error(), "suspended") {
		t.Errorf("%v", err)
	}
}

// Who waits for a session that another request opens gives up with its own context.
func TestWaitForSession(t *testing.T) {
	begun, open := make(chan struct{}), make(chan struct{})
	s := sessions{opening: make(chan struct{}, 1), open: func(context.Context) (uint64, error) {
		close(begun)
		<-open
		return 1, nil
	}}
	var first sync.WaitGroup
	first.Go(func() {
		if _, _, _, err := s.begin(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, _, err := s.begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(open)
	first.Wait()
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
