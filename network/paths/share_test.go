package paths

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// complete connects all pairs of n switches. Port p leads to switch p. Costs differ.
func complete(t *testing.T, n int) *Graph {
	t.Helper()
	var switches []openflow.DatapathID
	var links []Link
	for i := range n {
		s := openflow.DatapathID(i + 1)
		switches = append(switches, s)
		for j := range i {
			links = append(links, Both(End{s, of13.Port(j + 1)}, End{openflow.DatapathID(j + 1), of13.Port(s)},
				1+uint32(i*i+7*j)%23)...)
		}
	}
	g, err := NewGraph(switches, links)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A destination keeps its tree, in the same memory, unless the tree uses the link that was removed or added.
func TestUpdateLeavesOthersAlone(t *testing.T) {
	g := complete(t, 16)
	for _, avoid := range []Disjoint{LinkDisjoint, NodeDisjoint} {
		t.Run(avoid.String(), func(t *testing.T) {
			whole, err := Protect(g, g.switches, avoid)
			if err != nil {
				t.Fatal(err)
			}
			kept, all := 0, 0
			for _, cable := range g.links {
				without, err := whole.Update(g.Without(cable.From), g.switches)
				if err != nil {
					t.Fatal(err)
				}
				again, err := without.Update(g, g.switches)
				if err != nil {
					t.Fatal(err)
				}
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
					all++
					if !uses {
						kept++
					}
				}
			}
			if kept < all/4 {
				t.Errorf("%d of %d trees kept: the network shows too little", kept, all)
			}
		})
	}
}
