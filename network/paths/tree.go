package paths

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// builder builds trees, one after the other, in memory that it keeps.
type builder struct {
	g      *Graph
	avoid  Disjoint
	dist   []uint64
	hops   []Hop
	q      queue
	parent []int32 // the arc to the next hop, or none

	// The tree in preorder. Those behind v, itself included, stand at at[v] to end[v].
	order, at, end []int32
	first, next    []int32  // children
	down           []uint64 // from the destination to v against the tree
	through        []uint64 // from v to the destination by Crankback, if it has one
	nearest        []exit

	// Of one switch and its children, for node-disjoint routes.
	children []int32
	best     []exit
	cost     []uint64
	ways     []way
}

func newBuilder(g *Graph, avoid Disjoint) *builder {
	n := len(g.switches)
	ints := func() []int32 { return make([]int32, n) }
	return &builder{g: g, avoid: avoid, parent: ints(), order: ints(), at: ints(), end: ints(), first: ints(), next: ints(),
		down: make([]uint64, n), through: make([]uint64, n), nearest: make([]exit, n)}
}

// distances returns how far it is from each switch to a destination.
func (b *builder) distances(dest int32) []uint64 {
	g := b.g
	dist := slices.Repeat([]uint64{far}, len(g.switches))
	dist[dest] = 0
	for b.q.push(0, dest); len(b.q) > 0; {
		d, v := b.q.pop()
		if d > dist[v] {
			continue
		}
		for i := g.out[v]; i < g.out[v+1]; i++ {
			if a := &g.arcs[i]; a.back != none && d+a.backWeight < dist[a.to] {
				dist[a.to] = d + a.backWeight
				b.q.push(dist[a.to], a.to)
			}
		}
	}
	return dist
}

// build makes the tree of a destination. All of it follows from the graph and the distances: that is why it does not matter whether those
// were computed anew.
func (b *builder) build(dest int32, dist []uint64) *tree {
	b.dist, b.hops = dist, make([]Hop, len(dist))
	b.choosePrimaries(dest)
	b.walk(dest)
	b.findNearest()
	for _, v := range b.order {
		if b.avoid == NodeDisjoint && v != dest {
			b.protectFromLossOf(v)
		} else {
			b.protectLinksTo(v, b.avoid == NodeDisjoint)
		}
	}
	return &tree{dist, b.hops}
}

func (b *builder) choosePrimaries(dest int32) {
	g := b.g
	for v := range b.parent {
		b.parent[v] = none
		if b.dist[v] == far || int32(v) == dest {
			continue
		}
		for i := g.out[v]; ; i++ {
			if a := &g.arcs[i]; a.back != none && b.dist[a.to] != far && b.dist[a.to]+a.weight == b.dist[v] {
				b.parent[v], b.hops[v].Primary = i, a.port
				break
			}
		}
	}
}

// walk puts the tree in preorder.
func (b *builder) walk(dest int32) {
	for v := range b.first {
		b.first[v], b.next[v] = none, none
	}
	for v := len(b.parent) - 1; v >= 0; v-- {
		if p := b.parent[v]; p != none {
			to := b.g.arcs[p].to
			b.next[v], b.first[to] = b.first[to], int32(v)
		}
	}
	b.order = b.order[:0]
	b.down[dest] = 0
	for v := dest; ; {
		b.at[v] = int32(len(b.order))
		b.order = append(b.order, v)
		if p := b.parent[v]; p != none {
			b.down[v] = b.down[b.g.arcs[p].to] + b.g.arcs[p].backWeight
		}
		if b.first[v] != none {
			v = b.first[v]
			continue
		}
		for b.next[v] == none { // done with v
			b.end[v] = int32(len(b.order))
			if v == dest {
				return
			}
			v = b.g.arcs[b.parent[v]].to
		}
		b.end[v] = int32(len(b.order))
		v = b.next[v]
	}
}

// behind reports whether the tree path of v passes by w.
func (b *builder) behind(v, w int32) bool { return b.at[v] >= b.at[w] && b.at[v] < b.end[w] }

// exit is a way from a switch down the tree to x, and there by an arc that is not of the tree; or, without one, as Crankback at x says.
type exit struct {
	cost uint64 // to the destination
	x    int32
	arc  int32 // or none
}

var noExit = exit{cost: far}

// findNearest finds for each switch the cheapest arc out of what is behind it. It is the cheapest out of what is behind a switch nearer to the
// destination too, if it leads so far.
func (b *builder) findNearest() {
	for _, x := range b.order {
		best := noExit
		for j := b.g.out[x]; j < b.g.out[x+1]; j++ {
			a := &b.g.arcs[j]
			if a.back == none || j == b.parent[x] || b.behind(a.to, x) {
				continue
			}
			if c := a.weight + b.dist[a.to]; c < best.cost {
				best = exit{c, x, j}
			}
		}
		b.nearest[x] = best
	}
}

// bestExit returns the cheapest way from w to what is not behind f, which is w or its next hop; of several the one of fewest crankbacks. If
// switches nearer to the destination have settled how x uses what is behind it, that is the only way by x, and a good one: it leads farther than f.
func (b *builder) bestExit(w, f int32) exit {
	best := noExit
	for i := b.at[w]; i < b.end[w]; {
		x := b.order[i]
		back := b.down[x] - b.down[w]
		if back >= best.cost {
			i = b.end[x]
			continue
		}
		if x != w && b.hops[x].Crankback != 0 {
			if c := back + b.through[x]; c < best.cost {
				best = exit{c, x, none}
			}
			i = b.end[x]
			continue
		}
		if n := &b.nearest[x]; n.cost != far && back+n.cost < best.cost {
			if !b.behind(b.g.arcs[n.arc].to, f) {
				best = exit{back + n.cost, x, n.arc}
			} else {
				best = b.bestArc(x, f, back, best)
			}
		}
		i++
	}
	return best
}

func (b *builder) bestArc(x, f int32, back uint64, best exit) exit {
	for j := b.g.out[x]; j < b.g.out[x+1]; j++ {
		a := &b.g.arcs[j]
		if a.back == none || j == b.parent[x] || b.behind(a.to, f) {
			continue
		}
		if c := back + a.weight + b.dist[a.to]; c < best.cost {
			best = exit{c, x, j}
		}
	}
	return best
}

// protectLinksTo gives a backup to each switch whose next hop is p.
func (b *builder) protectLinksTo(p int32, once bool) {
	for w := b.first[p]; w != none; w = b.next[w] {
		b.install(w, b.bestExit(w, w), once)
	}
}

// install makes an exit the backup of w, and settles the way to it at the switches between.
func (b *builder) install(w int32, e exit, once bool) {
	if e.cost == far {
		return
	}
	v, port := e.x, of13.Port(0)
	if e.arc != none {
		port = b.g.arcs[e.arc].port
	} else {
		port = b.hops[v].Crankback
	}
	for v != w {
		b.hops[v].Crankback = port
		b.through[v] = e.cost - (b.down[v] - b.down[w])
		up := &b.g.arcs[b.parent[v]]
		port, v = b.g.arcs[up.back].port, up.to
	}
	b.hops[w].Backup, b.hops[w].Back, b.hops[w].Once = port, e.x != w, once
}
