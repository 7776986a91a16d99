package e2e

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// patience is how long tests wait for what must happen: long, for busy machines.
const patience = await.Limit

// fakeSwitch speaks OpenFlow 1.3 and forwards nothing: it sends what a test wants, executes commands by recording them,
// and reports both to a tally.
type fakeSwitch struct {
	*memory
	t     *testing.T
	conn  net.Conn
	tally *oracle.Tally // nil for a switch that does not count
	ended chan struct{}
}

// memory is what a switch executed.
type memory struct {
	id openflow.DatapathID

	mu       sync.Mutex // guards the fields below
	commands [][]byte
	err      error
	changed  chan struct{} // closed, and made anew, when something came
}

func newMemory(id openflow.DatapathID) *memory { return &memory{id: id, changed: make(chan struct{})} }

// dialSwitch connects a switch from a source address of 127.0.0.0/8, and does the handshake.
func dialSwitch(t *testing.T, id openflow.DatapathID, from, to string, tally *oracle.Tally) *fakeSwitch {
	t.Helper()
	s := &fakeSwitch{memory: newMemory(id), t: t, conn: dialFrom(t, from, to), tally: tally, ended: make(chan struct{})}
	t.Cleanup(s.close)
	hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
	s.write(hello.Append(nil, 1))
	go s.read() // ends with the connection
	return s
}

func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var conn net.Conn
		if conn, err = d.Dial("tcp", to); err == nil { // it may not listen yet
			return conn
		}
	}
	t.Fatalf("connect to %s: %v", to, err)
	return nil
}

func (s *fakeSwitch) close() {
	s.conn.Close()
	<-s.ended
}

func (s *fakeSwitch) cut() { s.conn.Close() }

func (s *fakeSwitch) write(msg []byte) {
	s.t.Helper()
	if _, err := s.conn.Write(msg); err != nil {
		s.t.Errorf("switch %s: %v", s.id, err)
	}
}

func (s *fakeSwitch) read() {
	defer close(s.ended)
	in := ofconn.NewReader(s.conn)
	for {
		batch, err := in.Next()
		var answers []byte
		for err == nil && len(batch) > 0 {
			var msg []byte
			if msg, batch, err = openflow.Next(batch); err == nil {
				answers = s.take(answers, msg)
			}
		}
		if err == nil {
			_, err = s.conn.Write(answers)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// fail records that no further messages will arrive.
func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	m.wake()
}

// note records a command.
func (m *memory) note(msg []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, bytes.Clone(msg))
	m.wake()
}

func (m *memory) wake() { close(m.changed); m.changed = make(chan struct{}) }

func (m *memory) name() openflow.DatapathID { return m.id }

// take answers a request of the controller, or executes a command.
func (s *fakeSwitch) take(answers, msg []byte) []byte {
	xid := openflow.XID(msg)
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoReply, openflow.TypeError:
	case openflow.TypeEchoRequest:
		return (&of13.EchoReply{}).Append(answers, xid)
	case of13.TypeFeaturesRequest:
		return (&of13.FeaturesReply{DatapathID: s.id, NTables: 1}).Append(answers, xid)
	case of13.TypeMultipartRequest:
		ports := of13.List[of13.PortDesc](nil).With(of13.PortDesc{Port: 1, Name: "p1"}).With(of13.PortDesc{Port: 2,
			Name: "p2"})
		return (&of13.MultipartReply{Part: of13.PartPortDesc, Body: ports}).Append(answers, xid)
	case of13.TypeBarrierRequest:
		return (&of13.BarrierReply{}).Append(answers, xid)
	case of13.TypeRoleRequest:
		var r of13.RoleRequest
		if err := r.Decode(msg); err == nil {
			return (*of13.RoleReply)(&r).Append(answers, xid)
		}
	case openflow.TypeExperimenter:
		return (&of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadExperimenter,
			Data: msg[:min(len(msg), 64)]}).Append(answers, xid)
	default:
		if xid >= handshake.OwnXID {
			return answers // the marker of stock mode, and its marks
		}
		if s.tally != nil {
			s.tally.ToSwitch(s.id, msg)
		}
		s.note(msg)
	}
	return answers
}

// event sends a message that is not an answer.
func (s *fakeSwitch) event(m of13.Message) {
	s.t.Helper()
	msg := m.Append(nil, 0)
	if s.tally != nil {
		s.tally.FromSwitch(s.id, msg)
	}
	s.write(msg)
}

// packetIn sends a packet-in whose packet is an Ethernet header and a text.
func (s *fakeSwitch) packetIn(text string) {
	s.t.Helper()
	s.event(packetIn(1, text))
}

func packetIn(port of13.Port, text string) *of13.PacketIn {
	data := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, text...)
	return &of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(data)), Match: of13.Match(nil).WithInPort(port),
		Data: data}
}

// executed returns the commands that the switch has executed so far.
func (m *memory) executed() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// wait waits until the switch has n commands, and returns an error if that does not happen.
func (m *memory) wait(n int) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		m.mu.Lock()
		have, err, changed := len(m.commands), m.err, m.changed
		m.mu.Unlock()
		switch {
		case have >= n:
			return nil
		case err != nil:
			return fmt.Errorf("switch %s has %d commands of %d, and its connection ended: %w", m.id, have, n, err)
		}
		select {
		case <-changed:
		case <-deadline.C:
			return fmt.Errorf("switch %s has %d commands of %d after %v", m.id, have, n, patience)
		}
	}
}

// packetOuts returns the packets that the switch was told to send out, as texts.
func (m *memory) packetOuts() []string { return packetsOf(m.executed()) }

func packetsOf(commands [][]byte) []string {
	var list []string
	for _, c := range commands {
		var out of13.PacketOut
		if c[1] == of13.TypePacketOut && out.Decode(c) == nil {
			list = append(list, string(out.Data[14:]))
		}
	}
	return list
}
