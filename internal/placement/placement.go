// Package placement decides which controllers have a replica of a group, by rendezvous hashing. So whoever knows the
// controllers computes the same, and one that comes or goes changes few groups. It knows neither names nor the present
// replicas.
package placement

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// MaxSystemVoters bounds the voters of the system group, which has a replica on each controller. More would make each
// entry slower, and survive more failures than the home groups do.
const MaxSystemVoters = 5

// Replicas returns n of the controllers, or all of them if there are fewer, in the order of their ids: home, if it is
// one of them, and those that rank first in this group.
func Replicas(group, home uint64, controllers []uint64, n int) []uint64 {
	ranked := slices.SortedFunc(slices.Values(controllers), func(a, b uint64) int {
		switch {
		case a == b:
			return 0
		case a == home:
			return -1
		case b == home:
			return 1
		}
		return cmp.Or(cmp.Compare(rank(group, a), rank(group, b)), cmp.Compare(a, b))
	})
	chosen := ranked[:min(n, len(ranked))]
	slices.Sort(chosen)
	return chosen
}

// rank mixes the bits of FNV-1a once more: ids that differ in their last bits have hashes that are near each other.
func rank(group, controller uint64) uint64 {
	h := fnv.New64a()
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, group), controller)
	_, _ = h.Write(b) // never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
