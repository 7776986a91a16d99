package valiant

import (
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
)

// graph is the network as paths need it: how far the switches are from each other. It is made from tables, and
// of no use once these have changed.
type graph struct {
	version  uint64
	switches []app.Switch
	index    map[app.Switch]int
	hops     [][]hop
	distance [][]int32 // -1: no way
}

// hop is a link, from one of its ends.
type hop struct {
	out  app.PortOf
	next int
}

func newGraph(version uint64, ports iter.Seq2[app.PortOf, app.PortOf]) graph {
	g := graph{version: version, index: map[app.Switch]int{}}
	node := func(id app.Switch) int {
		i, ok := g.index[id]
		if !ok {
			i = len(g.switches)
			g.index[id] = i
			g.switches, g.hops = append(g.switches, id), append(g.hops, nil)
		}
		return i
	}
	for port, peer := range ports {
		if i := node(port.Switch); peer != (app.PortOf{}) {
			j := node(peer.Switch)
			g.hops[i] = append(g.hops[i], hop{port, j})
		}
	}
	for i := range g.switches {
		g.distance = append(g.distance, g.distancesTo(i))
	}
	return g
}

// distancesTo is a breadth-first search; links lead both ways.
func (g *graph) distancesTo(to int) []int32 {
	d := slices.Repeat([]int32{-1}, len(g.switches))
	d[to] = 0
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		for _, h := range g.hops[queue[0]] {
			if d[h.next] < 0 {
				d[h.next] = d[queue[0]] + 1
				queue = append(queue, h.next)
			}
		}
	}
	return d
}

// shortest appends a shortest path: the ports by which it leaves each switch before the last. Among several
// it takes any. It appends nothing if there is none.
func (g *graph) shortest(path []app.PortOf, from, to app.Switch) []app.PortOf {
	i, ok := g.index[from]
	j, ok2 := g.index[to]
	if !ok || !ok2 || g.distance[j][i] < 0 {
		return path
	}
	for i != j {
		best, n := hop{}, 0
		for _, h := range g.hops[i] {
			if g.distance[j][h.next] == g.distance[j][i]-1 {
				if n++; rand.IntN(n) == 0 {
					best = h
				}
			}
		}
		path, i = append(path, best.out), best.next
	}
	return path
}

// detour is a path by way of any switch, each with the same chance; what lies between two visits of one switch is left
// out. nil if there is none.
func (g *graph) detour(from, to app.Switch) []app.PortOf {
	i, ok := g.index[from]
	j, ok2 := g.index[to]
	if !ok || !ok2 || g.distance[j][i] < 0 {
		return nil
	}
	by := rand.IntN(len(g.switches))
	if g.distance[by][i] < 0 {
		by = i
	}
	path := g.shortest(nil, from, g.switches[by])
	path = g.shortest(path, g.switches[by], to)
	simple := path[:0]
	for _, p := range path {
		if back := slices.IndexFunc(simple, func(q app.PortOf) bool { return q.Switch == p.Switch }); back >= 0 {
			simple = simple[:back]
		}
		simple = append(simple, p)
	}
	if back := slices.IndexFunc(simple, func(q app.PortOf) bool { return q.Switch == to }); back >= 0 {
		simple = simple[:back] // the way led through the destination
	}
	return simple
}
