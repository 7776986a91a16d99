package agent_test

import (
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestLeadersComeAndGo tests Ravana, section 3: whichever controller dies, every event is logged once, and every
// command is executed once and in order.
func TestLeadersComeAndGo(t *testing.T) {
	g := &group{t: t, react: (*group).tagged}
	members := []*member{g.start(t), g.start(t), g.start(t)}
	b := startAgent(t, agent.Config{Controllers: []string{members[0].addr, members[1].addr, members[2].addr}})
	g.lead(members[0])
	sw := dialSwitch(t, b.addr, 7)
	const n = 20000
	var talk sync.WaitGroup
	talk.Go(func() {
		for tag := uint64(1); tag <= n; tag += 100 {
			sw.say(tag, tag+99)
			time.Sleep(time.Millisecond)
		}
	})
	await.Until(t, "some events", func() bool { return len(g.events()) > n/10 })
	g.lead(members[1]) // the old leader continues to run
	await.Until(t, "more events", func() bool { return len(g.events()) > n/4 })
	members[1].stop() // the leader dies
	g.lead(members[2])
	talk.Wait()
	await.Until(t, "all events", func() bool { return len(g.events()) == n+1 && g.finished() })
	for i, e := range g.events() {
		if i > 0 && e != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, e)
		}
	}
	tags := sw.commands()
	if len(tags) != n {
		t.Fatalf("%d commands executed, want %d", len(tags), n)
	}
	for i, tag := range tags {
		if tag != uint64(i+1) {
			t.Fatalf("command %d is %x", i+1, tag)
		}
	}
	await.Until(t, "everything acknowledged", func() bool { return b.status().Held == 0 })
	if s := b.status(); experimenter.Term(s.Generation) != 3 || s.Master != members[2].addr || s.Done != n || s.Counters.Forwarded != n {
		t.Fatalf("status %+v", s)
	}
}

func TestSwitchGoesAndReturns(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	sw := dialSwitch(t, b.addr, 7)
	sw.say(1, 2)
	await.Until(t, "events are held", func() bool { return b.status().Held == 3 })
	first := b.status().Epoch
	sw.conn.Close()
	await.Until(t, "the switch is down", func() bool { return !b.status().Connected })
	dialSwitch(t, b.addr, 7).say(3, 3)
	await.Until(t, "the switch is up", func() bool { return b.status().Epoch > first })
	g.lead(m)
	g.want(t, "up", "1", "2", "down: connection lost", "up", "3")
}

// Metrics say what an agent holds, by switch.
func TestMetrics(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	read := func(want ...string) func() bool {
		return func() bool {
			w := httptest.NewRecorder()
			b.agent.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return !slices.ContainsFunc(want, func(line string) bool {
				return !strings.Contains(w.Body.String(), "\nholdfast_agent_"+line+"\n")
			})
		}
	}
	sw := dialSwitch(t, b.addr, 7)
	sw.say(1, 2)
	const of = `{switch="0000000000000007"}`
	await.Until(t, "the events that are held", read("switch_events_held"+of+" 3", "switch_connected"+of+" 1",
		"switch_has_master"+of+" 0", `switches{state="connected"} 1`, `switches{state="away"} 0`))
	g.lead(m)
	await.Until(t, "that they are acknowledged", read("switch_events_held"+of+" 0", "switch_has_master"+of+" 1",
		"switch_events_total"+of+" 3", "switch_events_acknowledged_total"+of+" 3", "switch_controllers"+of+" 1"))
	sw.conn.Close()
	await.Until(t, "that the switch is away", read("switch_connected"+of+" 0", `switches{state="away"} 1`))
}

// A switch that has gone costs its agent nothing once the controllers have all of its events, and not before.
func TestGoneSwitchIsForgotten(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}, EchoInterval: 10 * time.Millisecond,
		GoneAfter: 10 * time.Millisecond})
	sw := dialSwitch(t, b.addr, 7)
	sw.say(1, 2)
	await.Until(t, "events are held", func() bool { return b.status().Held == 3 })
	first := b.status().Epoch
	sw.conn.Close()
	await.Until(t, "the switch is down", func() bool { return !b.status().Connected })
	time.Sleep(100 * time.Millisecond)
	if n := b.status().Held; n != 4 {
		t.Errorf("the agent holds %d events that nobody has acknowledged, want 4", n)
	}
	g.lead(m)
	await.Until(t, "the switch is forgotten", func() bool { return len(b.agent.Status()) == 0 })
	await.Until(t, "its connection to the controller is closed", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return m.session == nil
	})
	dialSwitch(t, b.addr, 7).say(3, 3)
	g.want(t, "up", "1", "2", "down: connection lost", "up", "3")
	if again := b.status().Epoch; again <= first {
		t.Errorf("epoch %d after %d", again, first)
	}
}

func TestSilentSwitch(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	g.lead(m)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}, EchoInterval: 50 * time.Millisecond,
		SilentAfter: 300 * time.Millisecond})
	sw := dialSwitch(t, b.addr, 7)
	g.want(t, "up")
	time.Sleep(400 * time.Millisecond)
	g.want(t, "up")
	sw.mu.Lock()
	sw.mute = true
	sw.mu.Unlock()
	g.want(t, "up", "down: silent")
}

func TestGarbageFromSwitch(t *testing.T) {
	b := startAgent(t, agent.Config{Controllers: []string{"127.0.0.1:1"}})
	good, bad := dialSwitch(t, b.addr, 7), dialSwitch(t, b.addr, 8)
	await.Until(t, "both are up", func() bool { return len(b.log.Lines("switch up")) == 2 })
	bad.conn.Write([]byte{4, 10, 0, 3, 0, 0, 0, 0})
	if line := b.log.Line(t, "switch down"); !strings.Contains(line, "sent garbage") ||
		!strings.Contains(line, "0000000000000008") {
		t.Fatal(line)
	}
	good.say(1, 1)
	await.Until(t, "the other one goes on", func() bool { return b.status().Switch == 7 && b.status().Held == 2 })
}

func TestNoSwitchAtAll(t *testing.T) {
	b := startAgent(t, agent.Config{Controllers: []string{"127.0.0.1:1"}, HandshakeTimeout: 100 * time.Millisecond})
	for range 20 {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "GET / HTTP/1.1\r\n\r\n")
		buf := make([]byte, 64)
		for err == nil { // until the agent closes the connection
			_, err = conn.Read(buf)
		}
		conn.Close()
	}
	if lines := b.log.Lines("switch refused"); len(lines) != 1 ||
		!strings.Contains(lines[0], "is it an OpenFlow switch?") {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
}

func TestSecondSwitchWithTheSameDatapath(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	g.lead(m)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	first := dialSwitch(t, b.addr, 7)
	g.want(t, "up")
	for range 5 {
		second := dialSwitch(t, b.addr, 7)
		<-second.done
	}
	if lines := b.log.Lines("switch refused"); len(lines) != 1 ||
		!strings.Contains(lines[0], "give each switch its own") {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	first.say(1, 1)
	g.want(t, "up", "1")
}

func TestFullBufferLosesNothing(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}, BufferEvents: 16,
		EchoInterval: 50 * time.Millisecond, SilentAfter: 200 * time.Millisecond})
	sw := dialSwitch(t, b.addr, 7)
	sw.say(1, 500)
	await.Until(t, "the buffer is full", func() bool { return b.status().Held == 15 })
	time.Sleep(400 * time.Millisecond) // longer than the limit for a silent switch
	if s := b.status(); !s.Connected || s.Held != 15 {
		t.Fatalf("status %+v", s)
	}
	g.lead(m)
	await.Until(t, "all events", func() bool { return len(g.events()) == 501 })
	for i, e := range g.events() {
		if i > 0 && e != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, e)
		}
	}
	if n := len(b.log.Lines("event buffer is full")); n != 1 {
		t.Fatalf("%d lines", n)
	}
}

// A controller that is not done with events gets a window of them, and the others later.
func TestControllerThatDoesNotRead(t *testing.T) {
	g := &group{t: t, stall: make(chan struct{})}
	m := g.start(t)
	g.lead(m)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	sw := dialSwitch(t, b.addr, 7)
	big := make([]byte, 60000)
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: big}
	msg := p.Append(nil, 0)
	go func() {
		for range 400 { // 24 MB: more than the buffers of the sockets
			if _, err := sw.conn.Write(msg); err != nil {
				return
			}
		}
	}()
	await.Until(t, "there is much to write", func() bool { return b.status().HeldBytes > 16<<20 })
	if n := b.status().Counters.Sent; n > 20 {
		t.Errorf("%d events of 60 kB are sent", n)
	}
	close(g.stall)
	await.Until(t, "all events after all", func() bool { return len(g.events()) == 401 })
}

// The refusal arrives while events wait for a controller that does not take them.
func TestRefusedWhileEventsWait(t *testing.T) {
	ln := listen(t)
	defer ln.Close()
	b := startAgent(t, agent.Config{Controllers: []string{ln.Addr().String()}})
	sw := dialSwitch(t, b.addr, 7)
	p := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: make([]byte, 60000)}
	msg := p.Append(nil, 0)
	go func() {
		for range 40 {
			if _, err := sw.conn.Write(msg); err != nil {
				return
			}
		}
	}()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say := func(b []byte) {
		conn.Write(append(experimenter.Stream{ID: 1, Kind: experimenter.StreamData, Number: uint32(len(b))}.Append(nil),
			b...))
	}
	await.Until(t, "there is much to write, on a stream", func() bool {
		s := b.status()
		return s.HeldBytes > 1<<20 && s.Controllers == 1
	})
	hello, role := of13.NewHello(of13.VersionsOf(of13.Version)),
		of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 1}
	say(role.Append(hello.Append(nil, 1), 2))
	await.Until(t, "events are sent", func() bool { return b.status().Counters.Sent > 0 })
	refuse := experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: b.status().Epoch}
	say(refuse.Append(nil, of13.Version))
	<-sw.done // the agent closes the connection, to begin a new epoch
	b.log.Line(t, "it refuses the switch: stale epoch")
}

// A leader whose log lacks events that were acknowledged is refused while there is another master, and for some time
// after it. Then the switch begins a new epoch with it.
func TestLostLog(t *testing.T) {
	g, other := &group{t: t, term: 6}, &group{t: t, term: 9}
	old, fresh := g.start(t), other.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{old.addr, fresh.addr}, EchoInterval: 20 * time.Millisecond})
	g.lead(old)
	sw := dialSwitch(t, b.addr, 7)
	g.want(t, "up")
	await.Until(t, "the event is acknowledged", func() bool { return b.status().Held == 0 })
	other.lead(fresh)
	fenced := func() bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		return fresh.session != nil && fresh.session.State().Fenced
	}
	await.Until(t, "the leader says that it is refused", fenced)
	time.Sleep(300 * time.Millisecond)
	if s := b.status(); s.Master != old.addr || !fenced() {
		t.Errorf("the other master is connected; status %+v", s)
	}
	old.stop()
	await.Until(t, "the switch's connection is closed", sw.ended)
	dialSwitch(t, b.addr, 7)
	other.want(t, "up")
	if s := b.status(); experimenter.Term(s.Generation) != 10 || s.Master != fresh.addr {
		t.Errorf("status %+v", s)
	}
	await.Until(t, "the leader says that it is accepted", func() bool { return !fenced() })
	if n := len(b.log.Lines("the controllers have lost their logs")); n == 0 {
		t.Error("the log says nothing")
	}
}

// A leader of a lower term than there was is refused for ever, and its status and the agent's log say so.
func TestLowerTerm(t *testing.T) {
	g, other := &group{t: t, term: 6}, &group{t: t}
	old, fresh := g.start(t), other.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{old.addr, fresh.addr}, EchoInterval: 20 * time.Millisecond})
	g.lead(old)
	dialSwitch(t, b.addr, 7)
	g.want(t, "up")
	old.stop()
	other.lead(fresh)
	b.log.Line(t, "the leader is fenced")
	other.mu.Lock()
	st := fresh.session.State()
	other.mu.Unlock()
	if !st.Fenced || st.Guarantee != "none" || !strings.Contains(st.Why, "restart the agent") {
		t.Errorf("it says %+v", st)
	}
	if s := b.status(); experimenter.Term(s.Generation) != 7 || s.Master != "" {
		t.Errorf("status %+v", s)
	}
}

func TestStaleEpoch(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}, Now: func() time.Time { return time.Unix(0, 1000) }})
	sw := dialSwitch(t, b.addr, 7)
	sw.say(1, 3)
	await.Until(t, "attached", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return m.session != nil &&
			b.status().Held == 4
	})
	g.mu.Lock()
	m.session.Refuse(experimenter.ReasonStaleEpoch, 5000)
	g.mu.Unlock()
	<-sw.done
	dialSwitch(t, b.addr, 7)
	g.lead(m)
	g.want(t, "up")
	if s := b.status(); s.Epoch != 5001 {
		t.Fatalf("epoch %d, want one above the newest", s.Epoch)
	}
}

// A controller that has no replica of the switch's group is asked again at once when one that has served the switch
// gives it up: then the group has moved.
func TestGroupMoves(t *testing.T) {
	const interval = 100 * time.Millisecond
	g := &group{t: t}
	from, to := g.start(t), g.start(t)
	g.lead(from)
	b := startAgent(t, agent.Config{Controllers: []string{from.addr, to.addr}, EchoInterval: interval})
	dialSwitch(t, b.addr, 7)
	refuse := func(m *member) {
		t.Helper()
		await.Until(t, "the switch to attach", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			if m.session == nil {
				return false
			}
			m.session.Refuse(experimenter.ReasonElsewhere, 0)
			return true
		})
	}
	refuse(to)
	b.log.Line(t, "does not serve the switch")
	b.log.Line(t, "connected to controller")
	began := time.Now()
	refuse(from)
	await.Until(t, "the other controller to be asked", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return to.session != nil
	})
	if waited := time.Since(began); waited > agent.ElsewhereRest/2*interval {
		t.Errorf("after %v", waited)
	}
}

func TestDeadControllerIsOneLine(t *testing.T) {
	ln := listen(t)
	addr := ln.Addr().String()
	ln.Close()
	b := startAgent(t, agent.Config{Controllers: []string{addr}})
	dialSwitch(t, b.addr, 7)
	b.log.Line(t, "controller lost")
	time.Sleep(700 * time.Millisecond)
	if n := len(b.log.Lines("controller lost")); n != 1 {
		t.Fatalf("%d lines after many attempts", n)
	}
}

// TestOldSwitch connects a switch of OpenFlow 1.0 through an agent. The controllers receive OpenFlow 1.3.
func TestOldSwitch(t *testing.T) {
	g := &group{t: t, react: func(g *group, event []byte) {
		if event[1] == of13.TypePacketIn {
			out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1,
				Actions: of13.Actions(nil).Output(of13.PortFlood, 0), Data: make([]byte, 64)}
			g.given = append(g.given, out.Append(nil, uint32(len(g.given)+1)))
		}
	}}
	m := g.start(t)
	g.lead(m)
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(await.Limit))
	conn.Write(message10(openflow.TypeHello, 1, nil))
	in := ofconn.NewReader(conn)
	outs := 0
	for done := false; !done; {
		batch, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		for len(batch) > 0 {
			var msg []byte
			msg, batch, _ = openflow.Next(batch)
			switch xid := openflow.XID(msg); msg[1] {
			case of13.TypeFeaturesRequest:
				features := message10(of13.TypeFeaturesReply, xid, append([]byte{7: 7}, make([]byte, 16)...))
				p := message10(of13.TypePacketIn, 0, []byte{0xff, 0xff, 0xff, 0xff, 7: 1, 17: 1}) // port 1, one byte
				conn.Write(slices.Concat(features, p, p))
			case of13.TypePacketOut:
				outs++
			case of10.TypeBarrierRequest:
				conn.Write(message10(of10.TypeBarrierReply, xid, nil))
				done = outs == 2
			}
		}
	}
	await.Until(t, "both are done", func() bool { return g.finished() && b.status().Done == 2 })
	g.want(t, "up", "1", "1")
}

func message10(typ uint8, xid uint32, body []byte) []byte {
	msg := append(openflow.AppendHeader(nil, openflow.Version10, typ, xid), body...)
	openflow.SetLength(msg)
	return msg
}

// TestSwitchThatWaits connects a switch that sends nothing before it has received the agent's HELLO.
func TestSwitchThatWaits(t *testing.T) {
	b := startAgent(t, agent.Config{Controllers: []string{"127.0.0.1:1"}, EchoInterval: 20 * time.Millisecond})
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(await.Limit))
	for in, seen := ofconn.NewReader(conn), 0; seen < 2; {
		batch, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		for ; len(batch) > 0; seen++ {
			var msg []byte
			msg, batch, _ = openflow.Next(batch)
			if want := []uint8{openflow.TypeHello, of13.TypeFeaturesRequest}[min(seen, 1)]; msg[1] != want {
				t.Fatalf("message %d is %x, want type %d", seen, msg, want)
			}
			if hello := of13.NewHello(of13.VersionsOf(of13.Version)); seen == 0 {
				conn.Write(hello.Append(nil, 1))
			}
		}
	}
}

// TestTwoAgentsForOneDatapath: the second agent is refused, retries slowly, logs this once, and takes over when the
// first is gone.
func TestTwoAgentsForOneDatapath(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	g.lead(m)
	first := startAgent(t, agent.Config{Controllers: []string{m.addr}, EchoInterval: 50 * time.Millisecond})
	sw := dialSwitch(t, first.addr, 7)
	g.want(t, "up")
	second := startAgent(t, agent.Config{Controllers: []string{m.addr}})
	other := dialSwitch(t, second.addr, 7)
	time.Sleep(2500 * time.Millisecond)
	if lines := second.log.Lines("controller lost"); len(lines) != 1 ||
		!strings.Contains(lines[0], "duplicate datapath id") {
		t.Fatalf("%d lines: %s", len(lines), lines)
	}
	sw.say(1, 1)
	g.want(t, "up", "1")
	other.say(2, 2)
	await.Until(t, "the second keeps its events", func() bool { return second.status().Held == 2 })
	first.stop()
	g.want(t, "up", "1", "up", "2")
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []agent.Config{
		{},
		{Controllers: []string{"x"}, BufferBytes: 100},
		{Controllers: []string{"x"}, EchoInterval: time.Minute},
		{Controllers: []string{"x"}, EchoInterval: 3 * time.Second, SilentAfter: 5 * time.Second},
	} {
		if _, err := agent.New(cfg); err == nil {
			t.Errorf("%+v passed", cfg)
		}
	}
}
