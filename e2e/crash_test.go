package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/cluster"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/platform/audit"
)

// trace is what a run leaves behind: what a fault must not change.
type trace struct {
	processed []string   // events, in the order of the ledger
	executed  [][]string // commands of each switch, in its order
}

func (s *site) trace(from *cluster.Controller) trace {
	s.t.Helper()
	var tr trace
	for _, r := range s.audit(from) {
		if r.Kind == audit.Event {
			tr.processed = append(tr.processed, fmt.Sprintf("%s %s %s", r.Switch, r.Type, r.Digest))
		}
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

// crashEvents is the number of packet-ins of a run; crashPassage is how often the leader
// passes the crash point: a point is passed one to three times for each.
const (
	crashEvents  = 30
	crashPassage = 17
)

// TestCrashPoint kills the leader at each of the seven points of Ravana's figure 5, in the
// middle of a sequence of events, and compares with a run without faults.
func TestCrashPoint(t *testing.T) {
	want := traceWithoutFaults(t)
	for _, p := range crash.Points {
		t.Run(string(p), func(t *testing.T) {
			tr := newTrap(t, p, crashPassage, false)
			s := startSite(t, cluster.Config{Agents: 3, Env: tr.env})
			s.expectDeaths()
			first := s.leader()
			s.connect()
			died := -1
			s.play(crashEvents, func(i int) {
				if died < 0 && tr.sprung() {
					died = i // while the event before was on its way
				}
			})
			if died < 2 || died >= crashEvents-1 {
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
		})
	}
}

// traceWithoutFaults runs the sequence undisturbed.
func traceWithoutFaults(t *testing.T) trace {
	s := startSite(t, cluster.Config{Agents: 3})
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

// TestCrashPointUnderLoad kills leaders at the same points with many events on their way, and the next leader
// as soon as it has shown itself. There is no run to compare with, but the ledger: everything once, and in order.
func TestCrashPointUnderLoad(t *testing.T) {
	const events = 200 // of each switch
	for _, p := range crash.Points {
		t.Run(string(p), func(t *testing.T) {
			tr := newTrap(t, p, 8, false) // after a few batches: they may be large
			s := startSite(t, cluster.Config{Agents: 3, Env: tr.env})
			s.expectDeaths()
			s.connect()
			for range events {
				for _, sw := range s.switches {
					sw.packetIn(fmt.Sprintf("packet %d", s.played))
					s.played++
				}
				if s.played%30 == 0 {
					time.Sleep(2 * time.Millisecond) // so that there are many batches
				}
			}
			eventually(t, "the leader to die", tr.sprung)
			victim := s.victim(tr)
			victim.WaitEnd()
			s.check(victim.Restart())
			s.check(s.leader().Kill())
			s.arrived()
			s.play(3, nil)
			s.exact()
		})
	}
}
