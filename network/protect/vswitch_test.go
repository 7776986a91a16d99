package protect

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

var howMany = flag.Int("graphs", someGraphs, "how many random networks of software switches lose each link; those "+
	"beyond the default have up to 200 switches")

const someGraphs = 12

// Switches with these messages forward as the interpreter of the plan does.
func TestSwitchesDoWhatTheInterpreterSays(t *testing.T) {
	for name, g := range map[string]*paths.Graph{
		"triangle": graphs.Triangle(), "ring": graphs.Ring(), "USNET": graphs.USNET(),
		"tree": graphs.Random(4, 9, 8, 3), "random": graphs.Random(5, 15, 24, 5),
	} {
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				p := planOf(t, g, avoid)
				f, n := newFabric(t, p), p.Network()
				for i, e := range append(cables(g), paths.End{}) {
					dead := cut(e)
					dead.Alarms = someAlarms(g, uint64(i), 0.1*float64(i%10))
					f.set(dead, false)
					for pair := range allPairs(g) {
						from := paths.End{Switch: pair.from, Port: hostPort + 1}
						want := n.Follow(macOf(pair.to), from, dead)
						if want.Fate == Looping { // possible with node-disjoint routes and several failures
							continue
						}
						at, frame := f.send(macOf(pair.to), from)
						if at != want.At || at != (paths.End{}) && !slices.Equal(f.way, want.Links) {
							t.Fatalf("from %v to %v with %v dead: at %v by %v, want %v at %v by %v", pair.from, pair.to,
								dead, at, f.way, want.Fate, want.At, want.Links)
						}
						if frame != nil && !want.Mark && !bytes.Equal(frame, frameTo(macOf(pair.to))) {
							t.Fatalf("from %v to %v with %v dead: the frame has become %x", pair.from, pair.to, e,
								frame)
						}
					}
					f.set(dead, true)
				}
			})
		}
	}
}

// crossing lists the pairs whose frames pass each cable when nothing is dead, by either end of the cable, and each
// switch that they visit. The path of a frame depends on the frame, the tables, and the live bits that are read on
// the way. A fast-failover group reads the bits of its buckets in order, up to the first live one. So when nothing
// is dead, only the bits of the ports by which the frame leaves are read. Frames that do not pass a cable take the
// same path when it dies, and need not be sent again.
func (f *fabric) crossing() (links map[paths.End][]pair, switches map[openflow.DatapathID][]pair) {
	links, switches = map[paths.End][]pair{}, map[openflow.DatapathID][]pair{}
	f.survive(Failures{}, func(yield func(pair) bool) {
		for p := range allPairs(f.g) {
			if !yield(p) {
				return
			}
			for _, l := range f.way {
				links[l.From] = append(links[l.From], p)
				links[l.To] = append(links[l.To], p)
				switches[l.To.Switch] = append(switches[l.To.Switch], p)
			}
		}
	})
	return links, switches
}

// surviveAll kills each cable, and each switch if the routes must survive that, and sends frames between all
// affected pairs.
func (f *fabric) surviveAll(avoid paths.Disjoint) (failures, tried int) {
	links, switches := f.crossing()
	try := func(dead Failures, pairs []pair) {
		f.set(dead, false)
		tried += f.survive(dead, slices.Values(pairs))
		f.set(dead, true)
		failures++
	}
	for _, e := range cables(f.g) {
		try(cut(e), links[e])
	}
	if avoid == paths.NodeDisjoint {
		for _, s := range f.g.Switches() {
			try(Failures{Switches: map[openflow.DatapathID]bool{s: true}}, switches[s])
		}
	}
	return failures, tried
}

// Whichever single link (or switch) is dead, frames between any two switches arrive, or are dropped if there is no
// path. They never loop.
func TestEverySingleFailureOnSwitches(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*howMany) {
		most := 60
		if seed >= someGraphs {
			most = 200
		}
		r := rand.New(rand.NewPCG(seed, 7))
		n := 10 + r.IntN(most-9)
		killEach(t, seed, n, n-1+r.IntN(2*n))
	}
}

func TestEverySingleFailureOnManySwitches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	killEach(t, 1, 200, 400)
}

func killEach(t *testing.T, seed uint64, switches, links int) {
	for _, avoid := range modes {
		t.Run(fmt.Sprintf("seed=%d,switches=%d,links=%d/%v", seed, switches, links, avoid), func(t *testing.T) {
			f := newFabric(t, planOf(t, graphs.Random(seed, switches, links, 10), avoid))
			failures, tried := f.surviveAll(avoid)
			t.Logf("%d failures, %d frames", failures, tried)
		})
	}
}

// A link fails, or a switch with node-disjoint routes. The plan for the rest replaces the emergency routes. Then
// the failure is repaired, and the first plan returns. No frame is ever lost, except those of hosts that the
// failure cuts off, which wait for their routes. The switches of a round execute it in any order. The same switches
// are used for one failure after the other. A dead switch gets its rounds, too.
func TestNoFrameIsLostBetweenPlans(t *testing.T) {
	for seed := range uint64(*howMany) {
		r := rand.New(rand.NewPCG(seed, 8))
		n := 4 + r.IntN(9)
		g := graphs.Random(seed, n, n-1+r.IntN(2*n), 10)
		for _, avoid := range modes {
			t.Run(fmt.Sprintf("seed=%d,switches=%d/%v", seed, n, avoid), func(t *testing.T) {
				p := planOf(t, g, avoid)
				f := newFabric(t, p)
				for _, e := range cables(g) {
					p = f.thereAndBack(r, p, cut(e))
				}
				if avoid == paths.NodeDisjoint {
					for _, s := range g.Switches() {
						p = f.thereAndBack(r, p, Failures{Switches: map[openflow.DatapathID]bool{s: true}})
					}
				}
			})
		}
	}
}

// thereAndBack makes something fail and repairs it, with the updates for both, and returns the last plan.
func (f *fabric) thereAndBack(r *rand.Rand, p *Plan, dead Failures) *Plan {
	f.t.Helper()
	var ends []paths.End
	for _, l := range f.g.Links() {
		if dead.link(l) {
			ends = append(ends, l.From)
		}
	}
	part := parts(f.g, dead)
	alive := only(allPairs(f.g), func(p pair) bool { return part[p.from] >= 0 })
	connected := only(allPairs(f.g), func(p pair) bool { return part[p.from] == part[p.to] })

	f.set(dead, false)
	f.survive(dead, alive)
	without := updated(f.t, p, f.g.Without(ends...), f.g.Switches(), p.hosts)
	f.pass(r, without.Rounds(p), func() { f.survive(dead, alive) })

	f.set(dead, true)
	f.survive(Failures{}, connected)
	back := updated(f.t, without, f.g, f.g.Switches(), p.hosts)
	f.pass(r, back.Rounds(without), func() { f.survive(Failures{}, connected) })
	f.survive(Failures{}, allPairs(f.g))
	return back
}

// pass executes rounds, with the switches of each in any order, and checks all frames after each switch.
func (f *fabric) pass(r *rand.Rand, rounds []Round, well func()) {
	f.t.Helper()
	for _, round := range rounds {
		for _, i := range r.Perm(len(round)) {
			f.change(round[i].Switch, round[i].Change)
			well()
		}
	}
}
