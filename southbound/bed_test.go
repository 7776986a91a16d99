package southbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// bed is a server. It records the calls of its handler and the lines of its log.
type bed struct {
	t       *testing.T
	addr    string
	lead    bool          // claims every session, in term 1
	gate    chan struct{} // Events waits for it, unless nil
	fail    error         // returned by Events
	handler Handler       // of the server; nil: the bed itself
	log     await.Log

	mu       sync.Mutex
	story    []string
	sessions map[openflow.DatapathID]*Session
	next     map[uint64]uint64 // number that the next event of each epoch of a stock switch must have
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
	b.tell("attached %d %s", s.Switch(), s.State().Peer)
	b.mu.Lock()
	b.sessions[s.Switch()] = s
	b.mu.Unlock()
	if b.lead {
		if err := s.Claim(1, Resume{}); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bed) Events(list []Delivery) {
	for _, d := range list {
		d.Done(b.events(d.Session, d.Batch))
	}
}

func (b *bed) events(s *Session, batch Batch) error {
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
		switch {
		case s.State().Peer != Bundles:
			b.tell("%d/%d %s", s.Switch(), seq, name)
			continue
		case b.due(batch.Epoch) != seq:
			b.t.Errorf("event %d of epoch %d is %s: it does not follow", seq, batch.Epoch, name)
		case !isSyncMarker(msg): // sync markers arrive at any time
			b.tell("%d %s", s.Switch(), name)
		}
	}
	if batch.Done > 0 {
		b.tell("%d done %d", s.Switch(), batch.Done)
	}
	return b.fail
}

// due returns the number that the next event of a stock switch must have.
func (b *bed) due(epoch uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next[epoch]++
	return b.next[epoch]
}

func (b *bed) CommandsDone(s *Session, _, seq uint64) { b.tell("%d done %d", s.Switch(), seq) }
func (b *bed) Detached(s *Session, err error)         { b.tell("detached %d", s.Switch()) }

func (b *bed) want(t *testing.T, story string) {
	t.Helper()
	await.Until(t, story, func() bool { return len(b.told()) >= len(story) })
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
	b.sessions, b.next = map[openflow.DatapathID]*Session{}, map[uint64]uint64{}
	b.addr = ln.Addr().String()
	cfg.Logger = b.log.Logger()
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = time.Minute // endpoints answer none
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if b.handler == nil {
		b.handler = b
	}
	go func() { ended <- Serve(ctx, ln, cfg, b.handler) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	return b
}

// endpoint is the other end of a session.
type endpoint struct {
	t *testing.T
	net.Conn
	in   *ofconn.Reader
	rest []byte
}

func (b *bed) dial() *endpoint {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(await.Limit))
	b.t.Cleanup(func() { conn.Close() })
	return &endpoint{t: b.t, Conn: conn, in: ofconn.NewReader(conn)}
}

func (p *endpoint) say(parts ...[]byte) { p.Write(concat(parts...)) }

// next returns the next message that is not an echo request.
func (p *endpoint) next() ([]byte, error) {
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

// expect reads messages up to one of that type, and returns it.
func (p *endpoint) expect(typ uint8) []byte {
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

// closed waits until the server closes the connection.
func (p *endpoint) closed() {
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

func (b *bed) legacy(id openflow.DatapathID) *endpoint {
	p := b.dial()
	p.say(hello10)
	p.expect(of13.TypeFeaturesRequest)
	p.say(features10(id))
	return p
}

// handshake13 connects a switch of OpenFlow 1.3 that supports bundles. It sends nothing after its handshake.
func (b *bed) handshake13(id openflow.DatapathID) *endpoint {
	p := b.dial()
	p.say(hello13)
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(id))
	open := p.expect(openflow.TypeExperimenter)
	p.expect(of13.TypeMultipartRequest)
	p.say(opened(openflow.XID(open)), ports13())
	return p
}

// stock connects a complete switch with four ports.
func (b *bed) stock(id openflow.DatapathID) *vswitch.Runner {
	r := vswitch.StartRunner(vswitch.RunnerConfig{Switch: vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 4)},
		Controllers: []string{b.addr}})
	b.t.Cleanup(r.Close)
	return r
}

func (b *bed) agent(id openflow.DatapathID, epoch uint64) *endpoint {
	p := b.dial()
	p.say(hello13, experimenter.Attach{Epoch: epoch, FirstHeld: 1, NextEvent: 2}.Append(nil, 4))
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(id))
	return p
}
