package protect

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-sdn/holdfast/network/paths"
)

// On a busy machine a packet may be on its way between two switches while both change, even several times. And links
// are taken for dead wrongly while the plan changes, often for the same reason. With link-disjoint routes no packet is
// lost by that, and with node-disjoint routes none if there are no false alarms.
func TestNoPacketInTransitIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		g, name := random(seed, 12)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 6))
				whole := planOf(t, g, avoid)
				for _, e := range cables(g) {
					h := g.Without(e)
					part := parts(h, Failures{})
					without := updated(t, whole, h, g.Switches(), whole.hosts)
					for _, ns := range [][]*Network{between(t, r, whole, without), between(t, r, without, whole)} {
						for range 4 {
							share := 0.0
							if avoid == paths.LinkDisjoint {
								share = r.Float64()
							}
							f := Failures{Alarms: someAlarms(g, r.Uint64(), share)}
							for p := range only(allPairs(g), func(p pair) bool { return part[p.from] == part[p.to] }) {
								if j := transit(r, ns, p, f); j.Fate != Delivered || j.Mark {
									t.Fatalf("without %v, from %v to %v with %v: %v, marked %v, by %v", e, p.from, p.to,
										f,
										j.Fate, j.Mark, j.Links[:min(len(j.Links), 30)])
								}
							}
						}
					}
				}
			})
		}
	}
}

// transit sends a packet through networks, of which each is the one before after a change: at each hop some may have
// passed.
func transit(r *rand.Rand, ns []*Network, p pair, f Failures) (j Journey) {
	at, i := paths.End{Switch: p.from, Port: hostPort + 1}, r.IntN(len(ns))
	for ns[i].pass(macOf(p.to), &at, f, &j) {
		if i = min(i+r.IntN(3)*r.IntN(3), len(ns)-1); len(j.Links) > 4*len(ns[i].graph.Links()) {
			j.Fate = Looping
			break
		}
	}
	return j
}

// A switch that keeps its old entries, because it is without a controller, may point at a neighbour that points back. A
// packet does not go in a circle between them: it is returned once.
func TestReturnedOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		g, _ := random(seed, 12)
		whole := planOf(t, g, paths.LinkDisjoint)
		for _, e := range cables(g) {
			ns := between(t, rand.New(rand.NewPCG(seed, 7)), whole,
				updated(t, whole, g.Without(e), g.Switches(), whole.hosts))
			first, n := ns[0], ns[len(ns)-1]
			for _, s := range g.Switches() {
				mixed := NewNetwork(g)
				for _, o := range g.Switches() {
					if mixed.switches[o] = n.switches[o]; o == s {
						mixed.switches[o] = first.switches[o]
					}
				}
				for p := range allPairs(g) {
					j := mixed.Follow(macOf(p.to), paths.End{Switch: p.from, Port: hostPort + 1}, Failures{})
					if j.Fate == Looping {
						t.Fatalf("seed %d without %v, switch %v is old: from %v to %v: %v", seed, e, s, p.from, p.to,
							j.Links[:min(len(j.Links), 30)])
					}
				}
			}
		}
	}
}
