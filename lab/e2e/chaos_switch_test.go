package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// chaosSwitch connects to its agent again and again, sends all the time, and records each connection separately: each
// is an epoch, or could have been one.
type chaosSwitch struct {
	id   openflow.DatapathID
	addr string
	wg   sync.WaitGroup
	stop chan struct{}

	mu      sync.Mutex // guards the fields below
	conns   []*chaosConn
	talking bool
}

// chaosConn is one connection of a switch, and its messages in order.
type chaosConn struct {
	net.Conn
	begun time.Time

	mu       sync.Mutex // guards the fields below
	sent     []string   // texts of packet-ins
	executed []string   // digests of commands
	ours     bool       // this side ended it
	abrupt   bool       // what was on its way may be lost
	ended    time.Time
}

func startChaosSwitch(t *testing.T, id openflow.DatapathID, addr string) *chaosSwitch {
	s := &chaosSwitch{id: id, addr: addr, stop: make(chan struct{}), talking: true}
	s.wg.Go(s.run)
	t.Cleanup(func() {
		close(s.stop)
		s.restart(true)
		s.wg.Wait()
	})
	return s
}

// run keeps connected.
func (s *chaosSwitch) run() {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		nc, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			continue
		}
		c := &chaosConn{Conn: nc, begun: time.Now()}
		n := s.add(c)
		ready := make(chan struct{})
		var talk sync.WaitGroup
		talk.Go(func() { s.talk(c, n, ready) })
		s.read(c, ready)
		c.mu.Lock()
		c.ended = time.Now()
		c.mu.Unlock()
		nc.Close()
		talk.Wait()
	}
}

// add makes a connection the current one, and returns its number. One that comes after the end of the test is closed:
// nobody else would.
func (s *chaosSwitch) add(c *chaosConn) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	select {
	case <-s.stop:
		c.Close()
	default:
	}
	return len(s.conns)
}

// talk sends packet-ins, no two of which are equal.
func (s *chaosSwitch) talk(c *chaosConn, conn int, ready chan struct{}) {
	<-ready
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		<-tick.C
		s.mu.Lock()
		talking := s.talking
		s.mu.Unlock()
		if !talking {
			c.mu.Lock()
			over := !c.ended.IsZero()
			c.mu.Unlock()
			if over {
				return
			}
			continue
		}
		text := fmt.Sprintf("%d/%d/%d ", s.id, conn, n)
		n++
		c.mu.Lock()
		over := c.ours || !c.ended.IsZero()
		if !over {
			c.sent = append(c.sent, text)
		}
		c.mu.Unlock()
		if over {
			return
		}
		if _, err := c.Write(packetIn(1, text).Append(nil, 0)); err != nil {
			return
		}
	}
}

// read executes commands until the connection ends. ready is closed at the end of the
// handshake, or of the connection.
func (s *chaosSwitch) read(c *chaosConn, ready chan struct{}) {
	shaken := false
	shake := func() {
		if !shaken {
			shaken = true
			close(ready)
		}
	}
	defer shake()
	fake := fakeSwitch{memory: newMemory(s.id)}
	hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
	if _, err := c.Write(hello.Append(nil, 1)); err != nil {
		return
	}
	in := ofconn.NewReader(c)
	for {
		batch, err := in.Next()
		if err != nil {
			return
		}
		var answers []byte
		for len(batch) > 0 {
			var msg []byte
			if msg, batch, err = openflow.Next(batch); err != nil {
				return
			}
			if isCommand(msg) {
				c.mu.Lock()
				c.executed = append(c.executed, audit.Digest(msg))
				c.mu.Unlock()
				continue
			}
			answers = fake.take(answers, msg)
			if msg[1] == of13.TypeMultipartRequest {
				if _, err := c.Write(answers); err != nil {
					return
				}
				answers = nil
				shake()
			}
		}
		if _, err := c.Write(answers); err != nil {
			return
		}
	}
}

func isCommand(msg []byte) bool {
	return msg[1] == of13.TypeFlowMod || msg[1] == of13.TypePacketOut
}

// restart ends the current connection: either after everything that was sent has arrived, or abruptly.
func (s *chaosSwitch) restart(abrupt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		return
	}
	c := s.conns[len(s.conns)-1]
	c.mu.Lock()
	c.ours, c.abrupt = true, c.abrupt || abrupt
	c.mu.Unlock()
	if abrupt {
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		c.Close()
	} else {
		_ = c.Conn.(*net.TCPConn).CloseWrite() // the agent sees the end, and closes
	}
}

func (s *chaosSwitch) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talking = false
}

// last returns the current connection, with what it has sent and executed.
func (s *chaosSwitch) last() (c *chaosConn, sent, executed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.conns[len(s.conns)-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, len(c.sent), len(c.executed)
}

// counterAnswer is the digest of the packet that the application counter sends after counting n packets with this text.
func counterAnswer(data []byte, n uint64) string {
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Actions: of13.Actions(nil).Output(1, 0),
		Data: binary.BigEndian.AppendUint64(bytes.Clone(data), n)}
	return audit.Digest(out.Append(nil, 0))
}
