package paths

import (
	"math"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// far is the distance of unreachable switches.
const far = math.MaxUint64

// Path is a way through the network, and its cost.
type Path struct {
	Links []Link
	Cost  uint64
}

// Switches returns the switches that the path visits, its ends included.
func (p Path) Switches() []openflow.DatapathID {
	var s []openflow.DatapathID
	for i, l := range p.Links {
		if i == 0 {
			s = append(s, l.From.Switch)
		}
		s = append(s, l.To.Switch)
	}
	return s
}

func (g *Graph) path(arcs []int32) Path {
	var p Path
	for _, a := range arcs {
		p.Links = append(p.Links, g.links[a])
		p.Cost += uint64(g.links[a].Cost)
	}
	return p
}

// Shortest returns a cheapest path; among equal ones that with the fewest links, then that whose links begin at the
// lowest switches and ports. There is none to the switch itself, nor to an unreachable one.
func (g *Graph) Shortest(from, to openflow.DatapathID) (Path, bool) {
	v, ok1 := g.index(from)
	w, ok2 := g.index(to)
	if !ok1 || !ok2 || v == w {
		return Path{}, false
	}
	arcs := g.search(v, w, newBan(g))
	return g.path(arcs), arcs != nil
}

// ban is what a search must not use.
type ban struct{ switches, arcs []bool }

func newBan(g *Graph) *ban {
	return &ban{make([]bool, len(g.switches)), make([]bool, len(g.arcs))}
}

// search finds the best path from the distances to its end, so that the choice of the next arc depends only on them.
func (g *Graph) search(from, to int32, b *ban) []int32 {
	return g.walk(from, to, g.distances(to, from, b), b)
}

func (g *Graph) usable(a int32, b *ban) bool {
	return !b.arcs[a] && !b.switches[g.arcs[a].from] && !b.switches[g.arcs[a].to]
}

// distances returns those to a switch, of the switches up to the distance of another one; none: of all.
func (g *Graph) distances(to, upTo int32, b *ban) []uint64 {
	in := g.incoming()
	dist := slices.Repeat([]uint64{far}, len(g.switches))
	dist[to] = 0
	var q queue
	for q.push(0, to); len(q) > 0; {
		d, v := q.pop()
		if d > dist[v] {
			continue
		}
		if v == upTo {
			break
		}
		for _, a := range in.of(v) {
			u, through := g.arcs[a].from, d+g.arcs[a].weight
			if g.usable(a, b) && through < dist[u] {
				dist[u] = through
				q.push(through, u)
			}
		}
	}
	return dist
}

// walk returns the best path by the distances to its end.
func (g *Graph) walk(from, to int32, dist []uint64, b *ban) (arcs []int32) {
	if dist[from] == far {
		return nil
	}
	for v := from; v != to; {
		for a := g.out[v]; ; a++ {
			if w := g.arcs[a].to; g.usable(a, b) && dist[w] != far && dist[w]+g.arcs[a].weight == dist[v] {
				arcs, v = append(arcs, a), w
				break
			}
		}
	}
	return arcs
}

// Distances are those of all switches to one. With them, each path to it is found without another search. They are
// immutable, and safe for concurrent use.
type Distances struct {
	graph *Graph
	to    int32
	dist  []uint64
	ban   *ban
}

// To returns the distances to a switch. There is no path to one that is not in the graph.
func (g *Graph) To(to openflow.DatapathID) *Distances {
	d := &Distances{graph: g, to: none, ban: newBan(g)}
	if w, ok := g.index(to); ok {
		d.to, d.dist = w, g.distances(w, none, d.ban)
	}
	return d
}

// Shortest returns the path that Graph.Shortest returns.
func (d *Distances) Shortest(from openflow.DatapathID) (Path, bool) {
	v, ok := d.graph.index(from)
	if !ok || d.to == none || v == d.to {
		return Path{}, false
	}
	arcs := d.graph.walk(v, d.to, d.dist, d.ban)
	return d.graph.path(arcs), arcs != nil
}

// incoming lists the arcs to each switch.
type incoming struct{ start, arcs []int32 }

func (g *Graph) incoming() incoming {
	in := incoming{make([]int32, len(g.switches)+2), make([]int32, len(g.arcs))}
	for _, a := range g.arcs {
		in.start[a.to+2]++
	}
	for v := range g.switches {
		in.start[v+2] += in.start[v+1]
	}
	for i, a := range g.arcs {
		in.arcs[in.start[a.to+1]] = int32(i)
		in.start[a.to+1]++
	}
	return in
}

func (in incoming) of(v int32) []int32 { return in.arcs[in.start[v]:in.start[v+1]] }

// queue is a binary heap of switches by distance. An entry may be outdated by a shorter one, so the distance is
// compared when it is popped.
type queue []queued

type queued struct {
	dist uint64
	at   int32
}

func (q *queue) push(dist uint64, at int32) {
	h := append(*q, queued{})
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].dist <= dist {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = queued{dist, at}
	*q = h
}

func (q *queue) pop() (dist uint64, at int32) {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].dist < h[down].dist {
			down++
		}
		if last.dist <= h[down].dist {
			break
		}
		h[i], i = h[down], down
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top.dist, top.at
}
