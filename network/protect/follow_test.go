package protect

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const hostPort of13.Port = 100

func macOf(s openflow.DatapathID) of13.MAC { return of13.MAC{2, 0, 0, 0, byte(s >> 8), byte(s)} }

// hostsOf attaches a host to each switch.
func hostsOf(g *paths.Graph) (hosts []Host) {
	for _, s := range g.Switches() {
		hosts = append(hosts, Host{macOf(s), paths.End{Switch: s, Port: hostPort}})
	}
	return hosts
}

var roomy = Config{MaxEntries: 1 << 20, MaxGroups: 1 << 20}

func planOf(t testing.TB, g *paths.Graph, avoid paths.Disjoint) *Plan {
	t.Helper()
	routes, err := paths.Protect(g, g.Switches(), avoid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(routes, hostsOf(g), roomy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parts numbers the parts into which the failures split the network. Dead switches are in part -1.
func parts(g *paths.Graph, dead Failures) map[openflow.DatapathID]int {
	next := map[openflow.DatapathID][]openflow.DatapathID{}
	for _, l := range g.Links() {
		if !dead.link(l) {
			next[l.From.Switch] = append(next[l.From.Switch], l.To.Switch)
		}
	}
	part := map[openflow.DatapathID]int{}
	for s := range dead.Switches {
		part[s] = -1
	}
	for i, s := range g.Switches() {
		for todo := []openflow.DatapathID{s}; len(todo) > 0; {
			s, todo = todo[0], todo[1:]
			if _, done := part[s]; !done {
				part[s] = i
				todo = append(todo, next[s]...)
			}
		}
	}
	return part
}

type pair struct{ from, to openflow.DatapathID }

// survive checks that, with these failures, packets of some pairs arrive if there is a path, and are dropped
// otherwise.
func survive(t testing.TB, n *Network, dead Failures, pairs iter.Seq[pair]) {
	t.Helper()
	part := parts(n.graph, dead)
	for p := range pairs {
		want := Dropped
		if part[p.from] == part[p.to] && part[p.to] != -1 {
			want = Delivered
		}
		j := n.Follow(macOf(p.to), paths.End{Switch: p.from, Port: hostPort + 1}, dead)
		if j.Fate != want || want == Delivered && (j.At != paths.End{Switch: p.to, Port: hostPort} || j.Mark) {
			went := paths.Path{Links: j.Links[:min(len(j.Links), 30)]}.Switches()
			t.Fatalf("from %v to %v with %v dead: %v at %v (marked: %v) after %d links, want %v; it went %v", p.from,
				p.to, dead, j.Fate, j.At, j.Mark, len(j.Links), want, went)
		}
	}
}

func allPairs(g *paths.Graph) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for _, to := range g.Switches() {
			for _, from := range g.Switches() {
				if !yield(pair{from, to}) {
					return
				}
			}
		}
	}
}

func only(pairs iter.Seq[pair], which func(pair) bool) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for p := range pairs {
			if which(p) && !yield(p) {
				return
			}
		}
	}
}

// passing lists for each switch the pairs whose packets visit it when nothing is dead.
func passing(n *Network) map[openflow.DatapathID][]pair {
	by := map[openflow.DatapathID][]pair{}
	for p := range allPairs(n.graph) {
		by[p.from] = append(by[p.from], p)
		for _, l := range n.Follow(macOf(p.to), paths.End{Switch: p.from, Port: hostPort + 1}, Failures{}).Links {
			by[l.To.Switch] = append(by[l.To.Switch], p)
		}
	}
	return by
}

// cables returns one end of each cable.
func cables(g *paths.Graph) (ends []paths.End) {
	for _, l := range g.Links() {
		if back, ok := g.From(l.To); !ok || back.To != l.From || l.From.Switch < l.To.Switch {
			ends = append(ends, l.From)
		}
	}
	return ends
}

func cut(e paths.End) Failures { return Failures{Ends: map[paths.End]bool{e: true}} }

// surviveAll checks each single failure that the routes must survive. Packets that visit no switch which notices
// the failure take the same path as before, so they are not followed again.
func surviveAll(t testing.TB, p *Plan) {
	t.Helper()
	n := p.Network()
	survive(t, n, Failures{}, allPairs(n.graph))
	by := passing(n)
	try := func(dead Failures, notice []openflow.DatapathID) {
		t.Helper()
		concerned := map[pair]bool{}
		for _, s := range notice {
			for _, p := range by[s] {
				concerned[p] = true
			}
		}
		survive(t, n, dead, maps.Keys(concerned))
	}
	for _, e := range cables(n.graph) {
		l, _ := n.graph.From(e)
		try(cut(e), []openflow.DatapathID{l.From.Switch, l.To.Switch})
	}
	if p.routes.Avoids() == paths.LinkDisjoint {
		return
	}
	for _, s := range n.graph.Switches() {
		notice := []openflow.DatapathID{s}
		for _, l := range n.graph.Links() {
			if l.From.Switch == s {
				notice = append(notice, l.To.Switch)
			}
		}
		try(Failures{Switches: map[openflow.DatapathID]bool{s: true}}, notice)
	}
}

var modes = []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint}

func TestEverySingleFailureOfThePapersNetworks(t *testing.T) {
	for name, g := range map[string]*paths.Graph{"triangle": graphs.Triangle(), "ring": graphs.Ring(),
		"USNET": graphs.USNET()} {
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) { surviveAll(t, planOf(t, g, avoid)) })
		}
	}
}

// random draws a network between a tree and one with three links for each switch.
func random(seed uint64, most int) (*paths.Graph, string) {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 2 + r.IntN(most-1)
	links := n - 1 + r.IntN(2*n)
	return graphs.Random(seed, n, links, 1+r.Uint32N(10)), fmt.Sprintf("seed=%d,switches=%d,links=%d", seed, n, links)
}

func TestEverySingleFailureOfRandomNetworks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		g, name := random(seed, 60)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) { surviveAll(t, planOf(t, g, avoid)) })
		}
	}
}

// alarms are false ones at both ends of each link, or at those for which which says so.
func alarms(g *paths.Graph, which func(paths.Link) bool) map[paths.End]bool {
	ends := map[paths.End]bool{}
	for _, l := range g.Links() {
		if which(l) {
			ends[l.From] = true
		}
	}
	return ends
}

func everywhere(paths.Link) bool { return true }

// someAlarms draws a share of the ends.
func someAlarms(g *paths.Graph, seed uint64, share float64) map[paths.End]bool {
	r := rand.New(rand.NewPCG(seed, 2))
	return alarms(g, func(paths.Link) bool { return r.Float64() < share })
}

// If each switch takes all its links for dead, packets go the way that they would go without any alarm. If a link is
// really dead beside that, those that need it are dropped there, and none loops.
func TestFalseAlarmsEverywhereLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		g, name := random(seed, 25)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				n := planOf(t, g, avoid).Network()
				all := alarms(g, everywhere)
				for p := range allPairs(g) {
					from := paths.End{Switch: p.from, Port: hostPort + 1}
					calm := n.Follow(macOf(p.to), from, Failures{})
					j := n.Follow(macOf(p.to), from, Failures{Alarms: all})
					if j.Fate != Delivered || !slices.Equal(j.Links, calm.Links) || j.Mark {
						t.Fatalf("from %v to %v: %v by %v, want %v", p.from, p.to, j.Fate, j.Links, calm.Links)
					}
					for _, l := range calm.Links {
						dead := cut(l.From)
						dead.Alarms = all
						if j := n.Follow(macOf(p.to), from, dead); j.Fate != Dropped {
							t.Fatalf("from %v to %v with %v dead: %v by %v", p.from, p.to, l, j.Fate, j.Links)
						}
					}
				}
			})
		}
	}
}

// A false alarm at one link, at both its ends or only one of them, loses nothing.
func TestOneFalseAlarmLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		g, name := random(seed, 15)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				n := planOf(t, g, avoid).Network()
				for _, e := range cables(g) {
					l, _ := g.From(e)
					for _, ends := range []map[paths.End]bool{{l.From: true}, {l.To: true},
						{l.From: true, l.To: true}} {
						survive(t, n, Failures{Alarms: ends}, allPairs(g))
					}
				}
			})
		}
	}
}

// With link-disjoint routes a packet takes at most one backup. So none loops, whatever is dead, and whatever is taken
// for dead that is not; and all arrive if nothing is really dead. With node-disjoint routes a packet may take several,
// so a few may loop, but false alarms alone drop none.
func TestAnyFailuresAndFalseAlarms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		g, name := random(seed, 20)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				n, r := planOf(t, g, avoid).Network(), rand.New(rand.NewPCG(seed, 3))
				for i := range 20 {
					f := Failures{Alarms: someAlarms(g, uint64(i), r.Float64())}
					if i%2 == 0 {
						f.Ends, f.Switches = someAlarms(g, r.Uint64(), 0.3*r.Float64()), map[openflow.DatapathID]bool{}
						f.Switches[g.Switches()[r.IntN(len(g.Switches()))]] = i%4 == 0
					}
					for p := range allPairs(g) {
						j := n.Follow(macOf(p.to), paths.End{Switch: p.from, Port: hostPort + 1}, f)
						if j.Fate == Looping && avoid == paths.LinkDisjoint ||
							j.Fate == Dropped && i%2 == 1 || j.Fate == Delivered && j.Mark {
							t.Fatalf("from %v to %v with %v: %v, marked %v, by %v", p.from, p.to, f, j.Fate, j.Mark,
								j.Links[:min(len(j.Links), 30)])
						}
					}
				}
			})
		}
	}
}
