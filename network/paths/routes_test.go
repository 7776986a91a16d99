package paths_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func protect(t interface{ Fatal(...any) }, g *paths.Graph, avoid paths.Disjoint) *paths.Routes {
	r, err := paths.Protect(g, g.Switches(), avoid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// way follows primary ports and, where the primary port is dead, the backup. Its length is bounded, in case the
// path loops.
func way(r *paths.Routes, from, to openflow.DatapathID, dead paths.End) []openflow.DatapathID {
	cable, _ := r.Graph().From(dead)
	way := []openflow.DatapathID{from}
	var in paths.End
	for at := from; at != to && len(way) < 3*len(r.Graph().Switches()); {
		h := r.Hop(to, at)
		out := paths.End{Switch: at, Port: h.Primary}
		switch {
		case in.Port != 0 && in.Port == h.Primary:
			out.Port = h.Crankback
		case out == cable.From || out == cable.To:
			out.Port = h.Backup
		}
		l, ok := r.Graph().From(out)
		if !ok {
			return way
		}
		at, in = l.To.Switch, l.To
		way = append(way, at)
	}
	return way
}

// Section IV-C: the paths in figures 3a and 3b, before and after the failure.
func TestWaysOfThePaper(t *testing.T) {
	const A, B, C, D, E openflow.DatapathID = 1, 2, 3, 4, 5
	end := func(g *paths.Graph, a, b openflow.DatapathID) paths.End {
		for _, l := range g.Links() {
			if l.From.Switch == a && l.To.Switch == b {
				return l.From
			}
		}
		t.Fatalf("no link from %v to %v", a, b)
		return paths.End{}
	}
	triangle, ring := graphs.Triangle(), graphs.Ring()
	for _, c := range []struct {
		name string
		g    *paths.Graph
		to   openflow.DatapathID
		dead paths.End
		want []openflow.DatapathID
	}{
		{"triangle", triangle, C, paths.End{}, []openflow.DatapathID{A, B, C}},
		{"triangle without A-B", triangle, C, end(triangle, A, B), []openflow.DatapathID{A, C}},
		{"triangle without B-C", triangle, C, end(triangle, B, C), []openflow.DatapathID{A, B, A, C}},
		{"ring", ring, E, paths.End{}, []openflow.DatapathID{A, B, C, D, E}},
		{"ring without A-B", ring, E, end(ring, A, B), []openflow.DatapathID{A, E}},
		{"ring without C-D", ring, E, end(ring, C, D), []openflow.DatapathID{A, B, C, B, A, E}},
		{"ring without D-E", ring, E, end(ring, D, E), []openflow.DatapathID{A, B, C, D, C, B, A, E}},
	} {
		for _, avoid := range []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint} {
			if got := way(protect(t, c.g, avoid), A, c.to, c.dead); !slices.Equal(got, c.want) {
				t.Errorf("%s, %v: %v, want %v", c.name, avoid, got, c.want)
			}
		}
	}
}

// Without a failure packets take shortest paths. Unless a switch nearer to the destination determines it, the
// backup is the shortest path without the dead link (section IV-C, extended experiments).
func TestWaysAreShort(t *testing.T) {
	for _, g := range []*paths.Graph{graphs.USNET(), graphs.Random(1, 40, 80, 10), graphs.Random(2, 30, 45, 3)} {
		r := protect(t, g, paths.LinkDisjoint)
		backups, longer := 0, 0
		for _, to := range g.Switches() {
			for _, from := range g.Switches() {
				best, ok := g.Shortest(from, to)
				if !ok {
					continue
				}
				if got := way(r, from, to, paths.End{}); !slices.Equal(got, best.Switches()) {
					t.Fatalf("from %v to %v: %v, want %v", from, to, got, best.Switches())
				}
				dead := paths.End{Switch: from, Port: r.Hop(to, from).Primary}
				around, ok := g.Without(dead).Shortest(from, to)
				if !ok {
					continue
				}
				backups++
				if cost(t, g, way(r, from, to, dead)) > around.Cost {
					longer++
				}
			}
		}
		t.Logf("%d switches, %d links: %d backups of %d are not the shortest", len(g.Switches()), len(g.Links())/2,
			longer, backups)
		if longer*100 > backups {
			t.Errorf("more than one backup of 100 is longer than it must be: %d of %d", longer, backups)
		}
	}
}

// cost returns the cost of the cheapest links between the switches of a path.
func cost(t *testing.T, g *paths.Graph, way []openflow.DatapathID) (sum uint64) {
	for i := range way[1:] {
		best := uint64(0)
		for _, l := range g.Links() {
			if l.From.Switch == way[i] && l.To.Switch == way[i+1] && (best == 0 || uint64(l.Cost) < best) {
				best = uint64(l.Cost)
			}
		}
		if best == 0 {
			t.Fatalf("%v: no link from %v to %v", way, way[i], way[i+1])
		}
		sum += best
	}
	return sum
}

// mutate draws a graph that differs from another one in a few links.
func mutate(t *rapid.T, g *paths.Graph) *paths.Graph {
	links := slices.Clone(g.Links())
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, max(len(links)-1, 0)).Draw(t, "link")
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case kind == 0: // a new cable
			n := len(g.Switches())
			a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-2).Draw(t, "b")
			if b >= a {
				b++
			}
			port := of13.Port(1)
			for _, l := range links {
				port = max(port, l.From.Port+1, l.To.Port+1)
			}
			links = append(links, paths.Both(paths.End{Switch: g.Switches()[a], Port: port},
				paths.End{Switch: g.Switches()[b], Port: port}, rapid.Uint32Range(1, 5).Draw(t, "cost"))...)
		case len(links) == 0:
		case kind == 1: // in one direction only
			links = slices.Delete(links, i, i+1)
		case kind == 2: // a cable is removed
			l := links[i]
			links = slices.DeleteFunc(links, func(m paths.Link) bool {
				return m.From == l.From ||
					m.From == l.To && m.To == l.From
			})
		default:
			links[i].Cost = rapid.Uint32Range(1, 5).Draw(t, "cost")
		}
	}
	h, err := paths.NewGraph(g.Switches(), links)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestUpdateIsWhatProtectReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 14).Draw(t, "switches")
		g := graphs.Random(rapid.Uint64().Draw(t, "seed"), n, rapid.IntRange(n-1, 3*n).Draw(t, "links"),
			rapid.Uint32Range(1, 4).Draw(t, "max cost"))
		avoid := rapid.SampledFrom([]paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint}).Draw(t, "avoid")
		r := protect(t, g, avoid)
		for range 4 {
			g = mutate(t, g)
			var dests []openflow.DatapathID
			for _, s := range g.Switches() {
				if rapid.IntRange(0, 9).Draw(t, "dest") > 0 {
					dests = append(dests, s)
				}
			}
			want, err := paths.Protect(g, dests, avoid)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = r.Update(g, dests); err != nil {
				t.Fatal(err)
			}
			if diff := difference(r, want); diff != "" {
				t.Fatalf("updated and new routes differ %s", diff)
			}
		}
	})
}

// Larger networks, in which a change affects only part of most trees.
func TestUpdatesOfLargerNetworks(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 10 + r.IntN(50)
		whole := graphs.Random(seed, n, n+r.IntN(2*n), 1+r.Uint32N(6))
		for _, avoid := range []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint} {
			routes := protect(t, whole, avoid)
			for range 15 {
				var dead []paths.End
				for range r.IntN(3) {
					dead = append(dead, whole.Links()[r.IntN(len(whole.Links()))].From)
				}
				g := whole.Without(dead...)
				if r.IntN(4) == 0 {
					links := slices.Clone(g.Links())
					links[r.IntN(len(links))].Cost = 1 + r.Uint32N(8)
					var err error
					if g, err = paths.NewGraph(g.Switches(), links); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				if routes, err = routes.Update(g, g.Switches()); err != nil {
					t.Fatal(err)
				}
				if diff := difference(routes, protect(t, g, avoid)); diff != "" {
					t.Fatalf("seed %d, %d switches, %v: updated and new routes differ %s", seed, n, avoid, diff)
				}
			}
		}
	}
}

func TestUpdateWithAnotherSwitch(t *testing.T) {
	g := graphs.Random(1, 10, 20, 3)
	whole := protect(t, g, paths.LinkDisjoint)
	links := slices.DeleteFunc(slices.Clone(g.Links()),
		func(l paths.Link) bool { return l.From.Switch == 10 || l.To.Switch == 10 })
	h, err := paths.NewGraph(g.Switches()[:9], links)
	if err != nil {
		t.Fatal(err)
	}
	less, err := whole.Update(h, h.Switches())
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(less, protect(t, h, paths.LinkDisjoint)); diff != "" {
		t.Error(diff)
	}
	more, err := less.Update(g, g.Switches())
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(more, whole); diff != "" {
		t.Error(diff)
	}
	for _, s := range more.Steps(less) {
		if s.Switch == 10 && s.Old != (paths.Hop{}) || s.Dest == 10 && s.Round != 0 {
			t.Errorf("%+v: switch 10 is new, as a switch and as a destination", s)
		}
	}
}

func TestStepsGoFromTheDestinationOutward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 14).Draw(t, "switches")
		g := graphs.Random(rapid.Uint64().Draw(t, "seed"), n, rapid.IntRange(n-1, 3*n).Draw(t, "links"), 4)
		old := protect(t, g, paths.LinkDisjoint)
		h := mutate(t, g)
		r, err := old.Update(h, h.Switches())
		if err != nil {
			t.Fatal(err)
		}
		type key struct{ dest, at openflow.DatapathID }
		round := map[key]int{}
		for _, s := range r.Steps(old) {
			if s.Old != old.Hop(s.Dest, s.Switch) || s.New != r.Hop(s.Dest, s.Switch) || s.Old == s.New {
				t.Fatalf("%+v: from %+v to %+v", s, old.Hop(s.Dest, s.Switch), r.Hop(s.Dest, s.Switch))
			}
			round[key{s.Dest, s.Switch}] = s.Round
		}
		for _, dest := range h.Switches() {
			for _, at := range h.Switches() {
				mine := round[key{dest, at}]
				if changed := old.Hop(dest, at) != r.Hop(dest, at); changed != (mine > 0) {
					t.Fatalf("to %v at %v: round %d, changed: %v", dest, at, mine, changed)
				}
				for _, s := range way(r, at, dest, paths.End{})[1:] {
					if mine > 0 && round[key{dest, s}] >= mine {
						t.Fatalf("to %v at %v: round %d, and at %v, on the way, round %d", dest, at, mine, s,
							round[key{dest, s}])
					}
				}
			}
		}
	})
}
