package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/store"
)

// pingAfter is when a connection that says nothing is checked, and for how long: a controller may hang or be cut off.
const pingAfter = 2 * time.Second

// Dial connects to a controller at HOST:PORT.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// dialTimeout bounds a handshake with a controller that hangs.
const dialTimeout = 3 * time.Second

// Transport returns a transport of HTTP/2, with one connection for each controller, which dial makes; nil: plain TCP.
func Transport(dial Dial) *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true) // also over TLS, of which http.Transport does not know
	t := &http.Transport{Protocols: p, HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}}
	if dial != nil {
		t.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout) // that of the request does not count here
			defer cancel()
			return dial(ctx, address)
		}
	}
	return t
}

// Stream is a stream of requests to one controller. One goroutine may send, and another one receive.
type Stream struct {
	on     *connect.BidiStreamForClient[Request, Response]
	cancel func()
}

// Open opens a stream to the controller at HOST:PORT. If it fails, the controller has received nothing. The error is
// ErrNoStore if the controller does not have the application. The stream ends with ctx, and with Close.
func Open(ctx context.Context, via *http.Transport, address string, patience time.Duration) (*Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Stream{newClient[Request, Response](via, address, stream).CallBidiStream(ctx), func() { cancel(nil) }}
	late := fmt.Errorf("%s: no answer in %v", address, patience)
	timer := time.AfterFunc(patience, func() { cancel(late) })
	defer timer.Stop()
	if err := s.on.Send(nil); err != nil { // the headers
		s.Close()
		return nil, err
	}
	if strings.HasPrefix(s.on.ResponseHeader().Get("Content-Type"), "application/connect") {
		return s, nil
	}
	_, err := s.on.Receive()
	defer s.Close()
	switch {
	case context.Cause(ctx) == late:
		return nil, late
	case err == nil:
		err = errors.New("it answers before the first request")
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		err = fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	return nil, fmt.Errorf("%s: %w", address, err)
}

// ErrNoStore is the error of a controller that does not have the application.
var ErrNoStore = errors.New("it has no store: add store to `apps` in the cluster file")

// Send sends an encoded request.
func (s *Stream) Send(request []byte) error { return s.on.Send(&Request{request}) }

// Receive returns the next response.
func (s *Stream) Receive() (out store.Response, err error) {
	m, err := s.on.Receive()
	if err == nil {
		err = out.Decode(m.Encoded)
	}
	return out, err
}

// Close ends the stream, and what is sent or received meanwhile.
func (s *Stream) Close() {
	s.cancel()
	_ = s.on.CloseRequest()
	_ = s.on.CloseResponse()
}

// Caller calls one controller. It is safe for concurrent use.
type Caller struct {
	on *connect.Client[Request, Response]
}

// NewCaller returns a caller of the controller at HOST:PORT.
func NewCaller(via *http.Transport, address string) *Caller {
	return &Caller{newClient[Request, Response](via, address, do)}
}

// Do has the controller execute one request.
func (c *Caller) Do(ctx context.Context, r *store.Request) (out store.Response, err error) {
	a, err := c.on.CallUnary(ctx, connect.NewRequest(&Request{r.Append(nil)}))
	if err == nil {
		err = out.Decode(a.Msg.Encoded)
	}
	return out, err
}
