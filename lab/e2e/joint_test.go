package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// TestMasterAndSwitchDieTogether is Ravana's section 3.2: the leader dies with an event in the log and no command sent,
// and with it the switch that sent the event and its agent, so that the event cannot be sent again. The other switches
// get their commands all the same, once.
func TestMasterAndSwitchDieTogether(t *testing.T) {
	inModes(t, everyModeAnd(), func(t *testing.T, m mode) {
		for _, p := range []crash.Point{crash.AfterCommit, crash.AfterEventAck} {
			t.Run(string(p), func(t *testing.T) { dieTogether(t, m, p) })
		}
	})
}

func dieTogether(t *testing.T, m mode, p crash.Point) {
	tr := newTrap(t, p, 7, false).later()
	s := m.start(t, crashSwitches, cluster.Config{Env: tr.env})
	s.expectDeaths()
	s.connect()
	tr.set(t)
	dead := s.playUntilTrapped(tr)
	lost := s.switches[dead]
	last := fmt.Sprintf("packet %d", s.played-1)

	living := slices.Delete(slices.Clone(s.switches), dead, dead+1)
	s.victim(tr).WaitEnd()
	for _, sw := range living {
		if err := sw.wait(s.counted()); err != nil {
			t.Fatal(err)
		}
		if outs := sw.packetOuts(); !strings.HasPrefix(outs[len(outs)-1], last) {
			t.Errorf("switch %s sent out %q, not %q, as the last", sw.name(), outs[len(outs)-1], last)
		}
	}
	s.switches = living
	s.play(10, nil) // the others are served as before
	s.exactFor(living, lost)
}

// playUntilTrapped plays until the leader is at the crash point with an event of some switch. It kills the agent of
// that switch, cuts the switch off, and returns it.
func (s *testCluster) playUntilTrapped(tr *trap) int {
	s.t.Helper()
	for range crashEvents {
		from := s.played % len(s.switches)
		s.switches[from].packetIn(fmt.Sprintf("packet %d", s.played))
		s.played++
		for !tr.sprung() && len(s.switches[0].executed()) < s.counted() {
			time.Sleep(time.Millisecond)
		}
		if tr.sprung() {
			if s.stock == nil {
				s.check(s.Agents()[from].Signal(syscall.SIGKILL))
			}
			s.switches[from].cut()
			return from
		}
		s.arrived()
	}
	s.t.Fatalf("no controller came to %s\n%s", tr.spec, s.Logs())
	return 0
}

// exactFor compares what switches received with what was issued for them, and checks that the last event of a lost
// switch is in the ledger once.
func (s *testCluster) exactFor(living []player, lost player) {
	s.t.Helper()
	records, err := oracle.Read(s.AuditFiles())
	s.check(err)
	issued := map[openflow.DatapathID][]string{}
	events := map[openflow.DatapathID]int{}
	for _, r := range records {
		switch {
		case r.Kind == audit.Command:
			issued[r.Switch] = append(issued[r.Switch], r.Digest)
		case r.Kind == audit.Event && r.Type == "PACKET_IN":
			events[r.Switch]++
		}
	}
	for _, sw := range living {
		var got []string
		for _, c := range sw.executed() {
			got = append(got, audit.Digest(c))
		}
		if want := issued[sw.name()]; !slices.Equal(got, want) {
			s.t.Errorf("switch %s executed %d commands, %d were issued, or in another order", sw.name(), len(got),
				len(want))
		}
	}
	if total := events[lost.name()] + events[living[0].name()] + events[living[1].name()]; total != s.played {
		s.t.Errorf("%d packet-ins are in the ledger, %d were sent", total, s.played)
	}
	if got := len(lost.executed()); got%apps.CounterCommands != 0 {
		s.t.Errorf("the lost switch executed %d commands: a part of a transaction", got)
	}
}
