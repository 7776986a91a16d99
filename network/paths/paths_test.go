package paths_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// drawGraph draws a small network. Links may work in one direction only, and may have different costs in each
// direction.
func drawGraph(t *rapid.T) *paths.Graph {
	n := rapid.IntRange(2, 7).Draw(t, "switches")
	whole := graphs.Random(rapid.Uint64().Draw(t, "seed"), n, rapid.IntRange(n-1, 2*n).Draw(t, "links"), 4)
	var links []paths.Link
	for _, l := range whole.Links() {
		if kind := rapid.IntRange(0, 9).Draw(t, "kind"); kind == 0 {
			continue
		} else if kind == 1 {
			l.Cost = rapid.Uint32Range(1, 5).Draw(t, "cost")
		}
		links = append(links, l)
	}
	g, err := paths.NewGraph(whole.Switches(), links)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func drawPair(t *rapid.T, g *paths.Graph) (a, b openflow.DatapathID) {
	n := len(g.Switches())
	i, j := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-2).Draw(t, "to")
	if j >= i {
		j++
	}
	return g.Switches()[i], g.Switches()[j]
}

// simplePaths lists all paths without a repeated switch, in the order of KShortest.
func simplePaths(g *paths.Graph, from, to openflow.DatapathID) (found []paths.Path) {
	var walk func(at openflow.DatapathID, p paths.Path)
	walk = func(at openflow.DatapathID, p paths.Path) {
		if at == to {
			found = append(found, paths.Path{Links: slices.Clone(p.Links), Cost: p.Cost})
			return
		}
		for _, l := range g.Links() {
			if l.From.Switch == at && l.To.Switch != from && !slices.Contains(p.Switches(), l.To.Switch) {
				walk(l.To.Switch, paths.Path{Links: append(p.Links, l), Cost: p.Cost + uint64(l.Cost)})
			}
		}
	}
	walk(from, paths.Path{})
	slices.SortFunc(found, func(p, q paths.Path) int {
		return cmp.Or(cmp.Compare(p.Cost, q.Cost), cmp.Compare(len(p.Links), len(q.Links)),
			slices.CompareFunc(p.Links, q.Links, func(a, b paths.Link) int {
				return cmp.Or(cmp.Compare(a.From.Switch, b.From.Switch), cmp.Compare(a.From.Port, b.From.Port))
			}))
	})
	return found
}

func samePaths(a, b []paths.Path) bool {
	return slices.EqualFunc(a, b, func(p, q paths.Path) bool {
		return p.Cost == q.Cost && slices.Equal(p.Links,
			q.Links)
	})
}

func TestShortestIsTheFirstOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		a, b := drawPair(t, g)
		got, ok := g.Shortest(a, b)
		all := simplePaths(g, a, b)
		if ok != (len(all) > 0) || ok && !samePaths([]paths.Path{got}, all[:1]) {
			t.Fatalf("%v to %v: %v, want the first of %v", a, b, got, all)
		}
		if same, found := g.To(b).Shortest(a); found != ok || ok && !samePaths([]paths.Path{same}, all[:1]) {
			t.Fatalf("%v to %v: by the distances %v, want the first of %v", a, b, same, all)
		}
	})
}

func TestKShortestAreTheFirstOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		a, b := drawPair(t, g)
		k := rapid.IntRange(1, 12).Draw(t, "k")
		got, all := g.KShortest(a, b, k), simplePaths(g, a, b)
		if want := all[:min(k, len(all))]; !samePaths(got, want) {
			t.Fatalf("%d from %v to %v:\n%v, want\n%v", k, a, b, got, want)
		}
	})
}

// shares reports whether two paths share a cable or, if avoid requires that, a switch between their ends.
func shares(p, q paths.Path, avoid paths.Disjoint) bool {
	for _, l := range p.Links {
		for _, m := range q.Links {
			if l.From == m.From || l.From == m.To && l.To == m.From {
				return true
			}
		}
	}
	inner := func(p paths.Path) []openflow.DatapathID { s := p.Switches(); return s[1 : len(s)-1] }
	return avoid == paths.NodeDisjoint && slices.ContainsFunc(inner(p),
		func(s openflow.DatapathID) bool { return slices.Contains(inner(q), s) })
}

func TestDisjointPairIsTheCheapestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		a, b := drawPair(t, g)
		avoid := rapid.SampledFrom([]paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint}).Draw(t, "avoid")
		all := simplePaths(g, a, b)
		best := uint64(0)
		for i, p := range all {
			for _, q := range all[i+1:] {
				if sum := p.Cost + q.Cost; !shares(p, q, avoid) && (best == 0 || sum < best) {
					best = sum
				}
			}
		}
		switch got := g.DisjointPair(a, b, avoid); {
		case len(all) == 0:
			if got != nil {
				t.Fatalf("%v to %v: %v, and there is no path", a, b, got)
			}
		case best == 0:
			if !samePaths(got, all[:1]) {
				t.Fatalf("%v to %v: %v, want the shortest alone, %v", a, b, got, all[0])
			}
		case len(got) != 2 || got[0].Cost+got[1].Cost != best || got[0].Cost > got[1].Cost ||
			shares(got[0], got[1], avoid):
			t.Fatalf("%v to %v: %v, want two %v paths of cost %d together", a, b, got, avoid, best)
		}
	})
}

func TestNewGraphRefuses(t *testing.T) {
	a, b := paths.End{Switch: 1, Port: 1}, paths.End{Switch: 2, Port: 1}
	at := func(s openflow.DatapathID, p uint32) paths.End { return paths.End{Switch: s, Port: of13.Port(p)} }
	for what, links := range map[string][]paths.Link{
		"switch that is not there": {{From: a, To: at(3, 1), Cost: 1}},
		"loop":                     {{From: a, To: at(1, 2), Cost: 1}},
		"cost 0":                   {{From: a, To: b}},
		"cost too high":            {{From: a, To: b, Cost: paths.MaxCost + 1}},
		"port 0":                   {{From: at(1, 0), To: b, Cost: 1}},
		"port that is none":        {{From: at(1, 0xfffffff8), To: b, Cost: 1}},
		"one port out twice":       {{From: a, To: b, Cost: 1}, {From: a, To: at(2, 2), Cost: 1}},
		"one port in twice":        {{From: a, To: b, Cost: 1}, {From: at(1, 2), To: b, Cost: 1}},
	} {
		if _, err := paths.NewGraph([]openflow.DatapathID{1, 2}, links); err == nil {
			t.Errorf("%s: taken", what)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}

func TestNothingLeadsToWhatIsNotThere(t *testing.T) {
	g := graphs.Triangle()
	if p, ok := g.Shortest(1, 9); ok {
		t.Errorf("a path to 9: %v", p)
	}
	if p, ok := g.Shortest(1, 1); ok {
		t.Errorf("a path from 1 to itself: %v", p)
	}
	if p := g.KShortest(1, 9, 3); p != nil {
		t.Errorf("paths to 9: %v", p)
	}
	if p := g.DisjointPair(1, 9, paths.LinkDisjoint); p != nil {
		t.Errorf("disjoint paths to 9: %v", p)
	}
	if _, err := paths.Protect(g, []openflow.DatapathID{9}, paths.LinkDisjoint); err == nil {
		t.Error("routes to 9")
	}
}

// The result does not depend on the order in which a graph is described.
func TestRoutesDoNotDependOnOrder(t *testing.T) {
	g := graphs.Random(3, 40, 100, 1)
	links := slices.Clone(g.Links())
	switches := slices.Clone(g.Switches())
	slices.Reverse(links)
	slices.Reverse(switches)
	h, err := paths.NewGraph(switches, links)
	if err != nil {
		t.Fatal(err)
	}
	for _, avoid := range []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint} {
		a, errA := paths.Protect(g, g.Switches(), avoid)
		b, errB := paths.Protect(h, switches, avoid)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if diff := difference(a, b); diff != "" {
			t.Error(diff)
		}
	}
}

// difference returns the first difference of two routes.
func difference(a, b *paths.Routes) string {
	if !slices.Equal(a.Destinations(), b.Destinations()) || !slices.Equal(a.Graph().Switches(), b.Graph().Switches()) {
		return "other switches or destinations"
	}
	for _, d := range a.Destinations() {
		for i, s := range a.Graph().Switches() {
			if h, k := a.Hops(d)[i], b.Hops(d)[i]; h != k {
				return fmt.Sprintf("to %v at %v: %+v and %+v", d, s, h, k)
			}
		}
	}
	return ""
}
