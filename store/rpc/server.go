package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// The service and its procedures, as paths.
const (
	service = "/holdfast.store.v1.Store/"
	do      = service + "Do"
	stream  = service + "Stream"
	watch   = service + "Watch"
)

// Application is the store with its interface over HTTP.
type Application struct {
	*store.Application
	feed        *store.Feed
	access      grants
	sendTimeout time.Duration // how long a client may not read its responses; then its stream ends
}

// New returns the application. With TLS, and any access given, clients may do only what that allows.
func New(access ...Grant) Application {
	return Application{store.New(), store.NewFeed(), access, 10 * time.Second}
}

// Follow implements controller.Follower.
func (a Application) Follow(group uint64) func(ledger.Change) { return a.feed.Follow(group) }

// Serve implements controller.Frontend.
func (a Application) Serve(behind ledger.Backend) (path string, h http.Handler) {
	s := &server{behind: behind, feed: a.feed, access: a.access, sendTimeout: a.sendTimeout,
		executing: make(chan struct{}, maxExecuting)}
	options := handlerOptions()
	mux := http.NewServeMux()
	mux.Handle(do, connect.NewUnaryHandler(do, s.do, options...))
	mux.Handle(stream, s.endless(connect.NewBidiStreamHandler(stream, s.stream, options...)))
	mux.Handle(frames, s.endless(http.HandlerFunc(s.frames)))
	mux.Handle(watch, s.endless(connect.NewServerStreamHandler(watch, s.watch, options...)))
	return service, mux
}

// endless bounds the streams of a handler, and lets one read for ever.
func (s *server) endless(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer s.streams.Add(-1) // also if h panics, which ends its request only
		if s.streams.Add(1) > maxStreams {
			http.Error(w, fmt.Sprintf("this controller serves %d streams, the most that are possible: use another one",
				maxStreams), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, withController(w, r))
	}
}

// withController returns a request that has no deadline, because pings check its connection. A stream in both
// directions over HTTP/1.1 is refused later.
func withController(w http.ResponseWriter, r *http.Request) *http.Request {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // the server can
	return r.WithContext(context.WithValue(r.Context(), controllerKey{}, c))
}

// controllerKey is the key of the http.ResponseController in the context of a stream.
type controllerKey struct{}

// server executes requests by calls.
type server struct {
	behind      ledger.Backend
	feed        *store.Feed
	access      grants
	sendTimeout time.Duration
	streams     atomic.Int64
	executing   chan struct{} // see turns
	watched     atomic.Int64  // buckets, by all watches

	mu    sync.Mutex // guards marks
	marks map[ledger.Actor]mark
}

// maxStreams bounds the streams at a time, so that they leave room for other requests to the controller.
const maxStreams = 512

func (s *server) do(ctx context.Context, r *connect.Request[Request]) (*connect.Response[Response], error) {
	return connect.NewResponse(&Response{s.execute(ctx, r.Msg.Encoded)}), nil
}

// maxConcurrent bounds the requests of a stream that are executed at a time. Meanwhile no more are read. It is what a
// client of package store/client sends at a time.
const maxConcurrent = 2 * store.Window

// stream executes the requests of a stream, until that ends.
func (s *server) stream(ctx context.Context, with *connect.BidiStream[Request, Response]) error {
	slots := make(chan struct{}, maxConcurrent)
	var sending sync.Mutex // guards with.Send
	var running sync.WaitGroup
	defer running.Wait()
	send := func(r *Response) error {
		sending.Lock()
		defer sending.Unlock()
		return s.inTime(ctx, func() error { return with.Send(r) })
	}
	if err := send(nil); err != nil { // the headers: the client learns that it is served
		return err
	}
	for {
		r, err := with.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		slots <- struct{}{}
		running.Go(func() { // ends with the call
			defer func() { <-slots }()
			_ = send(&Response{s.execute(ctx, r.Encoded)}) // else the client is gone, or does not read
		})
	}
}

// inTime sends something on a stream. It ends a stream that the client does not read.
func (s *server) inTime(ctx context.Context, send func() error) error {
	c := ctx.Value(controllerKey{}).(*http.ResponseController)
	_ = c.SetWriteDeadline(time.Now().Add(s.sendTimeout)) // the server can
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	return send()
}

// callTimeout bounds how long a request waits for its answer.
const callTimeout = 5 * time.Second

// execute executes an encoded request of a client, and returns an encoded response.
func (s *server) execute(ctx context.Context, request []byte) []byte {
	q, maxAge, refusal := s.admit(ctx, request)
	if refusal != nil {
		return refusal
	}
	return s.serve(ctx, q, maxAge)
}

// admit returns the call that executes an encoded request of a client, and how old the answer may be; or the encoded
// response that refuses the request.
func (s *server) admit(ctx context.Context, request []byte) (q ledger.Call, maxAge time.Duration, refusal []byte) {
	q, maxAge, err := store.CallOf(request)
	who, known := access.IdentityOf(ctx)
	refused, is := errors.AsType[*store.Error](err)
	if !is {
		refused = s.access.checkRequest(who, q.Actor.Shard.Key.S, request)
	}
	if refused != nil {
		return q, 0, store.Refusal(request, refused)
	}
	if known {
		var ok bool
		if q.Message, ok = store.WithClient(q.Message, who.String()); !ok {
			return q, 0, store.Refusal(request, store.Fail(store.Invalid, "the request cannot be decoded"))
		}
	}
	return q, maxAge, nil
}

// serve executes a request that was admitted.
func (s *server) serve(ctx context.Context, q ledger.Call, maxAge time.Duration) []byte {
	if store.Buckets(q.Actor.Shard.Key.S) > 0 {
		return s.split(ctx, q.Message)
	}
	return s.executeAt(ctx, q, maxAge)
}

// executeAt executes a request to one actor, of which an answer may have that age.
func (s *server) executeAt(ctx context.Context, q ledger.Call, maxAge time.Duration) []byte {
	if maxAge == 0 {
		return s.call(ctx, q)
	}
	began := time.Now()
	if r, ok := s.recent(ctx, q, began.Add(-maxAge)); ok {
		return r
	}
	r := s.call(ctx, q)
	s.mark(q.Actor, store.RevisionOf(r), began)
	return r
}

// call executes a request on the leader.
func (s *server) call(ctx context.Context, q ledger.Call) []byte {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := s.behind.Call(ctx, q)
	return response(q, answer, err)
}

// response returns the encoded response to a call that has ended so.
func response(q ledger.Call, answer []byte, err error) []byte {
	var refused *store.Error
	switch {
	case err == nil:
		return answer
	case errors.Is(err, ledger.ErrCallFailed):
		refused = store.Fail(store.Failed, "%v", err)
	case errors.Is(err, ledger.ErrNoActor):
		refused = store.Fail(store.NotFound, "there is no namespace %q", q.Actor.Key.S)
	case errors.Is(err, ledger.ErrUnanswered):
		refused = store.Fail(store.Unknown, "%v", err)
	default:
		refused = store.Fail(store.Unavailable, "%v", err)
	}
	return store.Refusal(q.Message, refused)
}
