package rpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// through returns a message after a way through protobuf's own decoder, its JSON, and back. Fields that store.proto
// does not have are lost.
func through(t testing.TB, name protoreflect.Name, encoded []byte) []byte {
	t.Helper()
	m := newMessage(name)
	if err := proto.Unmarshal(encoded, m); err != nil {
		t.Fatal(err)
	}
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out Request
	var in any = &out
	switch name {
	case "Response":
		in = (*Response)(&out)
	case "WatchRequest":
		in = (*WatchRequest)(&out)
	}
	if err := (text{}).Unmarshal(b, in); err != nil {
		t.Fatal(err)
	}
	return out.Encoded
}

func byName(a, b store.Column) int { return strings.Compare(a.Name, b.Name) }

// The codec by hand is that of store.proto.
func TestRequest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		columns := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) store.Column {
			return store.Column{Name: rapid.StringN(1, 4, 9).Draw(t, "name"), Value: rapid.SliceOfN(rapid.Byte(), 0,
				200).Draw(t, "value")}
		}), 0, 3, func(c store.Column) string { return c.Name })
		texts := rapid.StringN(0, 5, 20)
		r := store.Request{ID: rapid.Uint64().Draw(rt, "id"), Namespace: texts.Draw(rt, "namespace"),
			Session: rapid.Uint64().Draw(rt, "session"), Seq: rapid.Uint64().Draw(rt, "seq"), Acked: 7,
			MaxAge: rapid.Uint32().Draw(rt, "age")}
		for range rapid.IntRange(0, 3).Draw(rt, "transactions") {
			ops := []store.Op{}
			for range rapid.IntRange(0, 3).Draw(rt, "ops") {
				o := store.Op{Kind: store.Kind(rapid.IntRange(0, int(store.Run)).Draw(rt, "kind")),
					Table: texts.Draw(rt, "table"), Key: texts.Draw(rt, "key"), Column: texts.Draw(rt, "column"),
					Delta: rapid.Int64().Draw(rt, "delta"), Start: "s", End: texts.Draw(rt, "end"), Prefix: "p",
					Limit: rapid.IntRange(0, store.MaxPage).Draw(rt, "limit"), Component: texts.Draw(rt, "component"),
					Source: texts.Draw(rt, "source")}
				if c := columns.Draw(rt, "columns"); len(c) > 0 {
					slices.SortFunc(c, byName)
					o.Columns = c
				}
				if rapid.Bool().Draw(rt, "conditional") {
					v := rapid.Uint64Range(0, 2).Draw(rt, "version")
					o.Condition = &store.Condition{Version: &v, Columns: store.Columns{{Name: "a", Value: []byte("b")}}}
					o.Only = []string{"x", "y"}
					o.Definition = &store.Definition{Columns: []string{"c", "d"}, RefersTo: "e", Through: "d"}
				}
				ops = append(ops, o)
			}
			r.Transactions = append(r.Transactions, ops)
		}
		encoded := r.Append(nil)
		for _, b := range [][]byte{encoded, through(t, "Request", encoded)} {
			var got store.Request
			err := got.Decode(b)
			for _, ops := range got.Transactions { // those of a map have no order
				for _, o := range ops {
					slices.SortFunc(o.Columns, byName)
				}
			}
			if err != nil || !reflect.DeepEqual(got, r) {
				rt.Fatalf("%+v (%v), want %+v", got, err, r)
			}
		}
	})
}

func TestWatchRequest(t *testing.T) {
	after := uint64(0)
	r := store.WatchRequest{Namespace: "n", Table: "t", Prefix: "p", After: &after, Revisions: []uint64{1, 1 << 40},
		Tables: []string{"a", "b"}, GatherMS: 300}
	encoded := r.Append(nil)
	for _, b := range [][]byte{encoded, through(t, "WatchRequest", encoded)} {
		var got store.WatchRequest
		if err := got.Decode(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v (%v), want %+v", got, err, r)
		}
	}
}

func TestResponse(t *testing.T) {
	row := store.Row{Key: "k", Version: 9,
		Columns: store.Columns{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{}}}}
	table := store.Table{Version: 3, Definition: store.Definition{Columns: []string{"a"}, RefersTo: "b", Through: "a"}}
	r := store.Response{ID: 8, Error: &store.Error{Code: store.Unknown, Message: "why", Op: -1}, Outcomes: []store.Outcome{
		{Revision: 5, Results: []store.Result{{Version: 4, Row: &row, Rows: []store.Row{row, row}, Next: "n",
			Value: math.MinInt64, Session: 2, Tables: map[string]store.Table{"t": table, "u": table},
			Components: map[string]store.Component{"c": {Version: 4, Source: "s"}, "d": {}}}, {}}},
		{Error: &store.Error{Code: store.Conflict, Message: strings.Repeat("m", 300), Op: 0}}, {},
		{Revisions: []uint64{0, 1 << 40, 7}}}}
	encoded := r.Append(nil)
	for _, b := range [][]byte{encoded, through(t, "Response", encoded)} {
		var got store.Response
		err := got.Decode(b)
		for _, row := range append(slices.Clone(got.Outcomes[0].Results[0].Rows), *got.Outcomes[0].Results[0].Row) {
			slices.SortFunc(row.Columns, byName)
		}
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v (%v), want %+v", got, err, r)
		}
	}
}

// The names of kinds and codes are those of store.proto.
func TestNames(t *testing.T) {
	for path, name := range map[string]func(i int) string{
		"Op.Kind":    func(i int) string { return store.Kind(i).String() },
		"Error.Code": func(i int) string { return store.Code(i).String() },
	} {
		of, enum, _ := strings.Cut(path, ".")
		values := File().Messages().ByName(protoreflect.Name(of)).Enums().ByName(protoreflect.Name(enum)).Values()
		for i := range values.Len() {
			if v := values.Get(i); int(v.Number()) != i || string(v.Name()) != name(i) {
				t.Errorf("%s %d is %s, and here %s", path, v.Number(), v.Name(), name(i))
			}
		}
		if next := name(values.Len()); next != fmt.Sprint(values.Len()) {
			t.Errorf("store.proto has no %s %s", path, next)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((&store.Request{ID: 1, Namespace: "n", Transactions: [][]store.Op{{{Kind: store.Get, Key: "k"}}}}).Append(nil))
	f.Add((&store.Response{Outcomes: []store.Outcome{{Results: []store.Result{{Next: "n"}}}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, again store.Request
		if q.Decode(b) == nil {
			if err := again.Decode(through(t, "Request", q.Append(nil))); err != nil {
				t.Error(err)
			}
		}
		var r store.Response
		if r.Decode(b) == nil {
			through(t, "Response", r.Append(nil))
		}
	})
}

// serve serves the store of one core, or what call does, and returns the address.
func serve(t testing.TB, call func(context.Context, ledger.Call) ([]byte, error)) (address string) {
	t.Helper()
	if call == nil {
		return serveApplication(t, New())
	}
	return listen(t, New(), call)
}

// serveApplication serves the store of one core, and returns the address.
func serveApplication(t testing.TB, a Application) (address string) {
	t.Helper()
	core, err := ledger.New([]ledger.Application{a}, ledger.Limits{})
	if err == nil {
		err = core.Lead(1, time.Now().UnixNano())
	}
	if err != nil {
		t.Fatal(err)
	}
	core.ObserveTables(store.Name, a.Follow(0))
	var mu sync.Mutex // guards core
	return listen(t, a, func(_ context.Context, q ledger.Call) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		err := core.Call(q)
		if entry, ok := core.Cut(); ok && err == nil {
			err = core.Commit(entry)
		}
		if err != nil {
			return nil, err
		}
		return core.Answers()[0].Message, nil
	})
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

func (b backend) Read(context.Context, ledger.Actor, []byte) ([]byte, bool) { return nil, false }

// listen serves an application, and returns the address.
func listen(t testing.TB, a Application, call func(context.Context, ledger.Call) ([]byte, error)) (address string) {
	t.Helper()
	return listenTo(t, a, backend(call))
}

func listenTo(t testing.TB, a Application, behind ledger.Backend) (address string) {
	t.Helper()
	_, h := a.Serve(behind)
	s := httptest.NewUnstartedServer(h)
	s.Listener = mtls.Plain(s.Listener, slog.New(slog.DiscardHandler), "the API") // as a controller does
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Any client of HTTP can use the store with JSON, by both of its names.
func TestJSON(t *testing.T) {
	for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
		t.Run(kind, func(t *testing.T) { testJSON(t, kind) })
	}
}

func testJSON(t *testing.T, kind string) {
	address := serve(t, nil)
	for _, step := range []struct{ body, want string }{
		{`{"namespace":"n","transactions":[{"ops":[{"op":"create_table","table":"t"},
			{"op":"put","table":"t","key":"k","columns":{"value":"NQ=="}}]}]}`,
			`{"outcomes":[{"revision":"2","results":[{"version":"1"},{"version":"2"}]}]}`},
		{`{"id":3,"namespace":"n","transactions":[{"ops":[{"op":"get","table":"t","key":"k","only":["value"]}]}]}`,
			`{"id":"3","outcomes":[{"revision":"2","results":[{"version":"2",` +
				`"row":{"key":"k","version":"2","columns":{"value":"NQ=="}}}]}]}`},
		{`{"namespace":"n","transactions":[{"ops":[{"op":"get","table":"t","key":"l"}]}]}`,
			`{"outcomes":[{"error":{"code":"not_found","message":"there is no row \"l\"","op":0}}]}`},
		{`{"namespace":"/","transactions":[{}]}`, `{"error":{"code":"invalid",`},
		{`{"namespace":"n","transaction":[{}]}`, `"code":"invalid_argument"`},
		{`{`, `"code":"invalid_argument"`},
	} {
		r, err := http.Post("http://"+address+do, kind, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if plain := strings.ReplaceAll(string(got), " ", ""); err != nil ||
			!strings.Contains(plain, strings.ReplaceAll(step.want, " ", "")) {
			t.Errorf("%s: %s (%v), want %s", step.body, got, err, step.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Clients of all protocols are served.
func TestProtocols(t *testing.T) {
	address := serve(t, nil)
	via := Transport(nil)
	defer via.CloseIdleConnections()
	request := store.Request{ID: 4, Namespace: "n", Transactions: [][]store.Op{{{Kind: store.ListTables}}}}
	for name, o := range map[string]connect.ClientOption{"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
		"Connect": connect.WithClientOptions()} {
		c := connect.NewClient[Request, Response](&http.Client{Transport: via}, "http://"+address+do, o,
			connect.WithCodec(protobuf{}))
		var out store.Response
		r, err := c.CallUnary(t.Context(), connect.NewRequest(&Request{request.Append(nil)}))
		if err == nil {
			err = out.Decode(r.Msg.Encoded)
		}
		if err != nil || out.ID != 4 || len(out.Outcomes) != 1 || out.Outcomes[0].Error != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		large := bytes.Repeat([]byte{0}, store.MaxRequest+1)
		if _, err := c.CallUnary(t.Context(), connect.NewRequest(&Request{large})); connect.CodeOf(err) !=
			connect.CodeResourceExhausted {
			t.Errorf("%s, a large request: %v", name, err)
		}
	}
}

// Messages do not become parts of others: the answers to several calls are in one buffer.
func TestSharedBuffer(t *testing.T) {
	const requests = 2000
	shared := bytes.Repeat((&store.Response{Error: store.Fail(store.Failed, "%0100d", 7)}).Append(nil), 64)
	size := len(shared) / 64
	address := serve(t, func(_ context.Context, q ledger.Call) ([]byte, error) {
		var r store.Request
		if err := r.Decode(q.Message); err != nil || r.Namespace != "n" {
			t.Errorf("%q is received: %v", q.Message, err)
		}
		at := int(r.ID) % 64 * size
		return shared[at : at+size], nil
	})
	via := Transport(nil)
	defer via.CloseIdleConnections()
	caller := newClient[Request, Response](via, address, do)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for n := range requests / 8 {
				r := store.Request{ID: uint64(n*8 + i), Namespace: "n", Transactions: [][]store.Op{{{Key: "k"}}}}
				var out store.Response
				a, err := caller.CallUnary(t.Context(), connect.NewRequest(&Request{r.Append(nil)}))
				if err == nil {
					err = out.Decode(a.Msg.Encoded)
				}
				if err != nil || out.Error.Message != fmt.Sprintf("%0100d", 7) {
					t.Errorf("%+v, %v", out, err)
					return
				}
			}
		})
	}
	clients.Wait()
}

// BenchmarkDo is a request of one update, as the client and the server execute it, without consensus.
func BenchmarkDo(b *testing.B) {
	address := serve(b, nil)
	caller := NewCaller(nil, address)
	defer caller.Close()
	ask := func(op store.Op) {
		r := store.Request{Namespace: "n", Transactions: [][]store.Op{{op}}}
		if out, err := caller.Do(b.Context(), &r); err != nil || out.Error != nil || out.Outcomes[0].Error != nil {
			b.Errorf("%+v, %v", out, err)
		}
	}
	ask(store.Op{Kind: store.CreateTable, Table: "t"})
	b.SetParallelism(100)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ask(store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value([]byte("v"))})
		}
	})
}
