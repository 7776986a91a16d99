package load

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// responder is a controller that answers the handshake, and each packet-in that has a buffer with a precomputed
// flow-mod, in the same goroutine that reads. It is the peer with which a deadlock is most likely.
type responder struct {
	version uint8
	mute    bool                                // answers no packet-in
	twice   bool                                // answers each packet-in with two flow-mods
	see     func(dpid int, msg []byte)          // called for every packet-in
	greet   func(xid uint32, dst []byte) []byte // appended to the handshake
	wg      sync.WaitGroup
}

func (r *responder) serve(conn net.Conn, i int) {
	r.wg.Go(func() {
		defer conn.Close()
		// When the load ends, its last message may be truncated, and answers may be in flight.
		var reset *net.OpError
		err := r.talk(conn, i)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
			errors.Is(err, io.ErrClosedPipe)
		if err != nil && !ended && !errors.As(err, &reset) {
			panic(err)
		}
	})
}

// flowMod10 is a FLOW_MOD of 1.0 without a match, for buffer 1, which sends the packet to port 2.
func flowMod10(command uint8) []byte {
	body := make([]byte, 72)
	body[49], body[59] = command, 1
	be.PutUint16(body[60:], 0xffff) // any output
	copy(body[64:], []byte{0, 0, 0, 8, 0, 2, 0, 0})
	return message10(nil, of13.TypeFlowMod, 1, body)
}

func (r *responder) flowMod() []byte {
	if r.version == openflow.Version10 {
		return flowMod10(of13.FlowAdd)
	}
	return (&of13.FlowMod{OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: of13.Match(nil).WithInPort(1),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))}).Append(nil, 0)
}

func (r *responder) talk(conn net.Conn, i int) error {
	answer, bufferAt := r.flowMod(), 32
	if r.version == openflow.Version10 {
		bufferAt = 64
	}
	hello := openflow.AppendHeader(nil, r.version, openflow.TypeHello, 1)
	openflow.SetLength(hello)
	features := openflow.AppendHeader(nil, r.version, of13.TypeFeaturesRequest, 2)
	openflow.SetLength(features)
	out := append(hello, features...)
	if r.greet != nil {
		out = r.greet(3, out)
	}
	in := ofconn.NewReader(conn)
	for {
		batch, err := in.Next()
		if err != nil {
			return err
		}
		for len(batch) > 0 {
			var msg []byte
			msg, batch, _ = openflow.Next(batch)
			if msg[1] != of13.TypePacketIn {
				continue
			}
			if r.see != nil {
				r.see(i, msg)
			}
			id := binary.BigEndian.Uint32(msg[8:])
			if r.mute || id == of13.NoBuffer {
				continue
			}
			binary.BigEndian.PutUint32(answer[bufferAt:], id)
			out = append(out, answer...)
			if r.twice {
				out = append(out, answer...)
			}
		}
		if len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
}

// pipe connects the fake switches through net.Pipe, which has no buffer.
func (r *responder) pipe(context.Context, int) (net.Conn, error) { return r.dial(0) }

func (r *responder) dial(i int) (net.Conn, error) {
	a, b := net.Pipe()
	r.serve(b, i)
	return a, nil
}

// listen serves on loopback, and returns a Dial that connects to it.
func (r *responder) listen(t testing.TB) func(context.Context, int) (net.Conn, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.wg.Go(func() {
		for i := 0; ; i++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			r.serve(conn, i)
		}
	})
	t.Cleanup(func() { ln.Close(); r.wg.Wait() })
	return At(ln.Addr().String())
}
