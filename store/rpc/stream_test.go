package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// requests is a stream of requests of any protocol. It is closed with the test.
type requests interface {
	Send(request []byte) error
	Receive() (store.Response, error)
}

// streams open one, by the name of the protocol.
var streams = map[string]func(t *testing.T, address string) requests{
	"frames": func(t *testing.T, address string) requests {
		s, err := Open(t.Context(), nil, address, "", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	},
	"Connect": func(t *testing.T, address string) requests { return openConnect(t, address) },
	"gRPC":    func(t *testing.T, address string) requests { return openConnect(t, address, connect.WithGRPC()) },
}

// overConnect is a Stream of store.proto.
type overConnect struct {
	*connect.BidiStreamForClient[Request, Response]
}

func openConnect(t *testing.T, address string, options ...connect.ClientOption) overConnect {
	via := Transport(nil)
	c := connect.NewClient[Request, Response](&http.Client{Transport: via}, "http://"+address+stream,
		append(options, connect.WithCodec(protobuf{}))...)
	s := overConnect{c.CallBidiStream(t.Context())}
	t.Cleanup(func() {
		_ = s.CloseRequest()
		_ = s.CloseResponse()
		via.CloseIdleConnections()
	})
	return s
}

func (s overConnect) Send(request []byte) error { return s.BidiStreamForClient.Send(&Request{request}) }

func (s overConnect) Receive() (out store.Response, err error) {
	m, err := s.BidiStreamForClient.Receive()
	if err == nil {
		err = out.Decode(m.Encoded)
	}
	return out, err
}

// A stream answers each request, whatever becomes of it, and executes several at a time.
func TestStream(t *testing.T) {
	for name, open := range streams {
		t.Run(name, func(t *testing.T) { testStream(t, open) })
	}
}

func testStream(t *testing.T, open func(t *testing.T, address string) requests) {
	ends := []error{errors.New("nobody leads"), ledger.ErrUnanswered, ledger.ErrCallFailed, nil}
	codes := []store.Code{store.Unavailable, store.Unknown, store.Failed, 0}
	all := make(chan struct{}, len(ends))
	address := serve(t, func(_ context.Context, q ledger.Call) ([]byte, error) {
		var r store.Request
		if err := r.Decode(q.Message); err != nil {
			t.Error(err)
		}
		all <- struct{}{}
		for len(all) < len(ends) { // all are executed at the same time
			time.Sleep(time.Millisecond)
		}
		return (&store.Response{ID: r.ID}).Append(nil), ends[r.ID-1]
	})
	s := open(t, address)
	for i := range ends {
		r := store.Request{ID: uint64(i) + 1, Namespace: "n", Transactions: [][]store.Op{{}}}
		if err := s.Send(r.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for range ends {
		r, err := s.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if code := codes[r.ID-1]; (code != 0) != (r.Error != nil) || code != 0 && r.Error.Code != code {
			t.Errorf("%+v, want %v", r, code)
		}
	}
}

// A stream on which nothing happens stays. One whose client does not read ends.
func TestSendTimeout(t *testing.T) {
	for name, open := range streams {
		t.Run(name, func(t *testing.T) { testSendTimeout(t, open) })
	}
}

func testSendTimeout(t *testing.T, open func(t *testing.T, address string) requests) {
	const timeout = 100 * time.Millisecond
	large := (&store.Response{Error: store.Fail(store.Failed, "no")}).Append(nil)
	for len(large) < store.MaxReply {
		large = append(large, large...)
	}
	a := New()
	a.sendTimeout = timeout
	address := listen(t, a, func(_ context.Context, q ledger.Call) ([]byte, error) {
		var r store.Request
		if err := r.Decode(q.Message); err != nil {
			t.Error(err)
		}
		return map[uint64][]byte{1: large}[r.ID], nil
	})
	s := open(t, address)
	send := func(id uint64) error {
		r := store.Request{ID: id, Namespace: "n", Transactions: [][]store.Op{{{Kind: store.ListTables}}}}
		return s.Send(r.Append(nil))
	}
	for range 2 {
		if err := send(2); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * timeout)
	}
	await.Until(t, "the stream to end", func() bool { return send(1) != nil })
}

// What is no request for frames is refused, and a connection that breaks their rules ends. Others stay.
func TestFrames(t *testing.T) {
	address := serve(t, nil)
	r, err := http.Get("http://" + address + frames)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if r.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %s", r.Status)
	}
	request := store.Request{ID: 4, Namespace: "n", Transactions: [][]store.Op{{{Kind: store.ListTables}}}}
	good := request.Append(nil)
	good = append(binary.BigEndian.AppendUint32(nil, uint32(len(good))), good...)
	for name, test := range map[string]struct {
		sent string
		ends bool
	}{
		"a request":             {string(good), false},
		"a sign of life":        {"\xff\xff\xff\xff", false},
		"a frame too long":      {"\xff\xff\xff\xfe", true},
		"what is no request":    {"\x00\x00\x00\x01?", false},
		"half a frame, and end": {"\x00\x00\x00\x09?", true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, in := upgraded(t, address)
			if _, err := io.WriteString(conn, test.sent); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "half") {
				_ = conn.CloseWrite()
			}
			f := newFrameConn(conn, in, time.Minute, store.MaxResponse)
			if b, err := f.receive(); (err != nil) != test.ends {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// upgraded returns a connection on which frames can be sent.
func upgraded(t *testing.T, address string) (*net.TCPConn, *bufio.Reader) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET "+frames+" HTTP/1.1\r\nHost: "+address+"\r\nConnection: Upgrade\r\nUpgrade: "+
		protocol+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", r, err)
	}
	return conn.(*net.TCPConn), in
}

// A controller that hangs is noticed, and so is one that is not there.
func TestSilentController(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const patience = 50 * time.Millisecond
	if _, err := Open(t.Context(), nil, l.Addr().String(), "", patience); err == nil || !strings.Contains(err.Error(),
		"no answer in 50ms") {
		t.Errorf("a controller that does not answer: %v", err)
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	asked := 0
	d := &deadlined{Conn: ours, silence: patience, ask: func() error { asked++; return nil }}
	if _, err := d.Read(make([]byte, 1)); err == nil || asked != 1 {
		t.Errorf("asked %d times, and then: %v", asked, err)
	}
	go theirs.Write([]byte{1}) // ends with the pipe
	if n, err := d.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	ours.Close()
}

// notBegun is a backend that begins no call, or finds out later that the actor is elsewhere. Call finds it.
type notBegun struct {
	backend
	later bool
	begun chan time.Time
}

func (b notBegun) Begin(_ ledger.Call, _ time.Duration, w ledger.Waiter) (uint64, bool) {
	b.begun <- time.Now()
	if b.later {
		w.Answer(nil, ledger.ErrElsewhere)
		w.Flush()
	}
	return 0, b.later
}

// What cannot be executed at once is executed by a goroutine that waits, but not longer than the first try would.
func TestNotBegun(t *testing.T) {
	for _, later := range []bool{false, true} {
		var called atomic.Int64
		begun := make(chan time.Time, 1)
		address := listenTo(t, New(), notBegun{func(ctx context.Context, _ ledger.Call) ([]byte, error) {
			called.Add(1)
			if end, _ := ctx.Deadline(); end.After((<-begun).Add(callTimeout)) {
				t.Errorf("later %v: it waits until %v", later, end)
			}
			return (&store.Response{ID: 7}).Append(nil), nil
		}, later, begun})
		s := streams["frames"](t, address)
		if err := s.Send(encode(7, "n")); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Receive(); err != nil || r.ID != 7 || r.Error != nil || called.Load() != 1 {
			t.Errorf("later %v: %+v, %v; called %d times", later, r, err, called.Load())
		}
	}
}

// noticed is a backend that notes how answers to a client are written, and answers.
type noticed struct {
	backend
	direct chan bool
}

func (b noticed) Begin(_ ledger.Call, _ time.Duration, w ledger.Waiter) (uint64, bool) {
	b.direct <- w.(*framedRequest).on.direct != nil
	w.Answer((&store.Response{ID: 7}).Append(nil), nil)
	w.Flush()
	return 0, true
}

// Who has the answer writes it: the connection that the server of HTTP hands over can be written without waiting.
func TestAnswersAreWrittenAtOnce(t *testing.T) {
	b := noticed{direct: make(chan bool, 1)}
	s := streams["frames"](t, listenTo(t, New(), b))
	if err := s.Send(encode(7, "n")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Receive(); err != nil || r.ID != 7 || !<-b.direct {
		t.Errorf("%+v, %v; or a goroutine had to write it", r, err)
	}
}

// unanswered is a backend that begins calls and never answers.
type unanswered struct {
	backend
	begun, ended *atomic.Int64
}

func (b unanswered) Begin(ledger.Call, time.Duration, ledger.Waiter) (uint64, bool) {
	return uint64(b.begun.Add(1)), true
}

func (b unanswered) End(uint64) bool { b.ended.Add(1); return true }

// The calls of a connection end with it: here those who are gone made more than there are places.
func TestCallsEndWithTheirConnection(t *testing.T) {
	var begun, ended atomic.Int64
	address := listenTo(t, New(), unanswered{nil, &begun, &ended})
	const each = 4
	for n := int64(each); n <= maxExecuting+each*ownTurns; n += each {
		s, err := Open(t.Context(), nil, address, "", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(each) {
			if err := s.Send(encode(id, "n")); err != nil {
				t.Fatal(err)
			}
		}
		await.Until(t, "the calls begin", func() bool { return begun.Load() == n })
		s.Close()
		await.Until(t, "the calls end", func() bool { return ended.Load() == n })
	}
}

// More is true only if receive returns a message without waiting.
func TestMore(t *testing.T) {
	frame := []byte{0, 0, 0, 2, 1, 2}
	for _, c := range []struct {
		come []byte // after a first frame, in the same read
		more bool
	}{{nil, false}, {frame[:3], false}, {frame[:5], false}, {frame, true}, {append(frame, 0), true},
		{[]byte{0xff, 0xff, 0xff, 0xff}, false}, {[]byte{0, 0, 0, 0}, true}} {
		f := newFrameConn(nil, bufio.NewReader(bytes.NewReader(slices.Concat(frame, c.come))), 0, 2)
		if f.more() {
			t.Error("more before anything has come")
		}
		if _, err := f.receive(); err != nil || f.more() != c.more {
			t.Errorf("after %v: more %v, %v", c.come, f.more(), err)
		}
	}
}

// A goroutine that must not wait sends as long as there is room. What the peer has not read yet comes later, in order,
// and who ends the connection waits for nobody.
func TestQueue(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, reads := range []bool{true, false} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		f := newFrameConn(rawconn.Of(conn), nil, time.Minute, 0)
		message, sent := make([]byte, 100<<10), 0
		sends := func() bool { defer f.flush(); return f.queue(message, maxPending) }
		for sends() {
			sent++
			binary.BigEndian.PutUint32(message, uint32(sent))
		}
		if reads {
			in := newFrameConn(peer, bufio.NewReader(peer), time.Minute, len(message))
			for n := range sent {
				b, err := in.receive()
				if err != nil || len(b) != len(message) || binary.BigEndian.Uint32(b) != uint32(n) {
					t.Fatalf("frame %d of %d has %d bytes: %v", n, sent, len(b), err)
				}
			}
			await.Until(t, "room", sends)
		}
		f.end()
		if !sends() || f.later(func() {}) {
			t.Error("a connection that has ended takes more")
		}
	}
}
