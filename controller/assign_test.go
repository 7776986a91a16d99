package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// waitGroups waits until all groups have begun, and every controller knows their leaders: before that, nothing is
// assigned to them.
func (s *testCluster) waitGroups() {
	for id, c := range s.controllers {
		await.Until(s.t, fmt.Sprintf("controller %d to have all groups", id), func() bool {
			return len(c.homesHere()) == len(s.controllers) && len(c.liveGroups()) == len(s.controllers)
		})
	}
}

// With several groups every switch is assigned to one, the same at all controllers, and the homes share them. Without
// a majority of the system group a switch that is known is served as before, and an unknown one is not.
func TestAssignment(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: hubs, several: true, every: 2})
	const switches = 6
	s.waitGroups()
	r := s.run(switches, 300*time.Millisecond)
	if r.Unanswered != 0 {
		t.Errorf("%d packet-ins are not answered", r.Unanswered)
	}
	// A home has at most one more than a quarter more than another one, see directory.
	var of map[string]uint64
	for id, c := range s.controllers {
		await.Until(t, fmt.Sprintf("controller %d to know all switches", id), func() bool {
			st, err := c.Status(t.Context())
			return err == nil && len(st.Switches) == switches
		})
		st, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		groups, loads := map[string]uint64{}, map[uint64]int{}
		for _, sw := range st.Switches {
			if groups[sw.Switch] = sw.Group; sw.Assignment != 1 {
				t.Errorf("controller %d: switch %s has version %d", id, sw.Switch, sw.Assignment)
			}
			loads[sw.Group]++
		}
		if of == nil {
			of = groups
		}
		if fmt.Sprint(groups) != fmt.Sprint(of) || loads[0] != 0 || max(loads[1], loads[2], loads[3]) > 3 {
			t.Errorf("controller %d: groups %v, elsewhere %v", id, groups, of)
		}
	}
	s.stop(1)
	s.stop(2)
	c := s.controllers[3]
	for id := openflow.DatapathID(1); id <= switches; id++ {
		began := time.Now()
		err := c.assign(id, 0)
		if g, _ := c.groupOf(id); err != nil || g.cfg.Consensus.Group != of[id.String()] ||
			time.Since(began) > assignPatience/2 {
			t.Errorf("switch %s: %v after %v", id, err, time.Since(began))
		}
	}
	// It knows them from its own snapshot and log after a restart, too.
	s.stop(3)
	c = s.restart(3)
	for id := openflow.DatapathID(1); id <= switches; id++ {
		err := c.assign(id, 0)
		if g, _ := c.groupOf(id); err != nil || g.cfg.Consensus.Group != of[id.String()] {
			t.Errorf("switch %s after a restart: %v", id, err)
		}
	}
	if st, err := c.Status(t.Context()); err != nil || st.Snapshot == 0 {
		t.Errorf("there is no snapshot of the system group (%v)", err)
	}
	if err := c.assign(switches+1, 0); !errors.Is(err, errUnassigned) {
		t.Errorf("an unknown switch: %v", err)
	}
}

// A controller that ends does not keep a session waiting.
func TestUnassignedAtEnd(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: hubs, several: true})
	s.stop(1)
	s.stop(2)
	c := s.controllers[3]
	waits := make(chan error, 1)
	go func() { waits <- c.assign(1, 0) }()
	time.Sleep(10 * time.Millisecond)
	began := time.Now()
	s.stop(3)
	if err := <-waits; !errors.Is(err, errClosing) && !errors.Is(err, errUnassigned) ||
		time.Since(began) > assignPatience {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
