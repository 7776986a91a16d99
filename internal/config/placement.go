package config

import (
	"cmp"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/placement"
)

// Group is one Raft group of a cluster, and where it has replicas. Its number is its place in Cluster.Groups.
type Group struct {
	// Home is the name of the controller that leads it if it can; "" for the first group.
	Home string `json:"home,omitzero"`
	// names of the controllers whose replicas vote, in the order of the file
	Voters   []string `json:"voters"`
	Learners []string `json:"learners,omitempty"` // names of those whose replicas only receive the log, the same
}

// MaxReplication bounds the replicas of a home group.
const MaxReplication = 99

// Groups returns the groups with which a cluster of these controllers begins. The first is the only one, or the system
// group, with a replica on each controller. The home groups follow, in the order of the ids of the controllers. A home
// group has a replica at home and on others that package placement chooses. Once the cluster runs, the directory has
// its groups.
func (s *Cluster) Groups() []Group {
	if !s.PerController {
		return []Group{{Voters: s.Names()}}
	}
	controllers := slices.SortedFunc(slices.Values(s.Controllers), func(a, b Controller) int {
		return cmp.Compare(a.ID, b.ID)
	})
	system := Group{Voters: s.choose(0, 0, placement.MaxSystemVoters)}
	for _, name := range s.Names() {
		if !slices.Contains(system.Voters, name) {
			system.Learners = append(system.Learners, name)
		}
	}
	groups := []Group{system}
	for i, c := range controllers {
		groups = append(groups, Group{Home: c.Name, Voters: s.choose(uint64(i)+1, c.ID, s.Replicas())})
	}
	return groups
}

// Replicas returns how many replicas a home group has, or the only group.
func (s *Cluster) Replicas() int { return cmp.Or(s.Replication, len(s.Controllers)) }

// Has reports whether the group has a replica on the controller of that name.
func (g Group) Has(name string) bool {
	return slices.Contains(g.Voters, name) || slices.Contains(g.Learners, name)
}

// choose returns the names of n controllers for a group, in the order of the file.
func (s *Cluster) choose(group, home uint64, n int) (names []string) {
	var ids []uint64
	for _, c := range s.Controllers {
		ids = append(ids, c.ID)
	}
	chosen := placement.Replicas(group, home, ids, n)
	for _, c := range s.Controllers {
		if slices.Contains(chosen, c.ID) {
			names = append(names, c.Name)
		}
	}
	return names
}
