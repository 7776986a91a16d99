package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// trace is the result of a run, which a fault must not change.
type trace struct {
	processed []string   // events, in the order of the ledger
	executed  [][]string // commands of each switch, in its order
}

func (s *testCluster) trace(from *cluster.Controller) trace {
	s.t.Helper()
	var tr trace
	for _, r := range s.audit(from) {
		if r.Kind != audit.Event {
			continue
		}
		if r.Type == experimenter.TypeSwitchUp.String() {
			r.Digest = "" // the hardware addresses of an Open vSwitch are new each time
		}
		tr.processed = append(tr.processed, fmt.Sprintf("%s %s %s", r.Switch, r.Type, r.Digest))
	}
	for _, sw := range s.switches {
		var list []string
		for _, c := range sw.executed() {
			list = append(list, audit.Digest(c))
		}
		tr.executed = append(tr.executed, list)
	}
	return tr
}

// crashEvents is the number of packet-ins of a run, from crashSwitches in turn. crashPassage is which passage of the
// crash point kills the leader, from the second round on: each packet-in passes a point one to three times. Sync
// markers of stock switches pass before-replicate too: there are some between two events, and many on a busy machine.
const (
	crashEvents   = 30
	crashSwitches = 3
	crashPassage  = 12
)

// TestCrashPoint kills the leader at each of the seven points of Ravana's figure 5, in the middle of a sequence of
// events, and compares with a run without faults.
func TestCrashPoint(t *testing.T) {
	inModes(t, everyModeAnd(agentsTLS, stockTLS, stockOVSTLS), func(t *testing.T, m mode) {
		want := traceWithoutFaults(t, m)
		for i, p := range crash.Points {
			// Each point with each kind of switch, and each with TLS and without: every other one uses TLS.
			overTLS := i%2 == 1
			if m.stock && !m.ovs {
				overTLS = !overTLS
			}
			if everything || m.tls == overTLS {
				t.Run(string(p), func(t *testing.T) { crashAt(t, m, p, want) })
			}
		}
	})
}

func crashAt(t *testing.T, m mode, p crash.Point, want trace) {
	tr := newTrap(t, p, crashPassage, false).later()
	s := m.start(t, crashSwitches, cluster.Config{Env: tr.env})
	s.expectDeaths()
	first := s.leader()
	s.connect()
	s.play(crashSwitches, nil)
	tr.set(t)
	died := -1
	s.play(crashEvents-crashSwitches, func(i int) {
		if died < 0 && tr.sprung() {
			died = crashSwitches + i // while the event before was on its way
		}
	})
	if died < 0 || died >= crashEvents-1 {
		t.Fatalf("the leader died at event %d of %d: not in the middle", died, crashEvents)
	}
	victim := s.victim(tr)
	victim.WaitEnd()
	if w, ok := victim.Ended().Sys().(syscall.WaitStatus); !ok || w.Signal() != syscall.SIGKILL {
		t.Fatalf("%s ended with %v, not by SIGKILL", victim.Name, victim.Ended())
	}
	if victim != first {
		t.Logf("leadership moved from %s to %s before the crash", first.Name, victim.Name)
	}
	r := s.exact()
	survivors := s.followers()
	survivors = append(survivors, s.leader())
	if len(survivors) != 2 {
		t.Fatalf("%d survivors", len(survivors))
	}
	s.agree(survivors)
	compare(t, s.trace(survivors[0]), want)
	t.Logf("%s died at event %d; %+v", victim.Name, died, r)
}

// traceWithoutFaults runs the sequence without faults.
func traceWithoutFaults(t *testing.T, m mode) trace {
	s := m.start(t, crashSwitches, cluster.Config{})
	s.connect()
	s.play(crashEvents, nil)
	s.exact()
	s.agree(s.Controllers())
	return s.trace(s.Controllers()[0])
}

func compare(t *testing.T, got, want trace) {
	t.Helper()
	if !slices.Equal(got.processed, want.processed) {
		t.Errorf("events processed:\n%q\nwithout faults:\n%q", got.processed, want.processed)
	}
	for i := range want.executed {
		if !slices.Equal(got.executed[i], want.executed[i]) {
			t.Errorf("switch %d executed:\n%q\nwithout faults:\n%q", i+1, got.executed[i], want.executed[i])
		}
	}
}

// TestCrashPointUnderLoad kills leaders at the same points with many events in transit, and the next leader as soon as
// it leads. There is no run to compare with, so it checks the ledger: everything once, and in order.
//
// Without agents the second leader is killed when the first is in sync again: one of the controllers that receive the
// switches' events must survive. An Open vSwitch drops packet-ins when more than a hundred wait for a controller, so it
// gets fewer.
func TestCrashPointUnderLoad(t *testing.T) {
	notInShort(t)
	inModes(t, everyModeAnd(), func(t *testing.T, m mode) {
		for i, p := range crash.Points {
			if everything || everyMode[i%len(everyMode)] == m {
				t.Run(string(p), func(t *testing.T) { crashUnderLoad(t, m, p) })
			}
		}
	})
}

func crashUnderLoad(t *testing.T, m mode, p crash.Point) {
	const events, most = 200, 4000        // of each switch: on a slow machine batches are so large that there are few
	tr := newTrap(t, p, 5, false).later() // after a few batches: they may be large
	s := m.start(t, crashSwitches, cluster.Config{Env: tr.env})
	s.expectDeaths()
	s.connect()
	tr.set(t)
	burst, pause := 30, 2*time.Millisecond // so that there are many batches
	if m.ovs {
		burst, pause = 6, 5*time.Millisecond
	}
	for n := 0; n < events || n < most && !tr.sprung(); n++ {
		for _, sw := range s.switches {
			sw.packetIn(fmt.Sprintf("packet %d", s.played))
			s.played++
		}
		if s.played%burst == 0 || n >= events {
			time.Sleep(pause)
		}
	}
	await.Until(t, "the leader to die", tr.sprung)
	victim := s.victim(tr)
	victim.WaitEnd()
	s.check(victim.Restart())
	if m.stock {
		s.arrived()
		s.inSync()
	}
	s.check(s.leader().Kill())
	s.arrived()
	s.play(3, nil)
	s.exact()
}
