package paths

import (
	"cmp"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// KShortest returns up to k paths that visit no switch twice, the best first (Yen's algorithm; cheapest, then fewest
// links).
func (g *Graph) KShortest(from, to openflow.DatapathID, k int) []Path {
	v, ok1 := g.index(from)
	w, ok2 := g.index(to)
	if !ok1 || !ok2 || v == w || k < 1 {
		return nil
	}
	b := newBan(g)
	best := g.search(v, w, b)
	if best == nil {
		return nil
	}
	found, candidates := [][]int32{best}, [][]int32(nil)
	for len(found) < k {
		for _, c := range g.deviations(found, w, b) {
			if at, known := slices.BinarySearchFunc(candidates, c, g.comparePaths); !known {
				candidates = slices.Insert(candidates, at, c)
			}
		}
		if len(candidates) == 0 {
			break
		}
		found, candidates = append(found, candidates[0]), candidates[1:]
		candidates = candidates[:min(len(candidates), k-len(found))] // no more will be asked for
	}
	var paths []Path
	for _, arcs := range found {
		paths = append(paths, g.path(arcs))
	}
	return paths
}

// deviations returns, for each switch of the path found last, the best path that leaves it there by an arc that no path
// found yet with the same beginning takes.
func (g *Graph) deviations(found [][]int32, to int32, b *ban) (paths [][]int32) {
	last := found[len(found)-1]
	for i := range last {
		var banned []int32
		for _, p := range found {
			if len(p) > i && slices.Equal(p[:i], last[:i]) {
				b.arcs[p[i]] = true
				banned = append(banned, p[i])
			}
		}
		if tail := g.search(g.arcs[last[i]].from, to, b); tail != nil {
			paths = append(paths, slices.Concat(last[:i], tail))
		}
		for _, a := range banned {
			b.arcs[a] = false
		}
		b.switches[g.arcs[last[i]].from] = true
	}
	for _, a := range last {
		b.switches[g.arcs[a].from] = false
	}
	return paths
}

// comparePaths is the order of KShortest. Arcs are in the order of where they begin.
func (g *Graph) comparePaths(p, q []int32) int {
	return cmp.Or(cmp.Compare(g.length(p), g.length(q)), slices.Compare(p, q))
}

func (g *Graph) length(arcs []int32) (sum uint64) {
	for _, a := range arcs {
		sum += g.arcs[a].weight
	}
	return sum
}
