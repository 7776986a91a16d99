package paths

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// DisjointPair returns the two paths with the least total cost that share no cable or, if asked, no switch between
// their ends; the cheaper one first. Where there are no two it returns only the shortest.
func (g *Graph) DisjointPair(from, to openflow.DatapathID, avoid Disjoint) []Path {
	v, ok1 := g.index(from)
	w, ok2 := g.index(to)
	if !ok1 || !ok2 || v == w {
		return nil
	}
	f := newFlow(g, v, w, avoid)
	if !f.augment() {
		return nil
	}
	if !f.augment() {
		p, _ := g.Shortest(from, to)
		return []Path{p}
	}
	pair := [][]int32{f.take(), f.take()}
	slices.SortFunc(pair, g.comparePaths)
	return []Path{g.path(pair[0]), g.path(pair[1])}
}

// flow is a minimum-cost flow of two units, by successive shortest paths in the residual network. Two paths over one
// cable, one in each direction, are never minimal: without the cable they cost less.
//
// Each switch is two vertices: v where paths come in, and v + n where they go out. Paths are disjoint in switches if
// there is only one edge between the two.
type flow struct {
	g        *Graph
	from, to int32
	edges    []edge // edge i and edge i^1 are the two directions of one
	at       [][]int32
}

type edge struct {
	to   int32
	room int8
	cost int64
	arc  int32 // or none
}

func newFlow(g *Graph, from, to int32, avoid Disjoint) *flow {
	n := int32(len(g.switches))
	f := &flow{g: g, from: from, to: to, at: make([][]int32, 2*n)}
	add := func(u, v int32, room int8, cost int64, arc int32) {
		i := int32(len(f.edges))
		f.edges = append(f.edges, edge{v, room, cost, arc}, edge{u, 0, -cost, none})
		f.at[u], f.at[v] = append(f.at[u], i), append(f.at[v], i+1)
	}
	for v := range n {
		room := int8(2)
		if avoid == NodeDisjoint && v != from && v != to {
			room = 1
		}
		add(v, v+n, room, 0, none)
	}
	for i, a := range g.arcs {
		add(a.from+n, a.to, 1, int64(a.weight), int32(i))
	}
	return f
}

// augment sends one more unit along the cheapest path that has room. A vertex is visited again when a cheaper path to
// it is found. This ends, because a minimum-cost flow has no negative cycle.
func (f *flow) augment() bool {
	const unknown = 1 << 62
	dist := slices.Repeat([]int64{unknown}, len(f.at))
	by := make([]int32, len(f.at))
	waits := make([]bool, len(f.at))
	dist[f.from] = 0
	for q := []int32{f.from}; len(q) > 0; q = q[1:] {
		u := q[0]
		waits[u] = false
		for _, i := range f.at[u] {
			e := f.edges[i]
			if e.room == 0 || dist[u]+e.cost >= dist[e.to] {
				continue
			}
			dist[e.to], by[e.to] = dist[u]+e.cost, i
			if !waits[e.to] {
				waits[e.to], q = true, append(q, e.to)
			}
		}
	}
	if dist[f.to] == unknown {
		return false
	}
	for v := f.to; v != f.from; v = f.edges[by[v]^1].to {
		f.edges[by[v]].room--
		f.edges[by[v]^1].room++
	}
	return true
}

// take follows one unit, and removes it from the flow.
func (f *flow) take() (arcs []int32) {
	n := int32(len(f.g.switches))
	for v := f.from; v != f.to; {
		for _, i := range f.at[v+n] {
			if e := f.edges[i]; e.arc != none && f.edges[i^1].room > 0 {
				f.edges[i^1].room--
				arcs, v = append(arcs, e.arc), e.to
				break
			}
		}
	}
	return arcs
}
