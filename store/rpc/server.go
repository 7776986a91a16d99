package rpc

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// The service and its procedures, as paths.
const (
	service = "/holdfast.store.v1.Store/"
	do      = service + "Do"
	stream  = service + "Stream"
)

// Application is the store with its interface over HTTP.
type Application struct{ *store.Application }

// New returns the application.
func New() Application { return Application{store.New()} }

// Serve implements controller.Frontend.
func (Application) Serve(call func(context.Context, ledger.Call) ([]byte, error)) (path string, h http.Handler) {
	s := &server{call: call}
	options := handlerOptions()
	mux := http.NewServeMux()
	mux.Handle(do, connect.NewUnaryHandler(do, s.do, options...))
	streams := connect.NewBidiStreamHandler(stream, s.stream, options...)
	mux.HandleFunc(stream, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w) // a stream has no end: the connection is checked with pings
		if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		streams.ServeHTTP(w, r)
	})
	return service, mux
}

// server executes requests by calls.
type server struct {
	call func(context.Context, ledger.Call) ([]byte, error)
}

func (s *server) do(ctx context.Context, r *connect.Request[Request]) (*connect.Response[Response], error) {
	return connect.NewResponse(&Response{s.execute(ctx, r.Msg.Encoded)}), nil
}

// maxConcurrent bounds the requests of a stream that are executed at a time. Meanwhile no more are read.
const maxConcurrent = 2 * store.Window

// stream executes the requests of a stream, until that ends.
func (s *server) stream(ctx context.Context, with *connect.BidiStream[Request, Response]) error {
	slots := make(chan struct{}, maxConcurrent)
	var sending sync.Mutex // guards with.Send
	var running sync.WaitGroup
	defer running.Wait()
	if err := with.Send(nil); err != nil { // the headers: the client learns that it is served
		return err
	}
	for {
		r, err := with.Receive()
		if err != nil {
			return nil // the client has closed it, or is gone
		}
		slots <- struct{}{}
		running.Go(func() { // ends with the call
			defer func() { <-slots }()
			answer := &Response{s.execute(ctx, r.Encoded)}
			sending.Lock()
			defer sending.Unlock()
			_ = with.Send(answer) // the client is gone
		})
	}
}

// callTimeout bounds how long a request waits for its answer.
const callTimeout = 5 * time.Second

// execute executes an encoded request, and returns an encoded response.
func (s *server) execute(ctx context.Context, request []byte) []byte {
	q, err := store.CallOf(request)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		var answer []byte
		if answer, err = s.call(ctx, q); err == nil {
			return answer
		}
	}
	refused, is := errors.AsType[*store.Error](err)
	switch {
	case is:
	case errors.Is(err, ledger.ErrCallFailed):
		refused = store.Fail(store.Failed, "%v", err)
	case errors.Is(err, ledger.ErrUnanswered):
		refused = store.Fail(store.Unknown, "%v", err)
	default:
		refused = store.Fail(store.Unavailable, "%v", err)
	}
	return store.Refusal(request, refused)
}
