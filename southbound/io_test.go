package southbound

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestLegacySession(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.legacy(7)
	p.say(packetIn10(1), raw(1, 2, 77), packetIn10(2))
	if echo := p.expect(openflow.TypeEchoReply); openflow.XID(echo) != 77 {
		t.Fatalf("%x", echo)
	}
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN")
	s := b.session(7)
	out := of13.PacketOut{BufferID: of13.NoBuffer, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	if err := s.Send(commandBlock(1, s.State().Epoch, 1, 1), out.Append(nil, 1)); err != nil {
		t.Fatal(err)
	}
	p.expect(of13.TypePacketOut)
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 1")
	meter := (&of13.MeterMod{MeterID: 1}).Append(nil, 2)
	if err := s.Send(commandBlock(1, s.State().Epoch, 0, 1), meter); err != nil {
		t.Fatal(err)
	}
	b.log.Line(t, "cannot be expressed in the other OpenFlow version")
	p.Close()
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 1, 7/4 "+
		"HOLDFAST_SWITCH_DOWN, detached 7")
	if len(b.log.Lines("switch detached")) != 1 {
		t.Fatal(&b.log)
	}
}

func TestBundlesSession(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	sw := b.stock(7)
	story := "attached 7 bundles, 7 HOLDFAST_SWITCH_UP"
	b.want(t, story)
	sw.SetPortLive(2, false)
	story += ", 7 PORT_STATUS"
	b.want(t, story)
	s := b.session(7)
	if err := s.Send(commandBlock(1, s.State().Epoch, 1, 2), concat(cookieMod(0x77).Append(nil, 1),
		cookieMod(0x78).Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	story += ", 7 done 2"
	b.want(t, story)
	if st := s.State(); st.Guarantee != "exactly-once" {
		t.Fatalf("%+v", st)
	}
	sw.Close()
	b.want(t, story+", 7 HOLDFAST_SWITCH_DOWN, detached 7")
}

func cookieMod(cookie uint64) *of13.FlowMod {
	return &of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Cookie: cookie, Match: of13.Match(nil).WithUint(of13.FieldMetadata, cookie)}
}

// TestLoadGenerator connects a peer of OpenFlow 1.0 that answers only HELLO, FEATURES_REQUEST and echoes.
func TestLoadGenerator(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.dial()
	p.say(hello10)
	p.expect(of13.TypeFeaturesRequest)
	in := packetIn10('x')
	p.say(in, features10(7), in) // before the end of the handshake
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN")
	s := b.session(7)
	out := of13.PacketOut{BufferID: 1, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
	if err := s.Send(commandBlock(1, s.State().Epoch, 1, 2),
		concat(out.Append(nil, 1), out.Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	p.expect(of13.TypePacketOut)
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN, 7/3 PACKET_IN, 7 done 2")
}

func TestFollowerThenLeader(t *testing.T) {
	b := (&bed{t: t}).start(Config{EchoInterval: 20 * time.Millisecond, SilentAfter: time.Minute}) // p sends no echo reply
	p := b.legacy(7)
	p.say(packetIn10(1)) // arrives before the epoch begins
	await.Until(t, "attached", func() bool { return b.session(7) != nil })
	time.Sleep((freshTicks + 3) * TickInterval)
	if s := b.session(7); s.State().Epoch != 0 || s.Claim(5, Resume{}) != nil || s.State().Epoch == 0 {
		t.Fatalf("epoch %d", s.State().Epoch)
	}
	p.expect(of13.TypeFeaturesRequest)
	p.say(features10(7), packetIn10(2))
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, 7/2 PACKET_IN")
}

func TestStockFollowerThenLeader(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	sw := b.stock(7)
	await.Until(t, "attached", func() bool { return b.session(7) != nil })
	s := b.session(7)
	s.Standby(4)
	sw.SetPortLive(2, false) // is held until it is logged
	await.Until(t, "held", func() bool { return s.Held() == 1 })
	if s.State().Epoch != 0 || s.Claim(5, Resume{}) != nil {
		t.Fatalf("epoch %d", s.State().Epoch)
	}
	b.want(t, "attached 7 bundles, 7 HOLDFAST_SWITCH_UP, 7 PORT_STATUS")
}

func TestAgentSession(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{})
	p := b.agent(7, 100)
	p.expect(of13.TypeRoleRequest)
	p.say(roleReply(1), eventBlock(100, 1, packetIn13(1)),
		experimenter.Ack{Epoch: 100, Seq: 4}.Append(nil, 4, experimenter.TypeCommandAck))
	b.want(t, "attached 7 agent, 7/1 PACKET_IN, 7 done 4")
	s := b.session(7)
	if st := s.State(); st.Epoch != 100 || st.Version != 4 || st.Remote != p.LocalAddr().String() {
		t.Fatalf("%+v", st)
	}
	s.Refuse(experimenter.ReasonStaleEpoch, 500)
	r, err := experimenter.ParseRefuse(p.expect(openflow.TypeExperimenter))
	if err != nil || r.Epoch != 500 || r.Reason != experimenter.ReasonStaleEpoch {
		t.Fatalf("%+v, %v", r, err)
	}
	p.say(eventBlock(100, 2, packetIn13(2)))
	p.Close()
	b.want(t, "attached 7 agent, 7/1 PACKET_IN, 7 done 4, detached 7")
}

// TestBadPeers: the session of each is closed, with one log line that names the peer. No other session is affected.
func TestBadPeers(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		bad        func(b *bed) *endpoint
	}{
		{"garbage", "is it an OpenFlow switch", func(
			b *bed) *endpoint {
			p := b.dial()
			p.say([]byte("GET / HTTP/1.1\r\n\r\n"))
			return p
		}},
		{"silence", "is it an OpenFlow switch", func(b *bed) *endpoint { return b.dial() }},
		{"length 3", "less than a header", func(b *bed) *endpoint {
			p := b.legacy(8)
			p.say([]byte{1, 10, 0, 3, 0, 0, 0,
				0})
			return p
		}},
		{"half a message", "unexpected EOF", func(b *bed) *endpoint {
			p := b.legacy(8)
			p.say(packetIn10(1)[:15])
			p.Conn.(*net.TCPConn).CloseWrite()
			return p
		}},
		{"version 5", "enable 1.3", func(b *bed) *endpoint { p := b.dial(); p.say(raw(3, 0, 0)); return p }},
		{"version changes", "version 4 after", func(b *bed) *endpoint {
			p := b.legacy(8)
			p.say(raw(4, 10,
				0))
			return p
		}},
		{"says nothing any more", "silent", func(b *bed) *endpoint { return b.legacy(8) }},
		{"does not read", "does not read", func(b *bed) *endpoint { return neverReads(b, b.legacy(8), 1) }},
		{"stock: half a message", "unexpected EOF", func(b *bed) *endpoint {
			p := b.handshake13(8)
			p.say(packetIn13(1)[:20])
			p.Conn.(*net.TCPConn).CloseWrite()
			return p
		}},
		{"stock: version changes", "version 1 after",
			func(b *bed) *endpoint { p := b.handshake13(8); p.say(raw(1, 10, 0)); return p }},
		{"stock: says nothing any more", "silent", func(b *bed) *endpoint { return b.handshake13(8) }},
		{"stock: does not read", "does not read", func(b *bed) *endpoint { return neverReads(b, b.handshake13(8), 4) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // some wait for these times, which are long for busy machines
			b := (&bed{t: t, lead: true}).start(Config{HandshakeTimeout: 2 * time.Second,
				EchoInterval: 50 * time.Millisecond,
				SilentAfter:  3 * time.Second, SendQueue: 1 << 20, WriteTimeout: 5 * time.Second})
			good := b.stock(7)
			await.Until(t, "the good one is there", func() bool {
				return strings.Contains(b.told(),
					"7 HOLDFAST_SWITCH_UP")
			})
			bad := tc.bad(b)
			bad.closed()
			b.log.Line(t, "level=WARN")
			time.Sleep(50 * time.Millisecond)
			if lines := b.log.Lines("level=WARN"); len(lines) != 1 || !strings.Contains(lines[0], tc.line) ||
				!strings.Contains(lines[0], bad.LocalAddr().String()) {
				t.Errorf("%d lines: %s", len(lines), lines)
			}
			good.SetPortLive(2, false)
			await.Until(t, "the good one goes on", func() bool { return strings.Contains(b.told(), "7 PORT_STATUS") })
		})
	}
}

// neverReads sends more echo requests than the server queues replies for, and does not read.
func neverReads(b *bed, p *endpoint, version uint8) *endpoint {
	go func() {
		echo := raw(version, 2, 1, make([]byte, 60000)...)
		for {
			if _, err := p.Write(echo); err != nil {
				return
			}
		}
	}()
	b.log.Line(b.t, "does not read")
	return p
}

func TestStormIsOneLine(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	for range 200 {
		p := b.dial()
		p.say(raw(9, 9, 9))
		p.closed()
	}
	if n := len(b.log.Lines("connection refused")); n != 1 {
		t.Fatalf("%d lines", n)
	}
}

func TestTooManySessions(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{MaxSessions: 1})
	b.agent(7, 100).expect(of13.TypeRoleRequest)
	for range 3 {
		b.dial().closed()
	}
	if n := len(b.log.Lines("too many sessions")); n != 1 {
		t.Fatalf("%d lines", n)
	}
}

func TestBusyHandlerIsNoDeadSwitch(t *testing.T) {
	b := (&bed{t: t, lead: true, gate: make(chan struct{})}).start(Config{ProbeTimeout: 50 * time.Millisecond,
		EchoInterval: 50 * time.Millisecond, SilentAfter: 200 * time.Millisecond})
	first := b.agent(7, 100)
	first.expect(of13.TypeRoleRequest)
	first.say(roleReply(1), eventBlock(100, 1, packetIn13(1)), eventBlock(100, 2, packetIn13(2)))
	time.Sleep(400 * time.Millisecond)
	second := b.agent(7, 100)
	if _, err := experimenter.ParseRefuse(second.expect(openflow.TypeExperimenter)); err != nil {
		t.Fatal(err)
	}
	second.Close()
	close(b.gate)
	await.Until(t, "both events", func() bool { return strings.Contains(b.told(), "7/2 PACKET_IN") })
}

// An agent that is claimed and answers no heartbeats is detached. While the handler is busy with its events it is not.
func TestSilentAgentIsDetached(t *testing.T) {
	b := (&bed{t: t, lead: true, gate: make(chan struct{})}).start(Config{Heartbeat: 20 * time.Millisecond})
	p := b.agent(7, 100)
	p.expect(of13.TypeRoleRequest)
	p.say(roleReply(1), eventBlock(100, 1, packetIn13(1)))
	time.Sleep(200 * time.Millisecond)
	s := b.session(7)
	if s.State().Silent {
		t.Error("it is not read, and counts as silent")
	}
	close(b.gate)
	p.closed()
	b.want(t, "attached 7 agent, 7/1 PACKET_IN, detached 7")
	if !s.State().Silent {
		t.Errorf("%+v", s.State())
	}
}

func TestHandlerEndsTheSession(t *testing.T) {
	b := (&bed{t: t, lead: true, fail: errors.New("gap")}).start(Config{})
	p := b.legacy(7)
	p.closed()
	b.want(t, "attached 7 legacy, 7/1 HOLDFAST_SWITCH_UP, detached 7")
	if lines := b.log.Lines("refuses its events: gap"); len(lines) != 1 {
		t.Fatal(&b.log)
	}
}

func TestConfigIsChecked(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), ln, Config{EchoInterval: 3 * time.Second}, &bed{}); err == nil {
		t.Fatal("it passed")
	}
}

func TestAgentOfAnotherReleaseReadsWhy(t *testing.T) {
	b := (&bed{t: t}).start(Config{})
	p := b.dial()
	other := experimenter.Attach{Epoch: 100}.Append(nil, 4)
	other[19]++ // protocol version
	p.say(hello13, other)
	p.expect(of13.TypeFeaturesRequest)
	p.say(features13(7)) // in flight when the server refuses
	r, err := experimenter.ParseRefuse(p.expect(openflow.TypeExperimenter))
	if err != nil || r.Reason != experimenter.ReasonUnsupportedVersion {
		t.Fatalf("%+v, %v", r, err)
	}
	p.Close()
	b.log.Line(t, "same release")
}
