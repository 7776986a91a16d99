package paths

import (
	"cmp"
	"slices"
)

// way is an exit of one child of a switch that leads into the subtree of another child.
type way struct {
	from, to int32 // indexes of the children
	exit
}

// protectFromLossOf gives each switch whose next hop is f a backup that also works if f is dead. Then its siblings have
// no primary either. So a switch that cannot get past f by itself uses a sibling that can, or one that in turn uses a
// third: the nearest first, each only after the one that it relies on, so that there is no loop. If everything passes
// f, the backup protects only against the loss of the link.
func (b *builder) protectFromLossOf(f int32) {
	b.children, b.best, b.cost, b.ways = b.children[:0], b.best[:0], b.cost[:0], b.ways[:0]
	dirty := b.old != nil && b.stale[f]
	for w := b.first[f]; w != none; w = b.next[w] {
		b.children = append(b.children, w)
		dirty = dirty || b.dirty[w]
	}
	for _, w := range b.children {
		if b.dirty[w] = dirty; !dirty {
			b.keep(w)
			continue
		}
		e := b.bestExit(w, f)
		b.best, b.cost = append(b.best, e), append(b.cost, e.cost)
	}
	if !dirty {
		return
	}
	for i, w := range b.children {
		if b.cost[i] == far {
			b.findWays(int32(i), w, f)
		}
	}
	for i := range b.ways {
		b.ways[i].to = b.siblingBefore(b.ways[i].to)
	}
	slices.SortStableFunc(b.ways, func(v, w way) int { return cmp.Compare(v.to, w.to) })
	b.settle()
	for i, w := range b.children {
		if b.cost[i] == far {
			b.install(w, b.bestExit(w, w), true)
		} else {
			b.install(w, b.best[i], false)
		}
	}
}

// findWays lists the exits from the subtree of w, a child of f, to the subtree of another child. Nothing in the subtree
// of w is fixed yet: that would lead past f.
func (b *builder) findWays(i, w, f int32) {
	for _, x := range b.order[b.at[w]:b.end[w]] {
		for j := b.g.out[x]; j < b.g.out[x+1]; j++ {
			if a := &b.g.arcs[j]; a.back != none && a.to != f && !b.behind(a.to, w) {
				b.ways = append(b.ways, way{i, a.to, exit{b.down[x] - b.down[w] + a.weight + b.dist[a.to], x, a.port}})
			}
		}
	}
}

// siblingBefore returns the index of the child whose subtree v is in. Children are in preorder.
func (b *builder) siblingBefore(v int32) int32 {
	i, found := slices.BinarySearchFunc(b.children, b.at[v], func(w, at int32) int { return cmp.Compare(b.at[w], at) })
	if !found {
		i--
	}
	return int32(i)
}

// settle finds the cheapest exits by siblings: shortest paths between the children of a switch.
func (b *builder) settle() {
	for i, c := range b.cost {
		if c != far {
			b.q.push(c, int32(i))
		}
	}
	for len(b.q) > 0 {
		cost, s := b.q.pop()
		if cost > b.cost[s] {
			continue
		}
		at, _ := slices.BinarySearchFunc(b.ways, s, func(w way, s int32) int { return cmp.Compare(w.to, s) })
		for ; at < len(b.ways) && b.ways[at].to == s; at++ {
			w := &b.ways[at]
			if c := w.cost - b.dist[b.children[s]] + cost; c < b.cost[w.from] {
				b.best[w.from], b.cost[w.from] = w.exit, c
				b.q.push(c, w.from)
			}
		}
	}
}
