package learning

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

var (
	alice     = app.MAC{2, 0, 0, 0, 0, 0xa}
	bob       = app.MAC{2, 0, 0, 0, 0, 0xb}
	broadcast = app.MAC{255, 255, 255, 255, 255, 255}
)

func frame(dst, src app.MAC) string { return string(dst[:]) + string(src[:]) + "\x08\x00payload" }

// network has switch 1 with alice at port 1, known.
func network(t *testing.T) *apptest.Net {
	n := apptest.New(t, New())
	n.SwitchUp(1)
	n.PacketIn(1, 1, of13.NoBuffer, frame(broadcast, alice))
	return n
}

// output checks that a command sends a packet, or the buffered one, by a port.
func output(t *testing.T, s apptest.Sent, in, port app.Port, buffer uint32, data string) {
	t.Helper()
	out, ok := s.Message.(*of13.PacketOut)
	if !ok || s.Switch != 1 || out.InPort != in || out.BufferID != buffer || string(out.Data) != data ||
		string(out.Actions) != string(of13.Actions(nil).Output(port, 0)) {
		t.Errorf("sent %v, want %q from %v to %v", s, data, in, port)
	}
}

// flow checks that a command installs the flow from one address to another.
func flow(t *testing.T, s apptest.Sent, in app.Port, src, dst app.MAC, port app.Port, buffer uint32) {
	t.Helper()
	m, ok := s.Message.(*of13.FlowMod)
	want := of13.Match(nil).WithInPort(in).WithEthDst(dst).WithEthSrc(src)
	if !ok || m.Command != of13.FlowAdd || m.BufferID != buffer || m.IdleTimeout != IdleTimeout || m.Priority == 0 ||
		string(m.Match) != string(want) ||
		string(m.Instructions) != string(of13.Instructions(nil).Apply(of13.Actions(nil).Output(port, 0))) {
		t.Errorf("sent %v, want the flow %v to %v", s, want, port)
	}
}

// deletion returns the deletion that a command is.
func deletion(t *testing.T, s apptest.Sent) *of13.FlowMod {
	t.Helper()
	m, ok := s.Message.(*of13.FlowMod)
	if !ok || m.Command != of13.FlowDelete || m.TableID != of13.TableAll || m.OutGroup != of13.GroupAny ||
		m.BufferID != of13.NoBuffer {
		t.Fatalf("sent %v, want a deletion", s)
	}
	return m
}

func count(t *testing.T, sent []apptest.Sent, n int) {
	t.Helper()
	if len(sent) != n {
		t.Fatalf("%d commands, want %d: %v", len(sent), n, sent)
	}
}

func TestTableMiss(t *testing.T) {
	n := apptest.New(t, New())
	sent := n.SwitchUp(1)
	count(t, sent, 1)
	m := sent[0].Message.(*of13.FlowMod)
	if m.Command != of13.FlowAdd || m.Priority != 0 || len(m.Match) != 0 || m.BufferID != of13.NoBuffer {
		t.Errorf("table miss %v", m)
	}
}

func TestUnknownDestinationIsFlooded(t *testing.T) {
	n := network(t)
	f := frame(bob, alice)
	sent := n.PacketIn(1, 1, of13.NoBuffer, f)
	count(t, sent, 1)
	output(t, sent[0], 1, of13.PortFlood, of13.NoBuffer, f)
	sent = n.PacketIn(1, 1, 42, f)
	count(t, sent, 1)
	output(t, sent[0], 1, of13.PortFlood, 42, "")
}

func TestKnownDestinationGetsAFlow(t *testing.T) {
	n := network(t)
	f := frame(alice, bob)
	sent := n.PacketIn(1, 2, of13.NoBuffer, f)
	count(t, sent, 2)
	flow(t, sent[0], 2, bob, alice, 1, of13.NoBuffer)
	output(t, sent[1], 2, 1, of13.NoBuffer, f)
	sent = n.PacketIn(1, 2, 42, f) // the flow takes the buffered packet along
	count(t, sent, 1)
	flow(t, sent[0], 2, bob, alice, 1, 42)
}

func TestDestinationBehindTheSamePort(t *testing.T) {
	n := network(t)
	n.PacketIn(1, 1, of13.NoBuffer, frame(broadcast, bob))
	sent := n.PacketIn(1, 1, of13.NoBuffer, frame(bob, alice))
	count(t, sent, 1) // the flow drops: a switch does not send back by the port of ingress
	flow(t, sent[0], 1, alice, bob, 1, of13.NoBuffer)
}

func TestHostMoves(t *testing.T) {
	n := network(t)
	f := frame(broadcast, alice)
	sent := n.PacketIn(1, 5, of13.NoBuffer, f)
	count(t, sent, 3)
	for i, want := range []of13.Match{of13.Match(nil).WithEthDst(alice), of13.Match(nil).WithInPort(1).WithEthSrc(alice)} {
		if m := deletion(t, sent[i]); m.OutPort != of13.PortAny || string(m.Match) != string(want) {
			t.Errorf("deletes %v", m)
		}
	}
	output(t, sent[2], 5, of13.PortFlood, of13.NoBuffer, f)
	sent = n.PacketIn(1, 2, of13.NoBuffer, frame(alice, bob))
	count(t, sent, 2)
	flow(t, sent[0], 2, bob, alice, 5, of13.NoBuffer)
}

func TestSwitchesAreApart(t *testing.T) {
	n := network(t)
	n.SwitchUp(2)
	sent := n.PacketIn(2, 2, of13.NoBuffer, frame(alice, bob))
	count(t, sent, 1)
	if out := sent[0].Message.(*of13.PacketOut); sent[0].Switch != 2 ||
		string(out.Actions) != string(of13.Actions(nil).Output(of13.PortFlood, 0)) {
		t.Errorf("sent %v", sent[0])
	}
}

func TestGroupSourceIsNotLearned(t *testing.T) {
	n := network(t)
	n.PacketIn(1, 3, of13.NoBuffer, frame(alice, broadcast))
	sent := n.PacketIn(1, 1, of13.NoBuffer, frame(broadcast, alice))
	count(t, sent, 1)
	output(t, sent[0], 1, of13.PortFlood, of13.NoBuffer, frame(broadcast, alice))
}

func TestShortFrame(t *testing.T) {
	n := network(t)
	for _, f := range []string{"", "short", frame(bob, alice)[:12]} {
		n.PacketIn(1, 3, of13.NoBuffer, f)
	}
}

func TestPortGoesDown(t *testing.T) {
	for name, status := range map[string]of13.PortStatus{
		"removed":        {Reason: of13.PortDelete, Port: of13.PortDesc{Port: 1}},
		"no link":        {Reason: of13.PortModify, Port: of13.PortDesc{Port: 1, State: of13.PortStateLinkDown}},
		"administrative": {Reason: of13.PortModify, Port: of13.PortDesc{Port: 1, Config: of13.PortConfigDown}},
	} {
		t.Run(name, func(t *testing.T) {
			n := network(t)
			n.PacketIn(1, 2, of13.NoBuffer, frame(broadcast, bob))
			sent := n.Message(1, &status, 0)
			count(t, sent, 2)
			if m := deletion(t, sent[0]); m.OutPort != 1 || len(m.Match) != 0 {
				t.Errorf("deletes %v", m)
			}
			if m := deletion(t, sent[1]); m.OutPort != of13.PortAny ||
				string(m.Match) != string(of13.Match(nil).WithInPort(1)) {
				t.Errorf("deletes %v", m)
			}
			sent = n.PacketIn(1, 2, of13.NoBuffer, frame(alice, bob)) // forgotten
			count(t, sent, 1)
			output(t, sent[0], 2, of13.PortFlood, of13.NoBuffer, frame(alice, bob))
			sent = n.PacketIn(1, 3, of13.NoBuffer, frame(bob, alice)) // not forgotten
			count(t, sent, 2)
			flow(t, sent[0], 3, alice, bob, 2, of13.NoBuffer)
		})
	}
}

func TestPortComesUp(t *testing.T) {
	n := network(t)
	count(t, n.Message(1, &of13.PortStatus{Reason: of13.PortModify, Port: of13.PortDesc{Port: 1}}, 0), 0)
	sent := n.PacketIn(1, 2, of13.NoBuffer, frame(alice, bob))
	count(t, sent, 2)
	flow(t, sent[0], 2, bob, alice, 1, of13.NoBuffer)
}

// One host that sends from more addresses than are learned does not affect other ports, and its port can go down in one
// transaction.
func TestManyAddressesAtOnePort(t *testing.T) {
	n := network(t)
	at := func(i int) app.MAC { return app.MAC{2, 1, 0, byte(i >> 16), byte(i >> 8), byte(i)} }
	for i := range MaxHosts + 100 {
		n.PacketIn(1, 2, of13.NoBuffer, frame(broadcast, at(i)))
	}
	n.PacketIn(1, 3, of13.NoBuffer, frame(broadcast, bob))
	for _, c := range []struct {
		dst  app.MAC
		port app.Port
	}{{alice, 1}, {bob, 3}, {at(0), 2}, {at(MaxHosts - 1), 2}, {at(MaxHosts), of13.PortFlood}} {
		sent := n.PacketIn(1, 4, of13.NoBuffer, frame(c.dst, app.MAC{2, 0, 0, 0, 0, 0xc}))
		output(t, sent[len(sent)-1], 4, c.port, of13.NoBuffer, frame(c.dst, app.MAC{2, 0, 0, 0, 0, 0xc}))
	}
	moved := n.PacketIn(1, 3, of13.NoBuffer, frame(broadcast, at(0))) // and makes room
	deletion(t, moved[0])
	n.PacketIn(1, 2, of13.NoBuffer, frame(broadcast, at(MaxHosts)))
	sent := n.PacketIn(1, 4, of13.NoBuffer, frame(at(MaxHosts), alice))
	output(t, sent[len(sent)-1], 4, 2, of13.NoBuffer, frame(at(MaxHosts), alice))
	n.Message(1, &of13.PortStatus{Reason: of13.PortDelete, Port: of13.PortDesc{Port: 2}}, 0)
	sent = n.PacketIn(1, 1, of13.NoBuffer, frame(at(1), bob))
	output(t, sent[len(sent)-1], 1, of13.PortFlood, of13.NoBuffer, frame(at(1), bob))
}

// A host that sends from a million addresses fills neither the state nor an entry: also the one that forgets its port.
func TestStateUnderManyAddresses(t *testing.T) {
	n := 4 * MaxHosts
	if os.Getenv("HOLDFAST_MATRIX") == "all" {
		n = 1_000_000
	}
	l := newLoad(t)
	data := make([]byte, 60)
	data[6] = 2
	for i := range n {
		binary.BigEndian.PutUint32(data[8:], uint32(i))
		in := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: 60, Match: of13.Match(nil).WithInPort(41), Data: data}
		if l.event(1, in.Append(nil, 0)); !l.core.Room() {
			l.drain()
		}
	}
	l.drain()
	full, err := l.core.Snapshot()
	l.must(err)
	down := of13.PortStatus{Reason: of13.PortDelete, Port: of13.PortDesc{Port: 41}}
	l.event(1, down.Append(nil, 0))
	longest := 0
	for _, entry := range l.drain() {
		longest = max(longest, len(entry))
	}
	if failed := l.core.Counters().Failures; failed != 0 {
		t.Errorf("%d inputs failed", failed)
	}
	after, err := l.core.Snapshot()
	l.must(err)
	t.Logf("%d addresses: %d bytes of state, %d without the port, %d in the entry", n, len(full), len(after), longest)
	if len(full) > 2<<20 || len(after) > 200<<10 || longest > 1<<20 {
		t.Errorf("%d bytes of state, %d without the port, %d in the entry that forgets it", len(full), len(after),
			longest)
	}
}
