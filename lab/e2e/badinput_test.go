package e2e

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// badSwitch is a way to misbehave.
type badSwitch struct {
	name string
	do   func(t *testing.T, id openflow.DatapathID, conn net.Conn)
	says string // what the one log line says, among others
	stay bool   // it waits for the reaction; otherwise it closes its side at the end
}

var badSwitches = []badSwitch{
	{"no OpenFlow", send("GET / HTTP/1.1\r\nHost: controller\r\n\r\n"), "is it an OpenFlow switch?", true},
	{"garbage first", send("\x04\x00\x00\x03garbage"), "length 3", true},
	{"half a HELLO", send("\x04\x00\x00\x10\x00\x00"), "unexpected EOF", false},
	{"wrong version", send("\x02\x00\x00\x08\x00\x00\x00\x01"), "version 2", true},
	{"garbage", shakeAndSend("\xde\xad\x00\x02\xbe\xef\xff\xff"), "length 2", true},
	{"half a message", shakeAndSend("\x04\x0a\x00\x60\x00\x00\x00\x00half"), "unexpected EOF", false},
	{"another version later", shakeAndSend("\x01\x02\x00\x08\x00\x00\x00\x00"), "version 1 after agreeing on 4", true},
	{"an agent's message", shakeAndSend("\x04\x04\x00\x10\x00\x00\x00\x00\xff\x00\x48\x4f\x00\x00\x00\x03"),
		"HOLDFAST_EVENT_ACK", true},
	{"never reads", neverRead, "it does not read", true},
}

func send(bytes string) func(*testing.T, openflow.DatapathID, net.Conn) {
	return func(t *testing.T, _ openflow.DatapathID, conn net.Conn) {
		if _, err := io.WriteString(conn, bytes); err != nil {
			t.Error(err)
		}
	}
}

func shakeAndSend(bytes string) func(*testing.T, openflow.DatapathID, net.Conn) {
	return func(t *testing.T, id openflow.DatapathID, conn net.Conn) {
		shakeHands(t, id, conn)
		send(bytes)(t, id, conn)
	}
}

// shakeHands behaves until the switch is up: until the first command.
func shakeHands(t *testing.T, id openflow.DatapathID, conn net.Conn) {
	t.Helper()
	s := &fakeSwitch{memory: newMemory(id)}
	hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
	answers := hello.Append(nil, 1)
	for in := ofconn.NewReader(conn); len(s.commands) == 0; {
		_, err := conn.Write(answers)
		var batch, msg []byte
		if err == nil {
			batch, err = in.Next()
		}
		for answers = answers[:0]; err == nil && len(batch) > 0; {
			if msg, batch, err = openflow.Next(batch); err == nil {
				answers = s.take(answers, msg)
			}
		}
		if err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
	}
}

// neverRead sends 10,000 packets, each of which is sent back, and signs of life, and reads nothing.
func neverRead(t *testing.T, id openflow.DatapathID, conn net.Conn) {
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Error(err)
	}
	shakeHands(t, id, conn)
	msg := packetIn(1, strings.Repeat("x", 4000)).Append(nil, 0)
	for range 10_000 {
		if _, err := conn.Write(msg); err != nil {
			return // it has been thrown out already
		}
	}
	echo := (&of13.EchoRequest{}).Append(nil, 1)
	for {
		if _, err := conn.Write(echo); err != nil {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestBadInput lets switches misbehave, at the agent of a good switch and at the controller to which another good
// switch is connected directly. Each causes one line in the log; the good switches are not affected. No other test runs
// in parallel: the parts of this one do, while its cluster runs, and must not wait for a slot.
func TestBadInput(t *testing.T) {
	// The good switch at the controller has no other to go to, so the leader must stay, however busy the machine is.
	s := startCluster(t, cluster.Config{Binary: plain, Agents: 1, Apps: []string{"hub"}, Election: 3 * time.Second})
	leader := s.leader()
	places := []struct {
		name, addr, log string
	}{{"agent", s.Agents()[0].Listen, s.Agents()[0].LogFile()}, {"controller", leader.OpenFlow, leader.LogFile()}}
	var good []*pump
	for i, p := range places {
		good = append(good, startPump(dialSwitch(t, openflow.DatapathID(i+1), "127.0.0.1", p.addr, nil)))
	}
	s.waitUp(len(places))

	t.Run("switches", func(t *testing.T) {
		for i, p := range places {
			for j, b := range badSwitches {
				n := 10*i + j + 1
				t.Run(p.name+"/"+b.name, func(t *testing.T) {
					t.Parallel()
					misbehave(t, b, openflow.DatapathID(1000+n), fmt.Sprintf("127.0.1.%d", n), p.addr, p.log)
				})
			}
			for j, taken := range []openflow.DatapathID{1, 2} {
				if p.name == "agent" && taken == 2 {
					continue // the agent does not notice it, but the controllers refuse it
				}
				t.Run(fmt.Sprintf("%s/datapath id of switch %d", p.name, taken), func(t *testing.T) {
					t.Parallel()
					b := badSwitch{do: duplicate, says: "its datapath id is in use by", stay: true}
					misbehave(t, b, taken, fmt.Sprintf("127.0.2.%d", 10*i+j+1), p.addr, p.log)
				})
			}
		}
	})
	for i, g := range good {
		g.stop(t, places[i].name)
	}
	if s.leader() != leader {
		t.Errorf("the leader has changed")
	}
}

// duplicate shakes hands as far as it gets.
func duplicate(t *testing.T, id openflow.DatapathID, conn net.Conn) {
	s := &fakeSwitch{memory: newMemory(id), t: t, conn: conn, ended: make(chan struct{})}
	hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
	s.write(hello.Append(nil, 1))
	s.read()
	if n := len(s.commands); n > 0 {
		t.Errorf("it got %d commands that were for another switch", n)
	}
}

// misbehave runs one bad switch and looks for the one log line about it.
func misbehave(t *testing.T, b badSwitch, id openflow.DatapathID, from, to, log string) {
	conn := dialFrom(t, from, to)
	var done sync.WaitGroup
	done.Go(func() {
		b.do(t, id, conn)
		if !b.stay {
			conn.(*net.TCPConn).CloseWrite() // if that fails, no line comes
		}
	})
	remote := "remote=" + from + ":"
	await.Until(t, "a line in "+log+" about "+from, func() bool { return len(lines(t, log, "level=WARN", remote)) > 0 })
	conn.Close()
	done.Wait()
	time.Sleep(200 * time.Millisecond) // in which no second line must come
	got := lines(t, log, "level=WARN", remote)
	if len(got) != 1 || !strings.Contains(got[0], b.says) {
		t.Errorf("want one line that says %q, got\n%s", b.says, strings.Join(got, "\n"))
	}
}

// pump is traffic of a good switch: a packet at a time.
type pump struct {
	*fakeSwitch
	quit chan struct{}
	done chan error
	sent []string
}

func startPump(sw *fakeSwitch) *pump {
	p := &pump{fakeSwitch: sw, quit: make(chan struct{}), done: make(chan error, 1)}
	go func() { p.done <- p.run() }() // ends with stop
	return p
}

func (p *pump) run() error {
	for n := 1; ; n++ { // the first command is the flow that asks for packets
		if err := p.wait(n); err != nil {
			return err
		}
		select {
		case <-p.quit:
			return nil
		case <-time.After(2 * time.Millisecond):
		}
		p.sent = append(p.sent, fmt.Sprintf("packet %d", n))
		p.packetIn(p.sent[n-1])
	}
}

// stop ends the traffic and compares what came back.
func (p *pump) stop(t *testing.T, name string) {
	t.Helper()
	close(p.quit)
	if err := <-p.done; err != nil {
		t.Errorf("good switch at the %s: %v", name, err)
	}
	if got := p.packetOuts(); !slices.Equal(got, p.sent) {
		t.Errorf("good switch at the %s: %d packets sent, %d came back, or in another order", name, len(p.sent),
			len(got))
	}
	if len(p.sent) < 20 {
		t.Errorf("good switch at the %s: only %d packets in all that time", name, len(p.sent))
	}
}

// TestBadConfig starts controllers from cluster files with mistakes.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	const valid = `controllers:
  - {name: c1, peer: "127.0.0.1:1", openflow: "127.0.0.1:2", api: "127.0.0.1:3"}
`
	for _, c := range []struct {
		name, text string
		line       int
		remedy     string
	}{
		{"unknown key", valid + "durabillity: disk\n", 3, `did you mean "durability"?`},
		{"unknown application", valid + "apps: [learnin]\n", 3, `did you mean "learning"?`},
		{"bad value", valid + "\nheartbeat_ms: fast\n", 4, "write a whole number"},
		{"no YAML", valid + "apps: [hub\n", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cluster.yaml")
			writeFile(t, file, c.text)
			cmd := exec.Command(plain, "serve", "--config", file, "--name", "c1")
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("exit: %v, want code 1", err)
			}
			place := file
			if c.line > 0 {
				place = fmt.Sprintf("%s:%d: ", file, c.line)
			}
			if text := string(out); !strings.Contains(text, place) || !strings.Contains(text, c.remedy) ||
				strings.Count(text, "\n") != 1 {
				t.Errorf("want one line with %q and %q, got\n%s", place, c.remedy, text)
			}
		})
	}
}
