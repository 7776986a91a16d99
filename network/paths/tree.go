package paths

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// tree is the routes to one destination, by the index of the switch.
type tree struct {
	dist  []uint64
	hops  []Hop
	exits []exit // the exits whose first hops are the backups
}

// exit is a path from a switch down the tree to x, and from there by a port that is not in the tree; or, if that is 0,
// by Crankback of x.
type exit struct {
	cost uint64 // to the destination
	x    int32
	port of13.Port
}

var noExit = exit{cost: far}

// builder builds one tree after another, and reuses its memory.
type builder struct {
	g     *Graph
	avoid Disjoint
	tree
	q      queue
	parent []int32 // the arc to the next hop, or none

	// The tree in preorder. The subtree of v, with v, is at at[v] to end[v].
	order, at, end []int32
	first, next    []int32  // children
	down           []uint64 // from the destination to v against the tree
	through        []uint64 // from v to the destination by Crankback, if it has one
	nearest        []arcOut

	// The previous tree, if there was one. Backups of switches that are not dirty stay the same.
	old       *tree
	oldParent []int32 // switches
	dirty     []bool
	stale     []bool // a child, now or before, has something dirty in its subtree

	// Of one switch and its children, for node-disjoint routes.
	children []int32
	best     []exit
	cost     []uint64
	ways     []way
}

// arcOut is the cheapest arc that leaves the subtree of a switch.
type arcOut struct {
	known bool
	arc   int32 // or none
	cost  uint64
}

func newBuilder(g *Graph, avoid Disjoint) *builder {
	n := len(g.switches)
	ints := func() []int32 { return make([]int32, n) }
	return &builder{g: g, avoid: avoid, parent: ints(), order: ints(), at: ints(), end: ints(), first: ints(),
		next: ints(),
		down: make([]uint64, n), through: make([]uint64, n), nearest: make([]arcOut, n), oldParent: ints(),
		dirty: make([]bool, n), stale: make([]bool, n)}
}

// build makes the tree of a destination.
func (b *builder) build(dest int32) *tree {
	n := len(b.g.switches)
	b.old, b.tree = nil, tree{slices.Repeat([]uint64{far}, n), make([]Hop, n), make([]exit, n)}
	b.dist[dest] = 0
	b.q.push(0, dest)
	b.spread()
	for v := range b.parent {
		b.choosePrimary(int32(v))
		b.dirty[v] = true
	}
	return b.protect(dest)
}

// spread lowers distances from the switches in the queue outward.
func (b *builder) spread() {
	g := b.g
	for len(b.q) > 0 {
		d, v := b.q.pop()
		if d > b.dist[v] {
			continue
		}
		for i := g.out[v]; i < g.out[v+1]; i++ {
			if a := &g.arcs[i]; a.back != none && d+a.backWeight < b.dist[a.to] {
				b.dist[a.to] = d + a.backWeight
				b.q.push(b.dist[a.to], a.to)
			}
		}
	}
}

func (b *builder) choosePrimary(v int32) {
	g := b.g
	b.parent[v] = none
	if b.dist[v] == far || b.dist[v] == 0 {
		b.hops[v], b.exits[v] = Hop{}, exit{}
		return
	}
	for i := g.out[v]; ; i++ {
		if a := &g.arcs[i]; a.back != none && b.dist[a.to] != far && b.dist[a.to]+a.weight == b.dist[v] {
			b.parent[v], b.hops[v].Primary = i, a.port
			return
		}
	}
}

// protect computes the backups of the switches of a tree. They depend only on the graph and the distances, so an
// updated tree equals a new one.
func (b *builder) protect(dest int32) *tree {
	b.walk(dest)
	clear(b.nearest)
	for _, v := range b.order {
		if b.avoid == NodeDisjoint && v != dest {
			b.protectFromLossOf(v)
			continue
		}
		for w := b.first[v]; w != none; w = b.next[w] {
			if b.dirty[w] {
				b.install(w, b.bestExit(w, w), true)
			} else {
				b.keep(w)
			}
		}
	}
	t := b.tree
	return &t
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

// behind reports whether v is in the subtree of w.
func (b *builder) behind(v, w int32) bool { return b.at[v] >= b.at[w] && b.at[v] < b.end[w] }

// cheapestOut returns the cheapest arc that leaves the subtree of a switch. It is also the cheapest one for a switch
// nearer to the destination, if it leaves that one's subtree too.
func (b *builder) cheapestOut(x int32) *arcOut {
	n := &b.nearest[x]
	if n.known {
		return n
	}
	*n = arcOut{known: true, arc: none, cost: far}
	for j := b.g.out[x]; j < b.g.out[x+1]; j++ {
		a := &b.g.arcs[j]
		if a.back == none {
			continue
		}
		if c := a.weight + b.dist[a.to]; c < n.cost && j != b.parent[x] && !b.behind(a.to, x) {
			n.arc, n.cost = j, c
		}
	}
	return n
}

// bestExit returns the cheapest path from w to a switch outside the subtree of f, which is w or its next hop; among
// equal ones that with the fewest crankbacks. If a switch nearer to the destination has already fixed which way x sends
// such packets, that is the only path by x. It is valid, because it leaves the larger subtree.
func (b *builder) bestExit(w, f int32) exit {
	best := noExit
	for i := b.at[w]; i < b.end[w]; {
		x := b.order[i]
		back := b.down[x] - b.down[w]
		if back+b.dist[x] >= best.cost { // no path from x is shorter than its distance
			i = b.end[x]
			continue
		}
		if x != w && b.hops[x].Crankback != 0 {
			if c := back + b.through[x]; c < best.cost {
				best = exit{c, x, 0}
			}
			i = b.end[x]
			continue
		}
		if n := b.cheapestOut(x); n.arc != none && back+n.cost < best.cost {
			if a := &b.g.arcs[n.arc]; !b.behind(a.to, f) {
				best = exit{back + n.cost, x, a.port}
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
		if a.back == none {
			continue
		}
		if c := back + a.weight + b.dist[a.to]; c < best.cost && j != b.parent[x] && !b.behind(a.to, f) {
			best = exit{c, x, a.port}
		}
	}
	return best
}

// install makes an exit the backup of w, and fixes the path to it at the switches between. If the backup has changed,
// the switches of the old and of the new path become dirty.
func (b *builder) install(w int32, e exit, once bool) {
	b.exits[w] = e
	if b.old != nil && b.old.exits[w] != e {
		b.soilWays(w)
	}
	h := &b.hops[w]
	h.Backup, h.Back, h.Once = 0, false, false
	if e.cost != far {
		h.Backup, h.Back, h.Once = b.settleWay(w), e.x != w, once
	}
}

// keep lets w keep its previous backup.
func (b *builder) keep(w int32) {
	if b.hops[w].Back {
		b.settleWay(w)
	}
}

// settleWay fixes what the switches between w and its exit do with packets that come down the tree. It returns the port
// by which w sends them.
func (b *builder) settleWay(w int32) of13.Port {
	e := b.exits[w]
	v, port := e.x, e.port
	if port == 0 {
		port = b.hops[v].Crankback
	}
	for v != w {
		b.hops[v].Crankback = port
		b.through[v] = e.cost - (b.down[v] - b.down[w])
		up := &b.g.arcs[b.parent[v]]
		port, v = b.g.arcs[up.back].port, up.to
	}
	return port
}

func (b *builder) soilWays(w int32) {
	if b.exits[w].cost != far {
		for v := b.exits[w].x; v != w; v = b.g.arcs[b.parent[v]].to {
			b.dirty[v] = true
		}
	}
	if b.old.hops[w].Backup != 0 {
		for v := b.old.exits[w].x; v != w; v = b.oldParent[v] {
			b.dirty[v] = true
		}
	}
}
