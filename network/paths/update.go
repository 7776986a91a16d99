package paths

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Update returns the routes for a changed graph, and for destinations that may have changed. They equal what Protect
// would return; the trees of destinations that are not affected share their memory with r. If switches have come or
// gone everything is computed anew.
func (r *Routes) Update(g *Graph, dests []openflow.DatapathID) (*Routes, error) {
	if !slices.Equal(g.switches, r.graph.switches) {
		return Protect(g, dests, r.avoid)
	}
	next, err := newRoutes(g, dests, r.avoid)
	if err != nil {
		return nil, err
	}
	changes := changedArcs(r.graph, g)
	b := newBuilder(g, r.avoid)
	for i, d := range next.dests {
		v, _ := g.index(d)
		at, known := slices.BinarySearch(r.dests, d)
		if !known {
			next.trees[i] = b.build(v)
			continue
		}
		next.trees[i] = b.rebuild(v, r.trees[at], changes)
	}
	return next, nil
}

// change is the change of one arc that has a reverse.
type change struct {
	from          int32
	port          of13.Port
	before, after *arc // nil if it does not exist, or has no reverse
}

// changedArcs compares two graphs of the same switches.
func changedArcs(old, g *Graph) (changes []change) {
	usable := func(g *Graph, i int) *arc {
		if g.arcs[i].back == none {
			return nil
		}
		return &g.arcs[i]
	}
	for i, j := 0, 0; i < len(old.links) || j < len(g.links); {
		var before, after *arc
		side := 0
		switch {
		case i == len(old.links):
			side = 1
		case j == len(g.links):
			side = -1
		default:
			side = compareEnds(old.links[i].From, g.links[j].From)
		}
		if side <= 0 {
			before, i = usable(old, i), i+1
		}
		if side >= 0 {
			after, j = usable(g, j), j+1
		}
		if before != nil && after != nil && before.to == after.to && before.weight == after.weight &&
			before.backWeight == after.backWeight {
			continue
		}
		if a := after; a != nil {
			changes = append(changes, change{a.from, a.port, before, after})
		} else if a := before; a != nil {
			changes = append(changes, change{a.from, a.port, before, nil})
		}
	}
	return changes
}

// rebuild returns the tree of a destination after changes: the old one if it is the same.
func (b *builder) rebuild(dest int32, old *tree, changes []change) *tree {
	concerned := false
	for _, c := range changes {
		h := &old.hops[c.from]
		used := c.before != nil && (h.Primary == c.port || h.Backup == c.port || h.Crankback == c.port)
		concerned = concerned || used || c.after != nil && b.gains(old, c.after)
	}
	if !concerned {
		return old // the choices made are unchanged, and no alternative has become better
	}
	b.recall(old)
	touched := b.move(changes)
	for _, v := range touched {
		b.choosePrimary(v)
	}
	for _, v := range touched {
		b.soil(v)
	}
	t := b.protect(dest)
	if slices.Equal(t.hops, old.hops) && slices.Equal(t.dist, old.dist) && slices.Equal(t.exits, old.exits) {
		return old
	}
	return t
}

// gains reports whether an arc that is new, or has another cost, may change a choice in an old tree: as a primary, or
// as the exit of a switch whose subtree contains the arc's start but not its end.
func (b *builder) gains(old *tree, a *arc) bool {
	from, to := a.from, a.to
	through := old.dist[to] + a.weight
	if old.dist[to] == far || old.dist[from] == far || through <= old.dist[from] || b.avoid == NodeDisjoint {
		return old.dist[to] != far
	}
	for from != to { // until they meet
		v := &from
		if old.dist[to] > old.dist[from] {
			v = &to
		} else if through <= old.exits[from].cost {
			return true
		}
		i := b.g.arcAt(*v, old.hops[*v].Primary)
		if i == none {
			return true
		}
		if v == &from {
			through += b.g.arcs[i].backWeight
		}
		*v = b.g.arcs[i].to
	}
	return false
}

// soil marks the switches that packets of v pass, in the old tree or the new one, to choose anew.
func (b *builder) soil(v int32) {
	for u := v; ; u = b.oldParent[u] {
		b.dirty[u] = true
		if b.oldParent[u] == none {
			break
		}
		b.stale[b.oldParent[u]] = true
	}
	for u := v; b.parent[u] != none; u = b.g.arcs[b.parent[u]].to {
		b.dirty[u] = true
	}
}

// recall copies an old tree into the one being built, without what is fixed on the way to exits and without arcs that
// no longer exist.
func (b *builder) recall(old *tree) {
	b.old, b.tree = old, tree{slices.Clone(old.dist), slices.Clone(old.hops), slices.Clone(old.exits)}
	for v := range b.parent {
		b.dirty[v], b.stale[v] = false, false
		b.parent[v], b.oldParent[v] = none, none
		h := &b.hops[v]
		h.Crankback = 0
		if h.Primary == 0 {
			continue
		}
		if i := b.g.arcAt(int32(v), h.Primary); i != none {
			b.parent[v], b.oldParent[v] = i, b.g.arcs[i].to
		}
	}
}

// move updates the distances. It returns the switches near enough to a change to choose anew: those whose distance has
// changed, their neighbours, and those at changed arcs.
func (b *builder) move(changes []change) (touched []int32) {
	g := b.g
	var lost []int32 // switches whose path to the destination used an arc that is gone or has become more expensive
	for _, c := range changes {
		touched = append(touched, c.from)
		if c.before == nil || b.old.hops[c.from].Primary != c.port {
			continue
		}
		b.oldParent[c.from] = c.before.to
		if c.after == nil || c.after.to != c.before.to || c.after.weight > c.before.weight {
			lost = append(lost, c.from)
			b.parent[c.from] = none
			b.dist[c.from] = far
		}
	}
	for i := 0; i < len(lost); i++ {
		for j := g.out[lost[i]]; j < g.out[lost[i]+1]; j++ {
			if a := &g.arcs[j]; a.back != none && b.parent[a.to] == a.back {
				lost = append(lost, a.to)
				b.parent[a.to] = none
				b.dist[a.to] = far
			}
		}
	}
	for _, v := range lost {
		b.improve(v)
	}
	for _, c := range changes {
		b.improve(c.from)
	}
	b.spread()
	touched = append(touched, lost...)
	for v := range b.dist {
		if b.dist[v] == b.old.dist[v] {
			continue
		}
		touched = append(touched, int32(v))
		for j := g.out[v]; j < g.out[v+1]; j++ {
			touched = append(touched, g.arcs[j].to)
		}
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// improve looks for a shorter path by the neighbours of a switch.
func (b *builder) improve(v int32) {
	before := b.dist[v]
	for j := b.g.out[v]; j < b.g.out[v+1]; j++ {
		if a := &b.g.arcs[j]; a.back != none && b.dist[a.to] != far {
			b.dist[v] = min(b.dist[v], b.dist[a.to]+a.weight)
		}
	}
	if b.dist[v] < before {
		b.q.push(b.dist[v], v)
	}
}

// Step is a change of what one switch does with packets to one destination.
type Step struct {
	Dest, Switch openflow.DatapathID
	Old, New     Hop

	// Round is when: after all steps of lower rounds. Then a packet in transit meets old switches first, and only new
	// ones after the first new one, and arrives. Steps of destinations that are new or gone have round 0.
	Round int
}

// Steps lists what has changed from old to r, ordered by destination and switch.
func (r *Routes) Steps(old *Routes) (steps []Step) {
	for i, j := 0, 0; i < len(old.dests) || j < len(r.dests); {
		switch {
		case j == len(r.dests) || i < len(old.dests) && old.dests[i] < r.dests[j]:
			steps = r.compare(steps, old, old.trees[i], &tree{}, old.dests[i])
			i++
		case i == len(old.dests) || r.dests[j] < old.dests[i]:
			steps = r.compare(steps, old, &tree{}, r.trees[j], r.dests[j])
			j++
		default:
			if old.trees[i] != r.trees[j] {
				first := len(steps)
				steps = r.compare(steps, old, old.trees[i], r.trees[j], r.dests[j])
				r.order(steps[first:], r.trees[j])
			}
			i, j = i+1, j+1
		}
	}
	return steps
}

// compare appends the steps of one destination.
func (r *Routes) compare(steps []Step, old *Routes, before, after *tree, dest openflow.DatapathID) []Step {
	was, is := old.graph.switches, r.graph.switches
	if slices.Equal(was, is) {
		for v, at := range is {
			if a, b := before.hop(v), after.hop(v); a != b {
				steps = append(steps, Step{Dest: dest, Switch: at, Old: a, New: b})
			}
		}
		return steps
	}
	for i, j := 0, 0; i < len(was) || j < len(is); {
		s := Step{Dest: dest}
		gone := j == len(is) || i < len(was) && was[i] < is[j]
		come := i == len(was) || j < len(is) && is[j] < was[i]
		if !come {
			s.Switch, s.Old = was[i], before.hop(i)
			i++
		}
		if !gone {
			s.Switch, s.New = is[j], after.hop(j)
			j++
		}
		if s.Old != s.New {
			steps = append(steps, s)
		}
	}
	return steps
}

// hop returns the hop of a switch; the zero Hop if there is no tree.
func (t *tree) hop(v int) Hop {
	if t.hops == nil {
		return Hop{}
	}
	return t.hops[v]
}

// order gives the steps of one destination their rounds: one more than the nearest step on the new path to the
// destination.
func (r *Routes) order(steps []Step, t *tree) {
	at := make(map[int32]*Step, len(steps))
	for i := range steps {
		if v, ok := r.graph.index(steps[i].Switch); ok {
			at[v] = &steps[i]
		} else {
			steps[i].Round = 1
		}
	}
	for v := range at {
		r.round(v, t, at)
	}
}

// round returns the round of the last step from a switch to the destination, the switch included.
func (r *Routes) round(v int32, t *tree, at map[int32]*Step) int {
	s := at[v]
	if s != nil && s.Round > 0 {
		return s.Round
	}
	n := 0
	if p := t.hops[v].Primary; p != 0 {
		n = r.round(r.graph.arcs[r.graph.arcAt(v, p)].to, t, at)
	}
	if s == nil {
		return n
	}
	s.Round = n + 1
	return n + 1
}
