package agent_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// bed is an agent with its log.
type bed struct {
	t     *testing.T
	log   await.Log
	agent *agent.Agent
	addr  string
	stop  func()
}

func startAgent(t *testing.T, cfg agent.Config) *bed {
	t.Helper()
	b := &bed{t: t}
	if cfg.Listen == nil {
		cfg.Listen = listen(t)
	}
	b.addr = cfg.Listen.Addr().String()
	cfg.Logger = b.log.Logger()
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bed) status() agent.Status {
	for _, s := range b.agent.Status() {
		return s
	}
	return agent.Status{}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// fakeSwitch answers the requests that a switch must answer, and records the commands that it receives.
type fakeSwitch struct {
	conn net.Conn
	mute bool // sends no replies after the handshake

	mu   sync.Mutex
	tags []uint64 // of commands

	ready chan struct{} // closed at the end of the handshake; the agent may drop what the switch sends before
	done  chan struct{}
}

// dialSwitch connects a switch, and returns at the end of its handshake.
func dialSwitch(t *testing.T, addr string, dpid uint64) *fakeSwitch {
	t.Helper()
	s := tryDial(t, addr, dpid)
	select {
	case <-s.ready:
	default:
		t.Fatalf("the agent has refused switch %d", dpid)
	}
	return s
}

// tryDial connects a switch, and returns at the end of its handshake, or when the agent has refused it.
func tryDial(t *testing.T, addr string, dpid uint64) *fakeSwitch {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeSwitch{conn: conn, ready: make(chan struct{}), done: make(chan struct{})}
	go s.run(dpid)
	t.Cleanup(func() { conn.Close(); <-s.done })
	select {
	case <-s.ready:
	case <-s.done:
	}
	return s
}

// ended reports whether the connection has ended.
func (s *fakeSwitch) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *fakeSwitch) run(dpid uint64) {
	defer close(s.done)
	in := ofconn.NewReader(s.conn)
	hello := of13.NewHello(of13.VersionsOf(4))
	s.conn.Write(hello.Append(nil, 1))
	for {
		batch, err := in.Next()
		if err != nil {
			return
		}
		for len(batch) > 0 {
			msg, rest, _ := openflow.Next(batch)
			batch = rest
			s.answer(dpid, msg)
		}
	}
}

func (s *fakeSwitch) answer(dpid uint64, msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		return
	}
	switch msg[1] {
	case openflow.TypeEchoRequest:
		s.conn.Write(append([]byte{4, 3}, msg[2:]...))
	case of13.TypeFeaturesRequest:
		f := of13.FeaturesReply{DatapathID: openflow.DatapathID(dpid)}
		s.conn.Write(f.Append(nil, openflow.XID(msg)))
	case of13.TypeMultipartRequest:
		p := of13.MultipartReply{Part: of13.PartPortDesc}
		s.conn.Write(p.Append(nil, openflow.XID(msg)))
		close(s.ready)
	case of13.TypeBarrierRequest:
		s.conn.Write((&of13.BarrierReply{}).Append(nil, openflow.XID(msg)))
	case of13.TypeFlowMod:
		s.tags = append(s.tags, binary.BigEndian.Uint64(msg[8:]))
	}
}

func (s *fakeSwitch) commands() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint64(nil), s.tags...)
}

func packetIn(tag uint64) []byte {
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1),
		Data: binary.BigEndian.AppendUint64(nil, tag)}
	return p.Append(nil, 0)
}

func (s *fakeSwitch) say(from, to uint64) {
	var b []byte
	for tag := from; tag <= to; tag++ {
		b = append(b, packetIn(tag)...)
	}
	s.conn.Write(b)
}

// group stands for the controllers: they share a log, and one of them leads.
type group struct {
	mu     sync.Mutex
	t      *testing.T
	leader *member
	term   uint64
	epoch  uint64
	logged uint64 // watermark of the logged events of epoch
	seen   []string
	given  [][]byte // commands of the epoch, oldest first
	done   uint64
	react  func(g *group, event []byte) // reacts to a logged event; may append to given
	stall  chan struct{}
}

// member is one controller: a southbound server.
type member struct {
	g       *group
	addr    string
	stop    func()
	session *southbound.Session
}

func (g *group) start(t *testing.T) *member {
	t.Helper()
	m := &member{g: g}
	ln := listen(t)
	m.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- southbound.Serve(ctx, ln, southbound.Config{EchoInterval: 100 * time.Millisecond}, m) }()
	m.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(m.stop)
	return m
}

// lead makes m the leader of the next term.
func (g *group) lead(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leader = m
	g.term++
	if m.session != nil {
		g.takeOver(m)
	}
}

func (g *group) takeOver(m *member) {
	m.session.Claim(experimenter.Generation(1, g.term, 0),
		southbound.Resume{Epoch: g.epoch, Live: g.epoch > 0, Events: g.logged})
	if g.epoch > 0 {
		m.session.Acknowledge(g.epoch, g.logged)
	}
	if len(g.given) > 0 {
		g.send(m, 1) // sends all again: the agent drops those that it has forwarded
	}
}

func (g *group) send(m *member, first int) {
	m.session.Send(experimenter.Block{Generation: experimenter.Generation(1, g.term, 0), Epoch: g.epoch,
		First: uint64(first), Count: uint32(len(g.given) - first + 1)}, bytes.Join(g.given[first-1:], nil))
}

// tagged answers a packet-in with a command whose tag fakeSwitch records.
func (g *group) tagged(event []byte) {
	if event[1] == of13.TypePacketIn {
		cmd := append(openflow.AppendHeader(nil, 4, of13.TypeFlowMod, 1), make([]byte, 48)...)
		binary.BigEndian.PutUint64(cmd[8:], uint64(len(g.given)+1))
		openflow.SetLength(cmd)
		g.given = append(g.given, cmd)
	}
}

func (m *member) Attached(s *southbound.Session) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.session = s
	if m.g.leader == m {
		m.g.takeOver(m)
	}
}

func (m *member) Detached(*southbound.Session, error) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.session = nil
}

func (m *member) CommandsDone(_ *southbound.Session, epoch, seq uint64) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if epoch == m.g.epoch {
		m.g.done = max(m.g.done, seq)
	}
}

func (m *member) Events(list []southbound.Delivery) {
	for _, d := range list {
		d.Done(m.events(d.Session, d.Batch))
	}
}

func (m *member) events(s *southbound.Session, b southbound.Batch) error {
	if m.g.stall != nil {
		<-m.g.stall
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	g := m.g
	if g.leader != m {
		return nil
	}
	if b.Epoch > g.epoch {
		g.epoch, g.logged, g.given, g.done = b.Epoch, 0, nil, 0
	}
	if b.Epoch < g.epoch {
		return nil
	}
	if b.First > g.logged+1 {
		return fmt.Errorf("gap: %d after %d", b.First, g.logged)
	}
	before, seq := len(g.given), b.First
	for rest := b.Messages; len(rest) > 0; seq++ {
		msg, next, _ := openflow.Next(rest)
		rest = next
		if seq > g.logged {
			g.event(msg)
			g.logged = seq
		}
	}
	if int(seq-b.First) != b.Count {
		g.t.Errorf("%d messages in a batch of %d", seq-b.First, b.Count)
	}
	s.Acknowledge(g.epoch, g.logged)
	if len(g.given) > before {
		g.send(m, before+1)
	}
	return nil
}

func (g *group) event(msg []byte) {
	if g.react != nil {
		g.react(g, msg)
	}
	switch typ, ours := experimenter.Is(msg); {
	case ours && typ == experimenter.TypeSwitchDown:
		r, _ := experimenter.ParseSwitchDown(msg)
		g.seen = append(g.seen, "down: "+r.String())
	case ours:
		g.seen = append(g.seen, "up")
	case msg[1] == of13.TypePacketIn:
		var p of13.PacketIn
		if err := p.Decode(msg); err != nil {
			g.t.Error(err)
			return
		}
		g.seen = append(g.seen, fmt.Sprint(binary.BigEndian.Uint64(p.Data)))
	default:
		g.seen = append(g.seen, of13.TypeName(msg[1]))
	}
}

func (g *group) events() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.seen...)
}

func (g *group) finished() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done == uint64(len(g.given))
}

func (g *group) want(t *testing.T, want ...string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%v logged", want), func() bool { return len(g.events()) >= len(want) })
	if got := g.events(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("logged %v, want %v", got, want)
	}
}
