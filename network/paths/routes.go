package paths

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Hop is what a switch does with packets to one destination. Port 0 is none.
type Hop struct {
	Primary of13.Port // toward the destination, on the tree of shortest paths
	Backup  of13.Port // while Primary is dead

	// Crankback is the port for packets that come in by Primary: a switch nearer to the destination sent them back.
	Crankback of13.Port

	// Back: Backup leads to a switch whose own packets come in by that port. Such a packet goes back by its incoming
	// port.
	Back bool

	// Once: a packet may take Backup only if it has not taken such a backup before. It protects against the loss of a
	// link, but if the switch behind Primary is dead the packet comes to another switch with a dead Primary. With
	// link-disjoint routes each backup is such a one, so a packet takes at most one, and cannot loop.
	Once bool
}

// Routes are the next hops of every switch to each of some destinations. They do not change.
type Routes struct {
	graph *Graph
	avoid Disjoint
	dests []openflow.DatapathID // sorted
	trees []*tree
}

// Protect computes the routes to the destinations. Links without a reverse are left out: their failure would not be
// noticed, and packets could not return.
func Protect(g *Graph, dests []openflow.DatapathID, avoid Disjoint) (*Routes, error) {
	r, err := newRoutes(g, dests, avoid)
	if err != nil {
		return nil, err
	}
	b := newBuilder(g, avoid)
	for i, d := range r.dests {
		v, _ := g.index(d)
		r.trees[i] = b.build(v)
	}
	return r, nil
}

func newRoutes(g *Graph, dests []openflow.DatapathID, avoid Disjoint) (*Routes, error) {
	r := &Routes{graph: g, avoid: avoid, dests: slices.Clone(dests)}
	slices.Sort(r.dests)
	r.dests = slices.Compact(r.dests)
	for _, d := range r.dests {
		if _, ok := g.index(d); !ok {
			return nil, fmt.Errorf("protect routes to %v: the graph has no such switch", d)
		}
	}
	r.trees = make([]*tree, len(r.dests))
	return r, nil
}

// Graph returns what the routes were computed for.
func (r *Routes) Graph() *Graph { return r.graph }

// Avoids returns what the backups avoid.
func (r *Routes) Avoids() Disjoint { return r.avoid }

// Destinations returns the destinations in the order of their ids. Do not write to it.
func (r *Routes) Destinations() []openflow.DatapathID { return r.dests }

// Hops returns the hops of all switches, in the order of Graph.Switches, to a destination. Do not write to it.
func (r *Routes) Hops(dest openflow.DatapathID) []Hop {
	if i, ok := slices.BinarySearch(r.dests, dest); ok {
		return r.trees[i].hops
	}
	return nil
}

// Hop returns what a switch does with packets to a destination.
func (r *Routes) Hop(dest, at openflow.DatapathID) Hop {
	hops := r.Hops(dest)
	v, ok := r.graph.index(at)
	if hops == nil || !ok {
		return Hop{}
	}
	return hops[v]
}

// Length returns the number of links on the path by primaries from a switch to a destination; 0 if there is none.
func (r *Routes) Length(dest, at openflow.DatapathID) int {
	i, ok1 := slices.BinarySearch(r.dests, dest)
	v, ok2 := r.graph.index(at)
	if !ok1 || !ok2 || r.trees[i].dist[v] == far {
		return 0
	}
	return int(r.trees[i].dist[v] % MaxSwitches)
}
