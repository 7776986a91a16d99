package exchange_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// frame is one from host src to host dst.
func frame(dst, src byte) string {
	return string([]byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, exchange.EtherType >> 8, exchange.EtherType & 0xff})
}

// network is three switches, all of which have got their flow entry.
func network(t *testing.T) *apptest.Net {
	n := apptest.New(t, exchange.New())
	for sw := app.Switch(1); sw <= 3; sw++ {
		sent := n.SwitchUp(sw)
		if len(sent) != 1 || sent[0].Switch != sw || sent[0].Message.Type() != of13.TypeFlowMod {
			t.Fatalf("switch %s got %v, not one FLOW_MOD", sw, sent)
		}
	}
	return n
}

// want checks where a packet went: each place is a switch and a port.
func want(t *testing.T, sent []apptest.Sent, packet string, places ...string) {
	t.Helper()
	var got []string
	for _, s := range sent {
		out, ok := s.Message.(*of13.PacketOut)
		if !ok || string(out.Data) != packet {
			t.Fatalf("sent %+v, not the packet", s)
		}
		for action := range out.Actions.All() {
			got = append(got, fmt.Sprintf("%d.%d", uint64(s.Switch), action.Port))
		}
	}
	if !slices.Equal(got, places) {
		t.Errorf("the packet went to %v, want %v", got, places)
	}
}

// A packet goes to the port of its destination, which may be at another switch, and follows a host that moves.
func TestPacketToKnownHost(t *testing.T) {
	n := network(t)
	want(t, n.PacketIn(1, 7, of13.NoBuffer, frame(1, 1)), frame(1, 1), "1.7") // to itself, to be known
	want(t, n.PacketIn(3, 9, of13.NoBuffer, frame(1, 2)), frame(1, 2), "1.7")
	want(t, n.PacketIn(1, 7, of13.NoBuffer, frame(2, 1)), frame(2, 1), "3.9")
	want(t, n.PacketIn(2, 5, of13.NoBuffer, frame(1, 2)), frame(1, 2), "1.7") // host 2 has moved
	want(t, n.PacketIn(1, 7, of13.NoBuffer, frame(2, 1)), frame(2, 1), "2.5")
}

// A packet to an unknown host goes to every port with a known host, once, but not back.
func TestPacketToUnknownHost(t *testing.T) {
	n := network(t)
	want(t, n.PacketIn(1, 1, of13.NoBuffer, frame(99, 1)), frame(99, 1)) // nobody else is known
	want(t, n.PacketIn(2, 1, of13.NoBuffer, frame(99, 2)), frame(99, 2), "1.1")
	want(t, n.PacketIn(2, 1, of13.NoBuffer, frame(99, 3)), frame(99, 3), "1.1") // a second host at the port
	want(t, n.PacketIn(3, 1, of13.NoBuffer, frame(99, 4)), frame(99, 4), "1.1", "2.1")
}
