package southbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// bed is a server with what its handler and its log were told.
type bed struct {
	t    *testing.T
	addr string
	lead bool          // takes every session, in term 1
	gate chan struct{} // Events waits for it, unless nil
	fail error         // of Events

	mu       sync.Mutex
	log      bytes.Buffer
	story    []string
	sessions map[openflow.DatapathID]*Session
}

func (b *bed) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bed) lines(text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (b *bed) tell(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.story = append(b.story, fmt.Sprintf(format, args...))
}

func (b *bed) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.story, ", ")
}

func (b *bed) session(id openflow.DatapathID) *Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

func (b *bed) Attached(s *Session) {
	b.tell("attached %d %s", s.Switch(), s.Mode())
	b.mu.Lock()
	b.sessions[s.Switch()] = s
	b.mu.Unlock()
	if b.lead {
		if err := s.TakeMaster(1, Resume{}); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bed) Events(s *Session, batch Batch) error {
	if b.gate != nil {
		<-b.gate
	}
	seq := batch.First
	for rest := batch.Messages; len(rest) > 0; seq++ {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		name := of13.TypeName(msg[1])
		if typ, ours := experimenter.Is(msg); ours {
			name = typ.String()
		}
		b.tell("%d/%d %s", s.Switch(), seq, name)
	}
	return b.fail
}

func (b *bed) CommandsDone(s *Session, _, seq uint64) { b.tell("%d done %d", s.Switch(), seq) }
func (b *bed) Detached(s *Session, err error)         { b.tell("detached %d", s.Switch()) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func (b *bed) want(t *testing.T, story string) {
	t.Helper()
	eventually(t, story, func() bool { return len(b.told()) >= len(story) })
	if got := b.told(); got != story {
		t.Fatalf("told: %s\nwant: %s", got, story)
	}
}

func (b *bed) start(cfg Config) *bed {
	b.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.startOn(ln, cfg)
}

func (b *bed) startOn(ln net.Listener, cfg Config) *bed {
	b.sessions = map[openflow.DatapathID]*Session{}
	b.addr = ln.Addr().String()
	cfg.Logger = slog.New(slog.NewTextHandler(b, nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, cfg, b) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	return b
}

// peer is the other end of a session.
type peer struct {
	t *testing.T
	net.Conn
	in   *ofconn.Reader
	rest []byte
}

func (b *bed) dial() *peer {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	b.t.Cleanup(func() { conn.Close() })
	return &peer{t: b.t, Conn: conn, in: ofconn.NewReader(conn)}
}

func (p *peer) say(parts ...[]byte) { p.Write(concat(parts...)) }

// next returns the next message that is no echo request.
func (p *peer) next() ([]byte, error) {
	for {
		for len(p.rest) > 0 {
			var msg []byte
			if msg, p.rest, _ = openflow.Next(p.rest); msg[1] != openflow.TypeEchoRequest {
				return msg, nil
			}
		}
		var err error
		if p.rest, err = p.in.Next(); err != nil {
			return nil, err
		}
	}
}

// expect reads up to a message of that type.
func (p *peer) expect(typ uint8) []byte {
	p.t.Helper()
	for {
		msg, err := p.next()
		if err != nil {
			p.t.Fatalf("instead of a message of type %d: %v", typ, err)
		}
		if msg[1] == typ {
			return msg
		}
	}
}

// closed waits until the server closes.
func (p *peer) closed() {
	for {
		if _, err := p.next(); err != nil {
			if errors.Is(err, io.EOF) || !isTimeout(err) {
				return
			}
			p.t.Fatal(err)
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func (b *bed) direct13(id openflow.DatapathID) *peer {
	p := b.dial()
	p.say(hello13)
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(id))
	p.expect(of13.TypeMultipartRequest)
	p.say(ports13())
	return p
}

func (b *bed) agent(id openflow.DatapathID, epoch uint64) *peer {
	p := b.dial()
	p.say(hello13, experimenter.Attach{Epoch: epoch, FirstHeld: 1, NextEvent: 2}.Append(nil, 4))
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(id))
	return p
}

func TestDirectSession(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.direct13(7)
	p.expect(of13.TypeRoleRequest)
	p.say(packetIn13(1), message(4, 2, 77), packetIn13(2))
	if echo := p.expect(openflow.TypeEchoReply); openflow.XID(echo) != 77 {
		t.Fatalf("%x", echo)
	}
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN")
	s := b.session(7)
	if err := s.Send(1, s.Epoch(), 1, 1, message(4, 14, 1)); err != nil {
		t.Fatal(err)
	}
	p.expect(of13.TypeFlowMod)
	p.say(message(4, 21, openflow.XID(p.expect(of13.TypeBarrierRequest))))
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 1")
	p.Close()
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 1, 7/4 HOLDFAST_SWITCH_DOWN, detached 7")
	if len(b.lines("switch detached")) != 1 {
		t.Fatal(b.log.String())
	}
}

// TestLoadGenerator is a peer that answers only HELLO, FEATURES_REQUEST and echoes in 1.0.
func TestLoadGenerator(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.dial()
	p.say(hello10)
	p.expect(of13.TypeFeaturesRequest)
	in := of10.PacketIn{BufferID: 1, InPort: 1, Data: []byte("x")}
	p.say(in.Append(nil, 0), features10(7), in.Append(nil, 0)) // it does not wait for the handshake
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN")
	s := b.session(7)
	out := of13.PacketOut{BufferID: 1, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	if err := s.Send(1, s.Epoch(), 1, 2, concat(out.Append(nil, 1), out.Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	p.expect(of10.TypePacketOut)
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 2")
}

func TestFollowerThenLeader(t *testing.T) {
	b := (&bed{t: t}).start(Config{EchoInterval: 20 * time.Millisecond})
	p := b.direct13(7)
	p.say(packetIn13(1)) // nobody's
	eventually(t, "attached", func() bool { return b.session(7) != nil })
	time.Sleep(60 * time.Millisecond)
	if s := b.session(7); s.Epoch() != 0 || s.TakeMaster(5, Resume{}) != nil || s.Epoch() == 0 {
		t.Fatalf("epoch %d", s.Epoch())
	}
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(7))
	p.expect(of13.TypeMultipartRequest)
	p.say(ports13(), packetIn13(2))
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN")
}

func TestAgentSession(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.agent(7, 100)
	p.expect(of13.TypeRoleRequest)
	p.say(roleReply(1), eventBlock(100, 1, packetIn13(1)), experimenter.Ack{Epoch: 100, Seq: 4}.Append(nil, 4, experimenter.TypeCommandAck))
	b.want(t, "attached 7 agent, 7/1 PACKET_IN, 7 done 4")
	s := b.session(7)
	if s.Attach().NextEvent != 2 || s.Version() != 4 || len(s.Features()) != 32 || s.Remote() != p.LocalAddr().String() {
		t.Fatalf("%+v", s.Attach())
	}
	s.Refuse(experimenter.ReasonStaleEpoch, 500)
	r, err := experimenter.ParseRefuse(p.expect(openflow.TypeExperimenter))
	if err != nil || r.Epoch != 500 || r.Reason != experimenter.ReasonStaleEpoch {
		t.Fatalf("%+v, %v", r, err)
	}
	p.say(eventBlock(100, 2, packetIn13(2)))
	p.Close()
	b.want(t, "attached 7 agent, 7/1 PACKET_IN, 7 done 4, detached 7")
}

// TestBadPeers: each is closed with one line that names it, and nobody else notices.
func TestBadPeers(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		bad        func(b *bed) *peer
	}{
		{"garbage", "is it an OpenFlow switch", func(b *bed) *peer { p := b.dial(); p.say([]byte("GET / HTTP/1.1\r\n\r\n")); return p }},
		{"silence", "is it an OpenFlow switch", func(b *bed) *peer { return b.dial() }},
		{"length 3", "less than a header", func(b *bed) *peer { p := b.direct13(8); p.say([]byte{4, 10, 0, 3, 0, 0, 0, 0}); return p }},
		{"half a message", "unexpected EOF", func(b *bed) *peer {
			p := b.direct13(8)
			p.say(packetIn13(1)[:20])
			p.Conn.(*net.TCPConn).CloseWrite()
			return p
		}},
		{"version 5", "enable 1.3", func(b *bed) *peer { p := b.dial(); p.say(message(3, 0, 0)); return p }},
		{"version changes", "version 1 after", func(b *bed) *peer { p := b.direct13(8); p.say(message(1, 10, 0)); return p }},
		{"says nothing any more", "silent", func(b *bed) *peer { return b.direct13(8) }},
		{"does not read", "does not read", func(b *bed) *peer {
			p := b.direct13(8)
			go func() {
				echo := message(4, 2, 1, make([]byte, 60000)...)
				for {
					if _, err := p.Write(echo); err != nil {
						return
					}
				}
			}()
			eventually(b.t, "it is closed", func() bool { return len(b.lines("does not read")) > 0 })
			return p
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := (&bed{t: t, lead: true}).start(Config{HandshakeTimeout: 200 * time.Millisecond, EchoInterval: 50 * time.Millisecond,
				SilentAfter: 600 * time.Millisecond, SendQueue: 1 << 20, WriteTimeout: 5 * time.Second})
			good := b.direct13(7)
			good.expect(of13.TypeRoleRequest)
			stop := make(chan struct{})
			var alive sync.WaitGroup
			alive.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						good.say(message(4, 3, 0))
					}
				}
			})
			bad := tc.bad(b)
			bad.closed()
			eventually(t, "a line", func() bool { return len(b.lines("level=WARN")) > 0 })
			time.Sleep(50 * time.Millisecond)
			if lines := b.lines("level=WARN"); len(lines) != 1 || !strings.Contains(lines[0], tc.line) || !strings.Contains(lines[0], bad.LocalAddr().String()) {
				t.Errorf("%d lines: %s", len(lines), lines)
			}
			good.say(packetIn13(1))
			eventually(t, "the good one goes on", func() bool { return strings.Contains(b.told(), "7/2 PACKET_IN") })
			close(stop)
			alive.Wait()
		})
	}
}

func TestStormIsOneLine(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	for range 200 {
		p := b.dial()
		p.say(message(9, 9, 9))
		p.closed()
	}
	if n := len(b.lines("connection refused")); n != 1 {
		t.Fatalf("%d lines", n)
	}
}

func TestTooManySessions(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{MaxSessions: 1})
	b.direct13(7).expect(of13.TypeRoleRequest)
	for range 3 {
		b.dial().closed()
	}
	if n := len(b.lines("too many sessions")); n != 1 {
		t.Fatalf("%d lines", n)
	}
}

func TestBusyHandlerIsNoDeadSwitch(t *testing.T) {
	b := (&bed{t: t, lead: true, gate: make(chan struct{})}).start(Config{ProbeTimeout: 50 * time.Millisecond, EchoInterval: 50 * time.Millisecond, SilentAfter: 200 * time.Millisecond})
	first := b.agent(7, 100)
	first.expect(of13.TypeRoleRequest)
	first.say(roleReply(1), eventBlock(100, 1, packetIn13(1)), eventBlock(100, 2, packetIn13(2)))
	time.Sleep(400 * time.Millisecond)
	second := b.agent(7, 100)
	if _, err := experimenter.ParseRefuse(second.expect(openflow.TypeExperimenter)); err != nil {
		t.Fatal(err)
	}
	second.Close()
	close(b.gate)
	eventually(t, "both events", func() bool { return strings.Contains(b.told(), "7/2 PACKET_IN") })
}

func TestHandlerEndsTheSession(t *testing.T) {
	b := (&bed{t: t, lead: true, fail: errors.New("gap")}).start(Config{})
	p := b.direct13(7)
	p.closed()
	b.want(t, "attached 7 direct, 7/1 HOLDFAST_SWITCH_UP, detached 7")
	if lines := b.lines("refuses its events: gap"); len(lines) != 1 {
		t.Fatal(b.log.String())
	}
}

func TestConfigIsChecked(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), ln, Config{EchoInterval: time.Minute}, &bed{}); err == nil {
		t.Fatal("it passed")
	}
}

func TestAgentOfAnotherReleaseReadsWhy(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	p := b.dial()
	other := experimenter.Attach{Epoch: 100}.Append(nil, 4)
	other[19]++ // protocol version
	p.say(hello13, other)
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(7)) // crosses the refusal
	r, err := experimenter.ParseRefuse(p.expect(openflow.TypeExperimenter))
	if err != nil || r.Reason != experimenter.ReasonUnsupportedVersion {
		t.Fatalf("%+v, %v", r, err)
	}
	p.Close()
	eventually(t, "a line", func() bool { return len(b.lines("same release")) == 1 })
}
