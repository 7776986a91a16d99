package e2e

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

// TestFullEventBuffer lets a switch send more than its agent buffers while no controller runs. The commands that this
// causes at once exceed what the ledger queues for a switch.
func TestFullEventBuffer(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for app, commands := range map[string]int{"hub": 1, "counter": apps.CounterCommands} {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{app}})
			s.connect()
			for _, c := range s.Controllers() {
				s.check(c.Kill())
			}
			sw := s.switches[0]
			const events = 80_000
			var talk sync.WaitGroup
			talk.Go(func() {
				for n := range events {
					sw.packetIn(fmt.Sprintf("packet %d", n)) // blocks as long as the agent does not read
				}
			})
			await.Until(t, "the buffer to be full", func() bool {
				return s.countLines(s.Agents()[0].LogFile(),
					"event buffer is full") > 0
			})
			time.Sleep(6 * time.Second) // longer than a silent peer is alive
			for _, c := range s.Controllers() {
				s.check(c.Restart())
			}
			talk.Wait()
			if err := sw.wait(commands * events); err != nil {
				t.Fatal(err)
			}
			if r := s.exact(); r.EventsProcessed != events || r.Epochs != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestBacklogOfDeadSwitch lets a switch die while no controller runs. The commands for its events are discarded, and
// are more than the ledger queues for a switch; its events are processed all the same.
func TestBacklogOfDeadSwitch(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1})
	s.connect()
	for _, c := range s.Controllers() {
		s.check(c.Kill())
	}
	const events = 40_000
	for n := range events {
		s.switches[0].packetIn(fmt.Sprintf("packet %d", n))
	}
	sw := s.switches[0].(*fakeSwitch)
	s.check(sw.conn.(*net.TCPConn).CloseWrite())
	<-sw.ended
	for _, c := range s.Controllers() {
		s.check(c.Restart())
	}
	s.await("all to be done", func(st cluster.Status) bool {
		// SWITCH_UP and SWITCH_DOWN
		return len(st.Switches) == 1 && st.Switches[0].State == "down" && st.Switches[0].TotalEvents == events+2
	})
	records, err := oracle.Read(s.AuditFiles())
	s.check(err)
	r := s.tally.Compare(records)
	if r.EventsProcessed != events || r.EventsLost > 0 || r.EventsRepeated > 0 || r.CommandsExecuted > 0 {
		t.Errorf("%+v", r)
	}
}

// TestManySwitches has many switches at one agent, and kills the leader. An agent has timers for each switch: beside
// other tests, a slow machine cannot serve 256.
func TestManySwitches(t *testing.T) {
	notInShort(t)
	t.Parallel()
	n := 96
	if everything {
		n = 256
	}
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"hub"}})
	dial := func(i int) *fakeSwitch {
		return dialSwitch(t, openflow.DatapathID(i+1), "127.0.0.1", s.Agents()[0].Listen, s.tally)
	}
	for i := range n {
		s.switches = append(s.switches, dial(i))
	}
	allUp := func() {
		t.Helper()
		s.await("all switches to be up", func(st cluster.Status) bool {
			for i, sw := range s.switches { // the agent took some for silent, because the machine is busy
				select {
				case <-sw.(*fakeSwitch).ended:
					s.switches[i] = dial(i)
				default:
				}
			}
			return up(st) == n
		})
	}
	allUp()
	for round := range 6 {
		for _, sw := range s.switches {
			sw.packetIn(fmt.Sprintf("packet %d", round))
		}
		if round%2 == 1 {
			l := s.leader()
			s.check(l.Kill())
			s.check(l.Restart())
		}
		for _, sw := range s.switches {
			if err := sw.wait(round + 1); err != nil {
				t.Fatalf("%v\n%s", err, s.Logs())
			}
		}
	}
	allUp()
	s.exact()
}

// TestLargestMessages sends packet-ins of nearly 64 KiB, which are answered by packet-outs of that size.
func TestLargestMessages(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2, Apps: []string{"hub"}})
	s.connect()
	text := strings.Repeat("x", openflow.MaxMessageLen-100)
	for n := range 60 {
		for _, sw := range s.switches {
			sw.packetIn(fmt.Sprintf("%d %s", n, text[:len(text)-10]))
		}
		if n%20 == 10 {
			l := s.leader()
			s.check(l.Kill())
			s.check(l.Restart())
		}
	}
	for _, sw := range s.switches {
		if err := sw.wait(60); err != nil {
			t.Fatal(err)
		}
	}
	s.exact()
}

// TestGarbageEverywhere sends garbage to every port of every controller while it works.
func TestGarbageEverywhere(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2})
	s.connect()
	s.play(4, nil)
	leader := s.leader()
	before, err := leader.Status(s.ctx)
	s.check(err)
	for _, c := range s.Controllers() {
		for _, addr := range []string{c.Peer, c.OpenFlow, c.API} {
			for i := range 20 {
				garbage := make([]byte, 1+i*i*10)
				_, _ = rand.Read(garbage)
				switch i % 4 {
				case 1:
					copy(garbage, "GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
				case 2:
					copy(garbage, []byte{4, 0, 0, 8, 0, 0, 0, 1})
				}
				conn := dialFrom(t, "127.0.0.1", addr)
				_, _ = conn.Write(garbage)
				if i%2 == 0 {
					conn.Close()
				} else {
					t.Cleanup(func() { conn.Close() }) // half open
				}
			}
		}
	}
	s.play(10, nil)
	s.exact()
	after, err := s.leader().Status(s.ctx)
	s.check(err)
	if after.Term != before.Term {
		t.Errorf("the term went from %d to %d", before.Term, after.Term)
	}
	for _, c := range s.Controllers() {
		if n := s.countLines(c.LogFile(), ""); n > 100 {
			t.Errorf("%d lines in %s", n, c.LogFile())
		}
	}
}
