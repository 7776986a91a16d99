package graphs_test

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

func TestUSNET(t *testing.T) {
	g := graphs.USNET()
	if s, l := len(g.Switches()), len(g.Links()); s != 24 || l != 2*43 {
		t.Errorf("%d switches and %d links, want 24 and twice 43 (figure 3c)", s, l)
	}
	// The testbed of the paper has 6 interfaces for each node (section IV-A).
	degree := map[any]int{}
	for _, l := range g.Links() {
		if degree[l.From.Switch]++; degree[l.From.Switch] > 6 {
			t.Errorf("switch %v has more than 6 links", l.From.Switch)
		}
	}
	for _, a := range g.Switches() {
		for _, b := range g.Switches() {
			if a < b && len(g.DisjointPair(a, b, paths.NodeDisjoint)) != 2 {
				t.Errorf("from %v to %v there are no two disjoint paths", a, b)
			}
		}
	}
}

func TestRandomIsConnectedAndTheSameAgain(t *testing.T) {
	for seed := range uint64(20) {
		n := 1 + int(seed)*3
		g := graphs.Random(seed, n, 2*n, 5)
		if !slices.Equal(g.Links(), graphs.Random(seed, n, 2*n, 5).Links()) {
			t.Fatalf("seed %d gives two networks", seed)
		}
		if want := 2 * 2 * n; n > 1 && len(g.Links()) != want {
			t.Errorf("seed %d: %d links, want %d", seed, len(g.Links()), want)
		}
		for _, s := range g.Switches()[1:] {
			if _, ok := g.Shortest(s, g.Switches()[0]); !ok {
				t.Errorf("seed %d: no path from %v to %v", seed, s, g.Switches()[0])
			}
		}
	}
}
