package load

import (
	"fmt"
	"net"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Endpoint is one fake switch of OpenFlow 1.3 that sends the packet-ins that it is given, and passes on what it
// receives. It is for measurements in which one switch gets the answer to what another one sent.
type Endpoint struct {
	id     openflow.DatapathID
	conn   net.Conn
	reader sync.WaitGroup
	mu     sync.Mutex // guards err
	err    error
}

// Taps are called with what a switch receives, by the goroutine that reads the connection. Each may be nil. Messages
// are valid during the call.
type Taps struct {
	PacketOut func(*of13.PacketOut)
	FlowMod   func(*of13.FlowMod)
	PortStats func() of13.List[of13.PortStats] // returns what the switch answers when it is asked for them
}

// Connect runs a switch on a connection until Close.
func Connect(conn net.Conn, id openflow.DatapathID, taps Taps) *Endpoint {
	s := newSwitch13(id, 1, nil)
	s.announce, s.stopped, s.taps = nil, true, taps
	e := &Endpoint{id: id, conn: conn}
	e.reader.Go(func() {
		err := e.read(s)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = fmt.Errorf("load: switch %v: %w", id, err)
	})
	return e
}

func (e *Endpoint) read(s *fakeSwitch) error {
	if _, err := e.conn.Write(s.hello); err != nil {
		return err
	}
	in := ofconn.NewReader(e.conn)
	for {
		batch, err := in.Next()
		if err != nil {
			return err
		}
		if err := s.receive(batch, 0); err != nil {
			return err
		}
		if replies := s.fill(nil, 0, 0); len(replies) > 0 {
			if _, err := e.conn.Write(replies); err != nil {
				return err
			}
		}
	}
}

// PacketIn sends a packet that came in at a port. It may be called from any goroutine, once the switch is up.
func (e *Endpoint) PacketIn(port of13.Port, packet []byte) error {
	in := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(packet)), Cookie: of13.NoCookie,
		Match: of13.Match(nil).WithInPort(port), Data: packet}
	if _, err := e.conn.Write(in.Append(nil, 0)); err != nil {
		return fmt.Errorf("load: switch %v: %w", e.id, err)
	}
	return nil
}

// Err returns why the connection has ended, nil while it is there.
func (e *Endpoint) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Close ends the connection, and waits for the goroutine.
func (e *Endpoint) Close() {
	e.conn.Close()
	e.reader.Wait()
}
