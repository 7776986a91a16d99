package paths

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Bounds of a graph. They keep path costs far from overflow, and indexes in 32 bits.
const (
	MaxSwitches = 1 << 16
	MaxLinks    = 1 << 20
	MaxCost     = 1 << 24
)

// Disjoint is what a backup has to avoid.
type Disjoint uint8

// Disjoint links: the backup avoids the cable of its primary. Disjoint nodes: it avoids the whole next switch, unless
// that is the destination.
const (
	LinkDisjoint Disjoint = iota
	NodeDisjoint
)

func (d Disjoint) String() string {
	if d == NodeDisjoint {
		return "node-disjoint"
	}
	return "link-disjoint"
}

// End is where a link is plugged in.
type End struct {
	Switch openflow.DatapathID
	Port   of13.Port
}

// Link carries packets in one direction. A cable is two links, each the reverse of the other.
type Link struct {
	From, To End
	Cost     uint32 // 1 to MaxCost
}

// Reverse returns the link the other way, with the same cost.
func (l Link) Reverse() Link { return Link{l.To, l.From, l.Cost} }

// Both returns the two links of a cable.
func Both(a, b End, cost uint32) []Link {
	l := Link{a, b, cost}
	return []Link{l, l.Reverse()}
}

// Graph is a network of switches. It is immutable, and safe for concurrent use.
type Graph struct {
	switches []openflow.DatapathID // sorted
	links    []Link                // sorted by From; out[v] to out[v+1] leave switch v
	out      []int32
	arcs     []arc // links by index, in the same order
}

// arc is a link as the algorithms see it.
type arc struct {
	from, to           int32
	port               of13.Port
	back               int32 // index of the reverse link's arc, or none
	weight, backWeight uint64
}

const none = -1

// weight orders paths by one number: first by cost, then by the number of links.
func weight(cost uint32) uint64 { return uint64(cost)*MaxSwitches + 1 }

// NewGraph makes a graph. It refuses a link whose ends are not switches of the graph, that leads from a switch to
// itself, or that shares its port with another link of the same direction.
func NewGraph(switches []openflow.DatapathID, links []Link) (*Graph, error) {
	g := &Graph{switches: slices.Clone(switches), links: slices.Clone(links)}
	slices.Sort(g.switches)
	g.switches = slices.Compact(g.switches)
	if len(g.switches) > MaxSwitches || len(g.links) > MaxLinks {
		return nil, fmt.Errorf("graph of %d switches and %d links: at most %d and %d", len(g.switches), len(g.links),
			MaxSwitches, MaxLinks)
	}
	slices.SortFunc(g.links, func(a, b Link) int { return compareEnds(a.From, b.From) })
	g.arcs = make([]arc, len(g.links))
	g.out = make([]int32, len(g.switches)+1)
	for i, l := range g.links {
		from, ok1 := g.index(l.From.Switch)
		to, ok2 := g.index(l.To.Switch)
		switch {
		case !ok1 || !ok2:
			return nil, fmt.Errorf("link %v: name both switches of it", l)
		case from == to:
			return nil, fmt.Errorf("link %v leads back to its switch", l)
		case l.Cost == 0 || l.Cost > MaxCost:
			return nil, fmt.Errorf("link %v: cost %d is not from 1 to %d", l, l.Cost, MaxCost)
		case !physical(l.From.Port) || !physical(l.To.Port):
			return nil, fmt.Errorf("link %v: a port is from 1 to %d", l, uint32(of13.PortMax))
		case i > 0 && g.links[i-1].From == l.From:
			return nil, fmt.Errorf("two links leave by %v", l.From)
		}
		g.arcs[i] = arc{from: from, to: to, port: l.From.Port, back: none, weight: weight(l.Cost)}
		g.out[from+1] = int32(i + 1)
	}
	for v := range g.switches { // a switch without links ends where the one before does
		g.out[v+1] = max(g.out[v+1], g.out[v])
	}
	return g, g.pair()
}

// pair finds the reverse of each link.
func (g *Graph) pair() error {
	arrived := make(map[End]int, len(g.links))
	for i, l := range g.links {
		if j, twice := arrived[l.To]; twice {
			return fmt.Errorf("links %v and %v arrive at one port", g.links[j], l)
		}
		arrived[l.To] = i
	}
	for i, l := range g.links {
		if j, ok := arrived[l.From]; ok && g.links[j].From == l.To {
			g.arcs[i].back, g.arcs[i].backWeight = int32(j), weight(g.links[j].Cost)
		}
	}
	return nil
}

func physical(p of13.Port) bool { return p >= 1 && p <= of13.PortMax }

func compareEnds(a, b End) int {
	return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Port, b.Port))
}

// index returns the place of a switch among all.
func (g *Graph) index(s openflow.DatapathID) (int32, bool) {
	i, ok := slices.BinarySearch(g.switches, s)
	return int32(i), ok
}

// arcAt returns the arc that leaves a switch by a port, or none.
func (g *Graph) arcAt(v int32, port of13.Port) int32 {
	// Ports mostly count from 1.
	if i := int64(g.out[v]) + int64(port) - 1; i < int64(g.out[v+1]) && i >= 0 && g.arcs[i].port == port {
		return int32(i)
	}
	for i := g.out[v]; i < g.out[v+1]; i++ {
		if g.arcs[i].port == port {
			return i
		}
	}
	return none
}

// Switches returns the switches in the order of their ids. Do not write to it.
func (g *Graph) Switches() []openflow.DatapathID { return g.switches }

// Links returns the links in the order of where they begin. Do not write to it.
func (g *Graph) Links() []Link { return g.links }

// From returns the link that leaves by a port.
func (g *Graph) From(e End) (Link, bool) {
	i, ok := slices.BinarySearchFunc(g.links, e, func(l Link, e End) int { return compareEnds(l.From, e) })
	if !ok {
		return Link{}, false
	}
	return g.links[i], true
}

// Without returns the graph without the links that begin or end at one of the ends: cables that are cut there.
func (g *Graph) Without(ends ...End) *Graph {
	left := slices.DeleteFunc(slices.Clone(g.links),
		func(l Link) bool { return slices.Contains(ends, l.From) || slices.Contains(ends, l.To) })
	h, err := NewGraph(g.switches, left)
	if err != nil {
		panic("paths: a part of a sound graph is not sound: " + err.Error())
	}
	return h
}

func (e End) String() string  { return fmt.Sprintf("%v:%v", e.Switch, e.Port) }
func (l Link) String() string { return fmt.Sprintf("%v->%v", l.From, l.To) }
