package paths

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// grid is n rows of n switches; port 1 leads left, 2 right, 3 up and 4 down.
func grid(t *testing.T, n int) *Graph {
	t.Helper()
	var switches []openflow.DatapathID
	var links []Link
	for i := range n * n {
		s := openflow.DatapathID(i + 1)
		switches = append(switches, s)
		if i%n > 0 {
			links = append(links, Both(End{s, 1}, End{s - 1, 2}, 1)...)
		}
		if i >= n {
			links = append(links, Both(End{s, 3}, End{s - openflow.DatapathID(n), 4}, 1)...)
		}
	}
	g, err := NewGraph(switches, links)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A destination keeps its tree, the same memory, unless the link that went or came is in use there, or is of use.
func TestUpdateLeavesOthersAlone(t *testing.T) {
	g := grid(t, 7)
	for _, avoid := range []Disjoint{LinkDisjoint, NodeDisjoint} {
		t.Run(avoid.String(), func(t *testing.T) {
			whole, err := Protect(g, g.switches, avoid)
			if err != nil {
				t.Fatal(err)
			}
			for _, dead := range []End{{1, 2}, {25, 2}, {24, 4}} {
				cable, _ := g.From(dead)
				without, err := whole.Update(g.Without(dead), g.switches)
				if err != nil {
					t.Fatal(err)
				}
				again, err := without.Update(g, g.switches)
				if err != nil {
					t.Fatal(err)
				}
				kept := 0
				for i, d := range g.switches {
					uses := false
					for _, e := range []End{cable.From, cable.To} {
						h := whole.Hop(d, e.Switch)
						uses = uses || h.Primary == e.Port || h.Backup == e.Port || h.Crankback == e.Port
					}
					if same := whole.trees[i] == without.trees[i]; same == uses {
						t.Errorf("without %v: the tree to %v is the same: %v, and used it: %v", cable, d, same, uses)
					}
					if same := without.trees[i] == again.trees[i]; same == uses {
						t.Errorf("with %v again: the tree to %v is the same: %v, and uses it: %v", cable, d, same, uses)
					}
					if !uses {
						kept++
					}
				}
				if kept == 0 {
					t.Errorf("%v is in use everywhere: this shows nothing", cable)
				}
				t.Logf("%v: %d of %d trees kept", cable, kept, len(g.switches))
			}
		})
	}
}
