package rpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// silentClient is after how long without a frame a client counts as gone. It sends one every few seconds.
const silentClient = 30 * time.Second

// frames upgrades a connection, and executes the requests that come on it until it ends.
func (s *server) frames(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), protocol) || r.ProtoMajor != 1 || r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the server would wait for a body
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "this path is for connections of HTTP/1.1 that are upgraded to "+protocol+"; use "+do+" or "+
			stream, http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "upgrade: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	if buffered.Reader.Buffered() > 0 {
		return // it has not waited for the upgrade
	}
	_ = conn.SetDeadline(time.Now().Add(s.sendTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+
		"\r\n\r\n"); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	conn = rawconn.Of(mtls.Unwrapped(conn))
	in := bufio.NewReaderSize(&deadlined{Conn: conn, silence: silentClient}, 64<<10)
	s.serveFrames(r.Context(), newFrameConn(conn, in, s.sendTimeout, store.MaxRequest))
}

// framed is a connection whose requests are executed.
type framed struct {
	*server
	on   *frameConn
	mine turns

	mu   sync.Mutex                // guards open
	open map[*framedRequest]uint64 // begun calls by their id, which end with the connection
}

func (s *server) serveFrames(ctx context.Context, f *frameConn) {
	c := &framed{server: s, on: f, mine: turns{slots: s.executing, fewer: make(chan struct{}, 1)},
		open: map[*framedRequest]uint64{}}
	defer c.endAll()
	ctx, cancel := context.WithCancel(ctx) // which ends with the server
	defer f.end()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	for {
		request, err := f.receive()
		if err != nil {
			return
		}
		if request == nil {
			if f.lives() != nil {
				return
			}
			continue
		}
		c.take(ctx, request)
	}
}

// take begins a request. Most are executed and answered without a goroutine of their own: to start one, and to wake it
// for the answer, takes as long as what it would do.
func (c *framed) take(ctx context.Context, request []byte) {
	q, maxAge, refusal := c.admit(ctx, request)
	r := &framedRequest{framed: c, ctx: ctx, call: q, maxAge: maxAge, slot: c.mine.take(),
		end: time.Now().Add(callTimeout)}
	switch {
	case refusal != nil:
		r.respond(refusal)
		r.Flush()
	case maxAge > 0 || store.Buckets(q.Actor.Shard.Key.S) > 0 || !c.begin(r):
		r.wait()
	}
}

// begin begins the call of a request, if that is possible at once.
func (c *framed) begin(r *framedRequest) bool {
	c.mu.Lock()
	c.open[r] = 0
	c.mu.Unlock()
	id, begun := c.behind.Begin(r.call, callTimeout, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.open[r]; waits && begun {
		c.open[r] = id
	} else {
		delete(c.open, r)
	}
	return begun
}

// endAll ends the calls that wait. Who has made them is gone, and others need their places.
func (c *framed) endAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r, id := range c.open {
		if c.behind.End(id) {
			c.mine.leave(r.slot)
		}
	}
}

// framedRequest is a request that came as a frame. It implements ledger.Waiter.
type framedRequest struct {
	*framed
	ctx    context.Context // of the connection
	call   ledger.Call
	maxAge time.Duration
	slot   bool      // see turns
	end    time.Time // when it is answered at the latest
}

// wait executes the request in a goroutine.
func (r *framedRequest) wait() {
	if !r.on.later(func() {
		defer r.mine.leave(r.slot)
		ctx, cancel := context.WithDeadline(r.ctx, r.end)
		defer cancel()
		_ = r.on.send(r.serve(ctx, r.call, r.maxAge))
	}) {
		r.mine.leave(r.slot)
	}
}

// Answer implements ledger.Waiter.
func (r *framedRequest) Answer(reply []byte, err error) {
	r.mu.Lock()
	delete(r.open, r)
	r.mu.Unlock()
	if errors.Is(err, ledger.ErrElsewhere) {
		r.wait()
		return
	}
	r.respond(response(r.call, reply, err))
}

// respond queues a response. While the client does not read, a goroutine waits with the response.
func (r *framedRequest) respond(response []byte) {
	if r.on.queue(response, maxPending) ||
		!r.on.later(func() { defer r.mine.leave(r.slot); _ = r.on.send(response) }) {
		r.mine.leave(r.slot)
	}
}

// Flush implements ledger.Waiter.
func (r *framedRequest) Flush() { r.on.flush() }
