package main

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/holdfasttest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestMain(m *testing.M) { holdfasttest.Main(m, New) }

// A packet to a host that has sent one goes to its port, and one to another host to all ports.
func TestForwards(t *testing.T) {
	const alice, bob = "\x02\x00\x00\x00\x00\x0a", "\x02\x00\x00\x00\x00\x0b"
	net := apptest.New(t, New())
	net.SwitchUp(1)
	for _, p := range []struct {
		from     app.Port
		dst, src string
		to       app.Port
	}{{1, bob, alice, of13.PortFlood}, {2, alice, bob, 1}, {1, bob, alice, 2}} {
		sent := net.PacketIn(1, p.from, of13.NoBuffer, p.dst+p.src+"\x08\x00payload")
		if len(sent) != 1 {
			t.Fatalf("%d commands, want one: %v", len(sent), sent)
		}
		out, is := sent[0].Message.(*of13.PacketOut)
		if want := of13.Actions(nil).Output(p.to, 0); !is || string(out.Actions) != string(want) {
			t.Errorf("sent %v, want a packet to port %v", sent[0], p.to)
		}
	}
}

// Three controllers run the application as processes. Their leader is killed under traffic: nothing is lost or
// repeated.
func TestSurvives(t *testing.T) {
	holdfasttest.Kill(t, "hello", 1)
}
