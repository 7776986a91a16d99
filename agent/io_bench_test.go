package agent_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// logger is a controller that acknowledges every event at once.
type logger struct {
	want    uint64
	done    chan struct{}
	command []byte // sent in answer to every event after the first, unless nil
}

func (l *logger) Attached(s *southbound.Session)                   { s.Claim(1, southbound.Resume{}) }
func (l *logger) Detached(*southbound.Session, error)              {}
func (l *logger) CommandsDone(*southbound.Session, uint64, uint64) {}
func (l *logger) Events(list []southbound.Delivery) {
	for _, d := range list {
		d.Done(l.events(d.Session, d.Batch))
	}
}

func (l *logger) events(s *southbound.Session, b southbound.Batch) error {
	last := b.First + uint64(b.Count) - 1
	s.Acknowledge(b.Epoch, last)
	if l.command != nil && last > 1 {
		s.Send(experimenter.Block{Generation: 1, Epoch: b.Epoch, First: last - 1, Count: 1}, l.command)
	}
	if last == l.want {
		close(l.done)
	}
	return nil
}

// startBench connects a switch, an agent and a controller over loopback, in this process.
func startBench(b *testing.B, l *logger) net.Conn {
	var listeners [2]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- southbound.Serve(ctx, listeners[0], southbound.Config{}, l) }()
	go func() {
		ended <- agent.Run(ctx, agent.Config{Listen: listeners[1], Controllers: []string{listeners[0].Addr().String()}})
	}()
	conn, err := net.Dial("tcp", listeners[1].Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); cancel(); <-ended; <-ended })
	shake(b, conn)
	b.ReportAllocs()
	b.ResetTimer()
	return conn
}

// BenchmarkThroughAgent sends one event from a switch's socket through the agent to a controller's handler, under
// load.
func BenchmarkThroughAgent(b *testing.B) {
	l := &logger{want: uint64(b.N) + 1, done: make(chan struct{})} // one more for SWITCH_UP
	conn := startBench(b, l)
	go io.Copy(io.Discard, conn)
	const batch = 100
	events := bytes.Repeat(packetIn(1), batch)
	b.SetBytes(int64(len(events) / batch))
	for left := b.N; left > 0; left -= batch {
		conn.Write(events[:min(left, batch)*len(events)/batch])
	}
	<-l.done
}

// BenchmarkRoundTrip sends one event at a time and waits for the command that answers it.
func BenchmarkRoundTrip(b *testing.B) {
	cmd := of13.PacketOut{BufferID: of13.NoBuffer, Data: make([]byte, 64)}
	l := &logger{want: uint64(b.N) + 1, done: make(chan struct{}), command: cmd.Append(nil, 1)}
	conn := startBench(b, l)
	in, event := ofconn.NewReader(conn), packetIn(1)
	for range b.N {
		conn.Write(event)
		for answered := false; !answered; {
			batch, err := in.Next()
			if err != nil {
				b.Fatal(err)
			}
			for len(batch) > 0 {
				var msg []byte
				msg, batch, _ = openflow.Next(batch)
				switch msg[1] {
				case of13.TypePacketOut:
					answered = true
				case of13.TypeBarrierRequest:
					conn.Write((&of13.BarrierReply{}).Append(nil, openflow.XID(msg)))
				}
			}
		}
	}
	<-l.done
}

// shake answers the handshake until the switch is up.
func shake(b *testing.B, conn net.Conn) {
	hello := of13.NewHello(of13.VersionsOf(4))
	conn.Write(hello.Append(nil, 1))
	in := ofconn.NewReader(conn)
	for {
		batch, err := in.Next()
		if err != nil {
			b.Fatal(err)
		}
		for len(batch) > 0 {
			var msg []byte
			msg, batch, _ = openflow.Next(batch)
			switch msg[1] {
			case of13.TypeFeaturesRequest:
				f := of13.FeaturesReply{DatapathID: 7}
				conn.Write(f.Append(nil, openflow.XID(msg)))
			case of13.TypeMultipartRequest:
				p := of13.MultipartReply{Part: of13.PartPortDesc}
				conn.Write(p.Append(nil, openflow.XID(msg)))
				return
			}
		}
	}
}
