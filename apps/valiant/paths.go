package valiant

import (
	"math/rand/v2"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

// maxWays bounds how many shortest paths between two switches share the traffic.
const maxWays = 4

// shortest is a shortest path: the links from one switch to the other. Among the first maxWays it takes any. There is
// none to a switch itself, nor to one that cannot be reached.
func shortest(g *paths.Graph, from, to app.Switch) []paths.Link {
	ways := g.KShortest(from, to, maxWays)
	n := 0
	for n < len(ways) && ways[n].Cost == ways[0].Cost {
		n++
	}
	if n == 0 {
		return nil
	}
	return ways[rand.IntN(n)].Links
}

// detour is a path by way of any switch, each with the same chance. What lies between two visits of one switch is left
// out.
func detour(g *paths.Graph, from, to app.Switch) []paths.Link {
	if len(g.Switches()) == 0 {
		return nil
	}
	by := g.Switches()[rand.IntN(len(g.Switches()))]
	first, second := shortest(g, from, by), shortest(g, by, to)
	if first == nil || second == nil { // by is one of the ends, or cannot be reached
		return shortest(g, from, to)
	}
	path := append(first, second...)
	simple := path[:0]
	for _, l := range path {
		if back := slices.IndexFunc(simple, func(
			k paths.Link) bool {
			return k.From.Switch == l.From.Switch
		}); back >= 0 {
			simple = simple[:back]
		}
		simple = append(simple, l)
	}
	if back := slices.IndexFunc(simple, func(l paths.Link) bool { return l.From.Switch == to }); back >= 0 {
		simple = simple[:back] // the way led through the destination
	}
	return simple
}
