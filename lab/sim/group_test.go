package sim

import (
	"testing"
	"time"
)

// After its controller was down, each group is led at home again.
func TestGroupsGoHome(t *testing.T) {
	testGroupsGoHome(t, 3, 0)
	testGroupsGoHome(t, 5, 3)
}

func testGroupsGoHome(t *testing.T, controllers, replication int) {
	sc := quietScenario()
	sc.PerController, sc.Duration = true, 12*time.Second
	sc.Controllers, sc.Replication = controllers, replication
	for i := range sc.Controllers {
		sc.Faults = append(sc.Faults, Fault{At: time.Duration(1+i) * time.Second, For: 300 * time.Millisecond,
			Kind: KillController, A: i})
	}
	s := newSimulation(sc)
	defer s.close()
	s.start()
	if err := s.w.run(sc.Duration); err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, g := range s.groups {
		if replication > 0 && !g.system() && len(g.replicas) != replication {
			t.Errorf("group %d has %d replicas", g.number, len(g.replicas))
		}
		r := g.leader()
		if r == nil || g.home() != 0 && r.n.id != g.home() {
			t.Errorf("group %d is not led at home", g.number)
			continue
		}
		switches := len(r.core.Ledger().Switches())
		if served += switches; g.system() && switches > 0 || replication == 0 && !g.system() && switches == 0 {
			t.Errorf("group %d has %d switches", g.number, switches)
		}
	}
	if _, _, terms := s.h.Counts(); served != sc.Switches || terms < 10 {
		t.Errorf("%d leaders, %d switches served", terms, served)
	}
}
