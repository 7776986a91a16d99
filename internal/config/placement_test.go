package config_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// ofSize is a cluster of n controllers with groups of their own.
func ofSize(n, replication int) *config.Cluster {
	s := &config.Cluster{PerController: true, Replication: replication}
	for i := range n {
		name := fmt.Sprintf("c%d", i+1)
		s.Controllers = append(s.Controllers, config.Controller{Name: name, ID: config.DefaultID(name)})
	}
	return s
}

// Every home group is at home and on as many controllers as are configured; every controller has the system group, at
// most five with a vote; and the order of the file does not matter.
func TestPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 1 + 2*rapid.IntRange(0, 4).Draw(t, "half of the controllers")
		r := 1 + 2*rapid.IntRange(0, n/2).Draw(t, "half of the replicas")
		s := ofSize(n, r)
		groups := s.Groups()
		if len(groups) != n+1 {
			t.Fatalf("%d groups", len(groups))
		}
		system := groups[0]
		if len(system.Voters) != min(n, 5) || len(system.Voters)+len(system.Learners) != n || system.Home != "" {
			t.Errorf("system group %+v", system)
		}
		homes := map[string]bool{}
		for i, g := range groups {
			if slices.ContainsFunc(s.Names(), func(name string) bool { return !g.Has(name) }) != (i > 0 && r < n) {
				t.Errorf("group %d of %d replicas: %+v", i, r, g)
			}
			if i == 0 {
				continue
			}
			homes[g.Home] = true
			if len(g.Voters) != r || len(g.Learners) != 0 || !g.Has(g.Home) {
				t.Errorf("group %d: %+v", i, g)
			}
		}
		if len(homes) != n {
			t.Errorf("homes %v", homes)
		}
		slices.Reverse(s.Controllers)
		for i, g := range s.Groups() {
			slices.Sort(g.Voters)
			slices.Sort(groups[i].Voters)
			slices.Sort(g.Learners)
			slices.Sort(groups[i].Learners)
			if d := cmp.Diff(groups[i], g); d != "" {
				t.Errorf("group %d in another order of the file:\n%s", i, d)
			}
		}
	})
}

// Without several groups, or without a number of replicas, every controller has every group.
func TestPlacementOnAll(t *testing.T) {
	one := ofSize(5, 0)
	one.PerController = false
	for _, s := range []*config.Cluster{one, ofSize(5, 0), ofSize(5, 5)} {
		groups := s.Groups()
		if s == one && len(groups) != 1 {
			t.Errorf("%d groups", len(groups))
		}
		for i, g := range groups {
			if len(g.Voters) != 5 {
				t.Errorf("group %d: %+v", i, g)
			}
		}
	}
}
