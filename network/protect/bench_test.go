package protect

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

func BenchmarkCompile(b *testing.B) {
	g := graphs.Random(1, 1000, 4000, 10)
	r, err := paths.Protect(g, g.Switches(), paths.LinkDisjoint)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := Compile(r, hostsOf(g), roomy)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range g.Switches() {
			p.Program(s)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	g := graphs.Random(1, 1000, 4000, 10)
	for _, avoid := range modes {
		b.Run(avoid.String(), func(b *testing.B) {
			p := planOf(b, g, avoid)
			ends := cables(g)
			i := 0
			for b.Loop() {
				h := g.Without(ends[i%len(ends)])
				i += 37
				r, err := p.Routes().Update(h, h.Switches())
				if err != nil {
					b.Fatal(err)
				}
				q, err := p.Update(r, p.hosts)
				if err != nil {
					b.Fatal(err)
				}
				if len(q.Rounds(p)) == 0 {
					b.Fatal("nothing changes without a link")
				}
			}
		})
	}
}
