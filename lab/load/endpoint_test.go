package load

import (
	"net"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A switch answers the handshake, sends only the packet-ins that it is given, and passes packet-outs on.
func TestEndpoint(t *testing.T) {
	near, far := net.Pipe()
	if err := far.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 1)
	e := Connect(near, 7, Taps{PacketOut: func(m *of13.PacketOut) { out <- string(m.Data) }})
	in := ofconn.NewReader(far)
	next := func(want uint8) of13.Message {
		t.Helper()
		batch, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := of13.Decode(batch)
		if err != nil || m.Type() != want {
			t.Fatalf("got %v, %v; want one message of type %d", m, err, want)
		}
		return m
	}
	write := func(msg []byte) {
		t.Helper()
		if _, err := far.Write(msg); err != nil {
			t.Fatal(err)
		}
	}
	next(openflow.TypeHello)
	write((&of13.FeaturesRequest{}).Append(nil, 9))
	if f := next(of13.TypeFeaturesReply).(*of13.FeaturesReply); f.DatapathID != 7 {
		t.Errorf("datapath id %v, want 7", f.DatapathID)
	}
	sent := make(chan error, 1)
	go func() { sent <- e.PacketIn(3, []byte("question")) }()
	p := next(of13.TypePacketIn).(*of13.PacketIn)
	if port, _ := p.Match.InPort(); port != 3 || string(p.Data) != "question" || <-sent != nil {
		t.Errorf("got %+v", p)
	}
	write((&of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: []byte("answer")}).Append(nil, 1))
	if got := <-out; got != "answer" || e.Err() != nil {
		t.Errorf("got %q, %v", got, e.Err())
	}
	e.Close()
	if e.Err() == nil {
		t.Error("no error after Close")
	}
}
