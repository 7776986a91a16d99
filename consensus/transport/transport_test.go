package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard records what a transport receives.
type heard struct {
	messages chan wire.Message
	down     chan uint64
	dropped  chan told
	sent     chan told
	block    chan struct{} // if not nil, Received waits for it
	payloads chan wire.Message
}

// told is a report about messages for a replica of a group.
type told struct {
	group, replica uint64
	ok             bool
}

func newHeard() *heard {
	return &heard{make(chan wire.Message, 1<<16), make(chan uint64, 64), make(chan told, 1<<16), make(chan told, 64),
		nil, make(chan wire.Message, 1<<16)}
}

func (h *heard) Received(m wire.Message) {
	if h.block != nil {
		<-h.block
	}
	h.messages <- m
}
func (h *heard) Payload(g, _ uint64, b []byte)     { h.payloads <- wire.Message{Group: g, Payload: b} }
func (h *heard) Disconnected(id uint64)            { h.down <- id }
func (h *heard) Removed()                          { h.down <- 0 }
func (h *heard) Stranger(uint64)                   { h.down <- 0 }
func (h *heard) Dropped(g, id uint64)              { h.dropped <- told{g, id, false} }
func (h *heard) SnapshotSent(g, id uint64, k bool) { h.sent <- told{g, id, k} }

func wait[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: nothing within 30s", what)
		panic("unreachable")
	}
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func run(t *testing.T, cfg Config) *Transport {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	tr := Start(cfg)
	t.Cleanup(tr.Close)
	return tr
}

func message(typ raftpb.MessageType, from, to uint64, size int) wire.Message {
	return wire.Message{Raft: &raftpb.Message{Type: &typ, From: &from, To: &to,
		Entries: []*raftpb.Entry{{Data: make([]byte, size)}}}}
}

// pair connects 1 to 2, in one direction only.
func pair(t *testing.T, h1, h2 *heard) *Transport {
	l2 := listen(t, "127.0.0.1:0")
	run(t, Config{ID: 2, Cluster: "c", Listener: l2, Handler: h2})
	t1 := run(t, Config{ID: 1, Cluster: "c", Peers: map[uint64]string{1: "", 2: l2.Addr().String()}, Handler: h1})
	await.Until(t, "a connection", func() bool { return t1.Connected(2) })
	return t1
}

func TestOrder(t *testing.T) {
	h := newHeard()
	t1 := pair(t, newHeard(), h)
	for i := range 3000 {
		m := message(raftpb.MsgApp, 1, 2, i)
		t1.Send([]wire.Message{m})
	}
	for i := range 3000 {
		if m := wait(t, "message", h.messages); len(m.Raft.GetEntries()[0].GetData()) != i {
			t.Fatalf("message %d has %d bytes", i, len(m.Raft.GetEntries()[0].GetData()))
		}
	}
}

// TestHeartbeatPassesSnapshot: messages after a large snapshot do not wait for its end.
func TestHeartbeatPassesSnapshot(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	h2.block = make(chan struct{})
	t1 := pair(t, h1, h2)
	snap := message(raftpb.MsgSnap, 1, 2, 0)
	snap.State = bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	t1.Send([]wire.Message{snap})
	t1.Send([]wire.Message{snap}) // a second snapshot is refused
	if wait(t, "second snapshot", h1.sent).ok {
		t.Error("two snapshots at once")
	}
	t1.Send([]wire.Message{message(raftpb.MsgHeartbeat, 1, 2, 0)})
	close(h2.block)
	if m := wait(t, "message", h2.messages); m.Raft.GetType() != raftpb.MsgHeartbeat {
		t.Errorf("%s comes first", m.Raft.GetType())
	}
	if m := wait(t, "snapshot", h2.messages); !bytes.Equal(m.State, snap.State) {
		t.Errorf("state of %d bytes", len(m.State))
	}
	if !wait(t, "snapshot sent", h1.sent).ok {
		t.Error("the snapshot is reported as lost")
	}
}

// TestSlowReader: the queue is bounded, messages that do not fit are dropped and reported, and Send does not block.
func TestSlowReader(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	h2.block = make(chan struct{})
	t1 := pair(t, h1, h2)
	for range 200 { // if Send blocked, it would block forever
		t1.Send([]wire.Message{message(raftpb.MsgApp, 1, 2, 1<<20)})
	}
	if wait(t, "dropped", h1.dropped).replica != 2 {
		t.Error("another member")
	}
	close(h2.block)
	n := 0
	for len(h2.messages) > 0 || n < 20 {
		wait(t, "message", h2.messages)
		n++
	}
}

// TestReconnect: a member that goes away is reported once, and dialed again at a limited rate.
func TestReconnect(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	l1, l2 := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	addrs := map[uint64]string{1: l1.Addr().String(), 2: l2.Addr().String()}
	t1 := run(t, Config{ID: 1, Listener: l1, Peers: addrs, Handler: h1})
	t2 := Start(Config{ID: 2, Listener: l2, Peers: addrs, Handler: h2, Logger: slog.New(slog.DiscardHandler)})
	await.Until(t, "both connections", func() bool { return t1.Connected(2) && t2.Connected(1) })
	t2.Send([]wire.Message{message(raftpb.MsgHeartbeat, 2, 1, 0)})
	wait(t, "message", h1.messages)
	t2.Close()
	if wait(t, "disconnected", h1.down) != 2 {
		t.Error("another member")
	}
	await.Until(t, "the end of the connection", func() bool { return !t1.Connected(2) })
	t1.Send([]wire.Message{message(raftpb.MsgApp, 1, 2, 0), message(raftpb.MsgSnap, 1, 2, 0),
		message(raftpb.MsgApp, 1, 9, 0)})
	if wait(t, "snapshot", h1.sent).ok || wait(t, "dropped", h1.dropped).replica != 2 ||
		wait(t, "dropped", h1.dropped).replica != 9 {
		t.Error("what cannot be sent is not reported")
	}

	l2 = listen(t, addrs[2])
	dials := 0
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) { // accepts each connection and breaks it at once
		_ = l2.(*net.TCPListener).SetDeadline(deadline)
		if conn, err := l2.Accept(); err == nil {
			dials++
			conn.Close()
		}
	}
	if dials < 3 || dials > 20 {
		t.Errorf("%d dials in a second", dials)
	}
	_ = l2.(*net.TCPListener).SetDeadline(time.Time{})
	run(t, Config{ID: 2, Listener: l2, Handler: h2})
	start := time.Now()
	await.Until(t, "a connection", func() bool { return t1.Connected(2) })
	if took := time.Since(start); took > time.Second {
		t.Errorf("connected only after %v", took)
	}
	if len(h1.down) > 0 {
		t.Error("reported again")
	}
}

func TestStrangers(t *testing.T) {
	l2 := listen(t, "127.0.0.1:0")
	addr := l2.Addr().String()
	var log2 await.Log
	h2 := newHeard()
	run(t, Config{ID: 2, Cluster: "right", Listener: l2, Handler: h2, Logger: log2.Logger()})
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{ID: 1, Cluster: "wrong", Peers: map[uint64]string{2: addr}}, `cluster \"right\" here, \"wrong\" there`},
		{Config{ID: 1, Cluster: "right", Peers: map[uint64]string{3: addr}}, "controller 2 is here, not controller 3"},
	} {
		var l await.Log
		c.cfg.Handler, c.cfg.Logger = newHeard(), l.Logger()
		tr := Start(c.cfg)
		l.Line(t, c.says)
		log2.Line(t, c.says)
		tr.Close()
	}
	for _, say := range []string{
		"GET / HTTP/1.1\r\nHost: somebody-else\r\n\r\n",
		string(wire.AppendHello(nil, wire.Hello{Version: 9, From: 1, To: 2, Cluster: "right"})),
		string(wire.AppendHello(nil, wire.Hello{Version: wire.Version, From: 2, To: 2, Cluster: "right"})),
		string(append(wire.AppendHello(nil, wire.Hello{Version: wire.Version, From: 1, To: 2, Cluster: "right"}),
			"rubbish rubbish"...)),
		string(forged(t)),
		"\x16\x03\x01\x00\xff" + strings.Repeat("x", 255),
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, say)
		_ = conn.SetDeadline(time.Now().Add(await.Limit))
		if _, err := io.ReadAll(conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("still connected after %q", say)
		}
		conn.Close()
	}
	log2.Line(t, "it speaks TLS")
	if len(h2.messages) > 0 {
		t.Error("a stranger was heard")
	}
}

// A process that may not act as the member that it claims to be is told the reason. Its messages are not delivered.
func TestAdmit(t *testing.T) {
	l2 := listen(t, "127.0.0.1:0")
	h2 := newHeard()
	run(t, Config{ID: 2, Listener: l2, Handler: h2, Admit: func(_ net.Conn, member uint64) error {
		if member != 3 {
			return fmt.Errorf("you are not %d", member)
		}
		return nil
	}})
	var lines await.Log
	for id := uint64(1); id <= 3; id += 2 {
		dialled := make(chan uint64, 1000)
		tr := run(t, Config{ID: id, Peers: map[uint64]string{2: "two"}, Handler: newHeard(), Logger: lines.Logger(),
			Dial: func(ctx context.Context, member uint64, address string) (net.Conn, error) {
				if address != "two" {
					t.Errorf("dials %s", address)
				}
				dialled <- member
				return new(net.Dialer).DialContext(ctx, "tcp", l2.Addr().String())
			}})
		if m := wait(t, "dialled", dialled); m != 2 {
			t.Errorf("dials member %d", m)
		}
		if id == 1 {
			lines.Line(t, "refused: you are not 1")
			continue
		}
		await.Until(t, "a connection", func() bool { return tr.Connected(2) })
		tr.Send([]wire.Message{message(raftpb.MsgHeartbeat, 3, 2, 0)})
	}
	if m := wait(t, "message", h2.messages); m.Raft.GetFrom() != 3 || len(h2.messages) > 0 {
		t.Errorf("heard %d, and %d more", m.Raft.GetFrom(), len(h2.messages))
	}
}

// forged returns a message in the name of another member.
func forged(t *testing.T) []byte {
	b := wire.AppendHello(nil, wire.Hello{Version: wire.Version, From: 1, To: 2, Cluster: "right"})
	b, err := wire.AppendMessage(b, message(raftpb.MsgApp, 3, 2, 0))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSetPeers(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	t1 := pair(t, h1, h2)
	t1.Send([]wire.Message{message(raftpb.MsgHeartbeat, 1, 2, 0)})
	wait(t, "message", h2.messages)
	t1.SetPeers(map[uint64]string{1: ""})
	if wait(t, "disconnected", h2.down) != 1 || t1.Connected(2) {
		t.Error("still connected")
	}
}

// Payloads arrive in order and whole, and Raft's messages do not wait for them.
func TestPayloads(t *testing.T) {
	h1, h2 := newHeard(), newHeard()
	t1 := pair(t, h1, h2)
	big := bytes.Repeat([]byte{1}, wire.MaxPayload)
	if !t1.SendPayload(0, 2, big) || !t1.SendPayload(0, 2, []byte("after it")) {
		t.Fatal("a payload is refused")
	}
	if t1.SendPayload(0, 3, nil) || t1.SendPayload(0, 2, append(big, 1)) {
		t.Error("a payload is taken that is too long, or whose member is unknown")
	}
	t1.Send([]wire.Message{message(raftpb.MsgApp, 1, 2, 1)})
	wait(t, "the message", h2.messages)
	if first := wait(t, "the first payload", h2.payloads).Payload; !bytes.Equal(first, big) {
		t.Errorf("%d bytes have arrived of %d", len(first), len(big))
	}
	if second := wait(t, "the second payload", h2.payloads).Payload; string(second) != "after it" {
		t.Errorf("%q has arrived", second)
	}
}

// A payload for which a peer that does not read leaves no room is refused, and all that were taken arrive.
func TestPayloadsHaveNoRoom(t *testing.T) {
	h2 := newHeard()
	h2.block = make(chan struct{})
	t1 := pair(t, newHeard(), h2)
	t1.Send([]wire.Message{message(raftpb.MsgApp, 1, 2, 1)}) // on which the reader waits
	big, taken := bytes.Repeat([]byte{1}, wire.MaxPayload), 0
	for t1.SendPayload(0, 2, big) {
		if taken++; taken == 1000 {
			t.Fatal("the queue has no bound")
		}
		time.Sleep(time.Millisecond) // in which the queue goes to the socket's buffers, until they are full
	}
	close(h2.block)
	for range taken {
		wait(t, "a payload", h2.payloads)
	}
}

// What is queued is lost with the connection, and does not arrive later.
func TestPayloadsWithoutConnection(t *testing.T) {
	h := newHeard()
	t1 := run(t, Config{ID: 1, Cluster: "c", Peers: map[uint64]string{2: "127.0.0.1:1"}, Handler: h})
	if t1.SendPayload(0, 2, []byte("hello")) {
		t.Error("a payload is taken without a connection")
	}
}
