package rpc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// encode returns a request that lists the tables of a namespace.
func encode(id uint64, namespace string) []byte {
	r := store.Request{ID: id, Namespace: namespace, Transactions: [][]store.Op{{{Kind: store.ListTables}}}}
	return r.Append(nil)
}

// As many requests as a controller executes wait for a group that has no leader. Requests to another group are executed
// meanwhile, also many from one connection.
func TestOneGroupDoesNotStopOthers(t *testing.T) {
	var waiting atomic.Int64
	end := make(chan struct{})
	defer close(end)
	address := serve(t, func(_ context.Context, q ledger.Call) ([]byte, error) {
		var r store.Request
		if err := r.Decode(q.Message); err != nil {
			t.Error(err)
		}
		if r.Namespace == "dead" {
			waiting.Add(1)
			<-end
		}
		return (&store.Response{ID: r.ID}).Append(nil), nil
	})
	for range maxExecuting/maxOfConnection + 2 {
		s := streams["frames"](t, address)
		for id := range uint64(maxOfConnection) {
			if err := s.Send(encode(id+1, "dead")); err != nil {
				t.Fatal(err)
			}
		}
	}
	await.Until(t, "all slots to be taken", func() bool { return waiting.Load() >= maxExecuting })
	s := streams["frames"](t, address)
	for id := range uint64(2 * maxExecuting) {
		if err := s.Send(encode(id+1, "n")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * maxExecuting {
		if _, err := s.Receive(); err != nil {
			t.Fatal(err)
		}
	}
}

// However many connections there are, the requests that are executed at a time have a bound, and what is beyond is
// executed later.
func TestExecutingIsBounded(t *testing.T) {
	var now, most atomic.Int64
	all := make(chan struct{})
	address := serve(t, func(_ context.Context, q ledger.Call) ([]byte, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-all
		return (&store.Response{}).Append(nil), nil
	})
	const connections = 12
	list := []requests{}
	for range connections {
		s := streams["frames"](t, address)
		for id := range uint64(maxOfConnection) {
			if err := s.Send(encode(id+1, "n")); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, s)
	}
	await.Until(t, "the bound to be reached", func() bool { return now.Load() >= maxExecuting })
	close(all)
	for _, s := range list {
		for range maxOfConnection {
			if _, err := s.Receive(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := most.Load(); n > maxExecuting+connections*ownTurns {
		t.Errorf("%d requests were executed at a time", n)
	}
}

// A request whose handler panics gives its place back.
func TestStreamsAreGivenBack(t *testing.T) {
	s := &server{}
	h := s.endless(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for range maxStreams + 1 {
		func() {
			defer func() { _ = recover() }()
			h(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, frames, nil))
		}()
	}
	if n := s.streams.Load(); n != 0 {
		t.Errorf("%d streams that have ended count", n)
	}
}

// A peer behind a slow link takes longer than patience for a frame, and reads something all the time.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 200 * time.Millisecond
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		f := newFrameConn(ours, nil, patience, 0)
		frame := make([]byte, 4*maxPiece)
		sent := make(chan error, 1)
		go func() { sent <- f.send(frame) }()
		for range 4 {
			time.Sleep(patience - 1)
			if _, err := io.CopyN(io.Discard, theirs, maxPiece); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.CopyN(io.Discard, theirs, 4); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// A body before the upgrade would be taken for frames.
func TestUpgradeWithBody(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+frames+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+
		protocol+"\r\nContent-Length: 4\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 16)
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 426 ") {
		t.Errorf("%q, %v", answer, err)
	}
}

// A controller that answers one request several times does not stop the calls of others.
func TestAnswersThatComeTwice(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the connection
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := make([]byte, 64<<10)
		_, _ = conn.Read(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+
			"\r\n\r\n")
		f := newFrameConn(conn, nil, time.Minute, 0)
		for id := uint64(1); ; id++ {
			if _, err := conn.Read(in); err != nil {
				return
			}
			b := (&store.Response{ID: id}).Append(nil)
			b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
			_, _ = f.Write([]byte(strings.Repeat(string(b), 5)))
		}
	}()
	c := NewCaller(nil, l.Addr().String())
	defer c.Close()
	for range 20 {
		if _, err := c.Do(t.Context(), &store.Request{Namespace: "n"}); err != nil {
			t.Fatal(err)
		}
	}
}
