package paths_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

func BenchmarkProtect(b *testing.B) {
	g := graphs.Random(1, 1000, 4000, 10)
	for _, avoid := range []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint} {
		b.Run(avoid.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := paths.Protect(g, g.Switches(), avoid); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
