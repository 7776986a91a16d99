package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
)

// Group is one Raft group of a cluster, and where it has replicas. Its number is its place in Cluster.Groups.
type Group struct {
	// Home is the name of the controller that leads it if it can; "" for the first group.
	Home string `json:"home,omitzero"`
	// names of the controllers whose replicas vote, in the order of the file
	Voters   []string `json:"voters"`
	Learners []string `json:"learners,omitempty"` // names of those whose replicas only receive the log, the same
}

// maxSystemVoters bounds the voters of the system group. More would make each entry slower, and survive more failures
// than the home groups do.
const maxSystemVoters = 5

// Groups returns the groups of the cluster. The first is the only one, or the system group, with a replica on each
// controller. The home groups follow, in the order of the ids of the controllers. A home group has a replica at home
// and on the controllers that are chosen by rendezvous hashing over the names: so every process that reads the file
// computes the same, whatever the order of the file.
func (s *Cluster) Groups() []Group {
	names := s.Names()
	if !s.PerController {
		return []Group{{Voters: names}}
	}
	system := Group{Voters: choose("", names, maxSystemVoters)}
	for _, name := range names {
		if !slices.Contains(system.Voters, name) {
			system.Learners = append(system.Learners, name)
		}
	}
	groups := []Group{system}
	for _, c := range slices.SortedFunc(slices.Values(s.Controllers), func(a, b Controller) int {
		return cmp.Compare(a.ID, b.ID)
	}) {
		groups = append(groups, Group{Home: c.Name, Voters: choose(c.Name, names, s.Replicas())})
	}
	return groups
}

// Replicas returns how many replicas a home group has, or the only group.
func (s *Cluster) Replicas() int { return cmp.Or(s.Replication, len(s.Controllers)) }

// Has reports whether the group has a replica on the controller of that name.
func (g Group) Has(name string) bool {
	return slices.Contains(g.Voters, name) || slices.Contains(g.Learners, name)
}

// choose returns n of the names, in their order: home, if it is one of them, and those that rank first with it.
func choose(home string, names []string, n int) []string {
	rank := func(name string) []byte {
		if name == home {
			return nil // before all others
		}
		h := sha256.Sum256([]byte(home + " " + name)) // a name has no space
		return h[:]
	}
	ranked := slices.SortedFunc(slices.Values(names), func(a, b string) int { return bytes.Compare(rank(a), rank(b)) })
	chosen := ranked[:min(n, len(ranked))]
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(chosen, name) })
}
