package rpc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/store"
)

// pingAfter is when a connection that says nothing is checked, and for how long: a controller may hang or be cut off.
const pingAfter = 2 * time.Second

// Dial connects to a controller at HOST:PORT.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// dialTimeout bounds a handshake with a controller that hangs.
const dialTimeout = 3 * time.Second

// Transport returns a transport of HTTP/2 for watches, with one connection for each controller, which dial makes; nil:
// plain TCP.
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

// Stream is a connection to one controller, which executes the requests that are sent on it as they come. Several
// goroutines may send, and one receive.
type Stream struct {
	on   *frameConn
	stop func() bool
}

// Open connects to the controller at HOST:PORT, with a token if it is not "". If it fails, the controller has received
// nothing. The error is ErrNoStore if the controller does not have the application, and ErrDenied if it does not know
// who this is. The stream ends with ctx, and with Close, and if the
// controller says nothing for twice pingAfter.
func Open(ctx context.Context, dial Dial, address, token string, patience time.Duration) (*Stream, error) {
	opening, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: no answer in %v", address, patience))
	defer cancel()
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	conn, err := dial(opening, address)
	if err != nil {
		return nil, cmp.Or(context.Cause(opening), err)
	}
	conn = rawconn.Of(conn)
	in, err := upgrade(opening, conn, address, token)
	if err != nil {
		_ = conn.Close()
		return nil, cmp.Or(context.Cause(opening), fmt.Errorf("%s: %w", address, err))
	}
	in.silence = 2 * pingAfter
	s := &Stream{on: newFrameConn(conn, bufio.NewReaderSize(in, 64<<10), pingAfter, store.MaxResponse)}
	in.ask = s.on.lives
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return s, nil
}

// upgrade asks for frames, and returns the connection, with nothing read of them.
func upgrade(ctx context.Context, conn net.Conn, address, token string) (*deadlined, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+frames, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	authorize(r.Header, token)
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn) // the controller sends no frame before it has got one
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusSwitchingProtocols:
		return &deadlined{Conn: conn}, nil
	case http.StatusNotFound:
		return nil, fmt.Errorf("%w (%s)", ErrNoStore, answer.Status)
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	why := strings.TrimSpace(string(text))
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return nil, fmt.Errorf("%w: %s", ErrDenied, why)
	}
	return nil, fmt.Errorf("%s: %s", answer.Status, why)
}

// authorize adds a token to the header of a request, if there is one (RFC 6750).
func authorize(header http.Header, token string) {
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
}

// maxRefusal is how much is read of an answer that says why there is no connection.
const maxRefusal = 4 << 10

// ErrNoStore is the error of a controller that does not have the application.
var ErrNoStore = errors.New("it has no store: add store to `apps` in the cluster file")

// ErrDenied is the error of a controller that does not know the token or the certificate, or needs one.
var ErrDenied = errors.New("the controller refuses this client")

// Send sends an encoded request.
func (s *Stream) Send(request []byte) error { return s.on.send(request) }

// Queue is Send for a goroutine that must not wait, and calls Flush afterwards. While the controller does not read,
// requests are kept, so the caller bounds those that are not answered. If the stream has failed, Receive says so.
func (s *Stream) Queue(request []byte) { s.on.queue(request, math.MaxInt) }

// Flush sends what was queued, in one write.
func (s *Stream) Flush() { s.on.flush() }

// Receive returns the next response.
func (s *Stream) Receive() (out store.Response, err error) {
	for {
		b, err := s.on.receive()
		if err != nil {
			return out, err
		}
		if b != nil {
			return out, out.Decode(b)
		}
	}
}

// More reports whether another response has come already, so Receive does not wait.
func (s *Stream) More() bool { return s.on.more() }

// Close ends the stream, and what is sent or received meanwhile.
func (s *Stream) Close() {
	s.stop()
	s.on.end()
}

// Caller calls one controller, over one stream. It connects when it is used. It is safe for concurrent use.
type Caller struct {
	dial    Dial
	address string

	mu      sync.Mutex // guards present, also while it is being opened
	present *calls
}

// NewCaller returns a caller of the controller at HOST:PORT, to which dial connects; nil: plain TCP.
func NewCaller(dial Dial, address string) *Caller { return &Caller{dial: dial, address: address} }

// calls are those of one stream.
type calls struct {
	*Stream
	ended chan struct{} // closed when the goroutine that receives has ended

	mu      sync.Mutex // guards the fields below
	last    uint64
	waiting map[uint64]chan<- store.Response
	failed  error
}

// Do has the controller execute one request. If the error is not that of Open, it may have been executed.
func (c *Caller) Do(ctx context.Context, r *store.Request) (store.Response, error) {
	on, err := c.open()
	if err != nil {
		return store.Response{}, err
	}
	answer := make(chan store.Response, 1)
	q := *r
	if q.ID, err = on.add(answer); err != nil {
		return store.Response{}, err
	}
	defer on.remove(q.ID)
	if err := on.Send(q.Append(nil)); err != nil {
		return store.Response{}, err
	}
	select {
	case out := <-answer:
		out.ID = r.ID
		return out, nil
	case <-on.ended:
		return store.Response{}, on.failed
	case <-ctx.Done():
		return store.Response{}, context.Cause(ctx)
	}
}

// Close ends the calls that go on.
func (c *Caller) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present != nil {
		c.present.Close()
		<-c.present.ended
	}
}

// open returns the stream, and opens one if it has ended.
func (c *Caller) open() (*calls, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present != nil {
		select {
		case <-c.present.ended:
			c.present.Close()
		default:
			return c.present, nil
		}
	}
	s, err := Open(context.Background(), c.dial, c.address, "", dialTimeout)
	if err != nil {
		return nil, err
	}
	c.present = &calls{Stream: s, ended: make(chan struct{}), waiting: map[uint64]chan<- store.Response{}}
	go c.present.receive() // until the stream ends
	return c.present, nil
}

func (c *calls) receive() {
	defer close(c.ended)
	for {
		out, err := c.Receive()
		c.mu.Lock()
		if err != nil {
			c.failed = err
			c.mu.Unlock()
			return
		}
		if answer, is := c.waiting[out.ID]; is {
			delete(c.waiting, out.ID) // if another one comes for the same request, nobody takes it
			answer <- out
		}
		c.mu.Unlock()
	}
}

func (c *calls) add(answer chan<- store.Response) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.waiting[c.last] = answer
	return c.last, c.failed
}

func (c *calls) remove(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}
