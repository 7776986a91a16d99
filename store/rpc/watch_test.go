package rpc

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// Any client of HTTP/1.1 can watch, with JSON in the frames of Connect.
func TestWatchJSON(t *testing.T) {
	address := serve(t, nil)
	post := func(body string) {
		t.Helper()
		r, err := http.Post("http://"+address+do, "application/json", strings.NewReader(body))
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		r.Body.Close()
	}
	post(`{"namespace":"n","transactions":[{"ops":[{"op":"create_table","table":"t"}]}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := `{"namespace":"n","after":"1"}`
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+watch, strings.NewReader(
		string([]byte{0, 0, 0, 0, byte(len(body))})+body))
	if err != nil {
		t.Fatal(err)
	}
	in.Header.Set("Content-Type", "application/connect+json")
	r, err := http.DefaultClient.Do(in)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer r.Body.Close()
	next := func() string {
		t.Helper()
		var head [5]byte
		if _, err := io.ReadFull(r.Body, head[:]); err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, int(head[3])<<8|int(head[4]))
		if _, err := io.ReadFull(r.Body, frame); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(frame), " ", "")
	}
	if got := next(); got != `{"revision":"1"}` {
		t.Errorf("the first response is %s", got)
	}
	post(`{"namespace":"n","transactions":[{"ops":[{"op":"put","table":"t","key":"k","columns":{"value":"NQ=="}}]}]}`)
	const want = `{"revision":"2","changes":[{"revision":"2","table":"t","key":"k","columns":{"value":"NQ=="}}]}`
	got := next()
	for got == `{"revision":"1"}` { // the controller says that it runs
		got = next()
	}
	if got != want {
		t.Errorf("the next response is %s, want %s", got, want)
	}
}

// A watch that is not read is reset, and can go on after what was read.
func TestWatchNotRead(t *testing.T) {
	a := New()
	a.sendTimeout = 50 * time.Millisecond
	address := serveApplication(t, a)
	via := Transport(nil)
	defer via.CloseIdleConnections()
	caller := NewCaller(nil, address)
	defer caller.Close()
	put := func(o store.Op) {
		t.Helper()
		r, err := caller.Do(t.Context(), &store.Request{Namespace: "n", Transactions: [][]store.Op{{o}}})
		if err != nil || r.Error != nil || r.Outcomes[0].Error != nil {
			t.Fatal(r, err)
		}
	}
	put(store.Op{Kind: store.CreateTable, Table: "t"})
	after := uint64(1)
	w, err := OpenWatch(t.Context(), via, address, "", store.WatchRequest{Namespace: "n", After: &after})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Receive(); err != nil {
		t.Fatal(err)
	}
	const rows = 100 // more than the buffers of the connection hold
	for range rows {
		put(store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Value(make([]byte, store.MaxValue))})
	}
	time.Sleep(4 * a.sendTimeout)
	for err == nil {
		var r store.WatchResponse
		if r, err = w.Receive(); err == nil {
			after = r.Revision
		}
	}
	if after > rows {
		t.Fatal("all changes were told to a client that did not read them")
	}
	for after < rows+1 { // one whose reader is slow may be reset again
		again, err := OpenWatch(t.Context(), via, address, "", store.WatchRequest{Namespace: "n", After: &after})
		if err != nil {
			t.Fatal(err)
		}
		for told := after; told < rows+1; {
			r, err := again.Receive()
			if err != nil {
				break
			}
			for _, c := range r.Changes {
				if told++; c.Revision != told {
					t.Fatalf("told %d where %d is next", c.Revision, told)
				}
			}
			after = told
		}
		again.Close()
	}
}
