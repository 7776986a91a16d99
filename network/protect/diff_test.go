package protect

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// apply does what a switch would do, and refuses what a switch would refuse.
func apply(t testing.TB, p Program, c Change) Program {
	t.Helper()
	entries := map[Entry]Entry{} // keyed by what identifies an entry in a switch
	key := func(e Entry) Entry { return Entry{Table: e.Table, Priority: e.Priority, Match: e.Match} }
	groups := map[GroupID]bool{}
	for _, e := range p.Entries {
		entries[key(e)] = e
	}
	for _, g := range p.Groups {
		groups[g] = true
	}
	for _, g := range c.AddGroups {
		if groups[g] {
			t.Fatalf("adds %v, which is there", g)
		}
		groups[g] = true
	}
	put := func(e Entry, there bool) {
		if _, ok := entries[key(e)]; ok != there {
			t.Fatalf("sets %+v: there: %v, expected: %v", e, ok, there)
		}
		if g := e.Action.Group; g != 0 && !groups[g] {
			t.Fatalf("%+v uses %v, which is not there", e, g)
		}
		entries[key(e)] = e
	}
	for _, e := range c.Add {
		put(e, false)
	}
	for _, e := range c.Set {
		put(e, true)
	}
	for _, e := range c.Delete {
		if _, ok := entries[key(e)]; !ok {
			t.Fatalf("deletes %+v, which is not there", e)
		}
		delete(entries, key(e))
	}
	for _, g := range c.DeleteGroups {
		for _, e := range entries {
			if e.Action.Group == g {
				t.Fatalf("deletes %v, which %+v uses", g, e)
			}
		}
		delete(groups, g)
	}
	var out Program
	for _, e := range entries {
		out.Entries = append(out.Entries, e)
	}
	for g := range groups {
		out.Groups = append(out.Groups, g)
	}
	slices.SortFunc(out.Entries, compareEntries)
	slices.Sort(out.Groups)
	return out
}

func samePrograms(a, b Program) bool {
	return slices.Equal(a.Entries, b.Entries) && slices.Equal(a.Groups, b.Groups)
}

// updated returns the plan for another network, made by an update. It must equal a new plan for it.
func updated(t testing.TB, p *Plan, g *paths.Graph, dests []openflow.DatapathID, hosts []Host) *Plan {
	t.Helper()
	routes, err := p.routes.Update(g, dests)
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.Update(routes, hosts)
	if err != nil {
		t.Fatal(err)
	}
	anew, err := paths.Protect(g, dests, p.routes.Avoids())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Compile(anew, hosts, p.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Switches() {
		entries, groups := q.Size(s)
		if a, b := q.Program(s), whole.Program(s); !samePrograms(a, b) || len(a.Entries) != entries ||
			len(a.Groups) != groups {
			t.Fatalf("switch %v: an update has %d entries and %d groups (counted %d and %d), a new plan %d and %d, "+
				"or they are others",
				s, len(a.Entries), len(a.Groups), entries, groups, len(b.Entries), len(b.Groups))
		}
	}
	return q
}

// between returns the network after each switch of each round from one plan to the next, the old one first. The
// switches of a round change in any order.
func between(t testing.TB, r *rand.Rand, old, next *Plan) []*Network {
	t.Helper()
	g := next.routes.Graph()
	if len(old.routes.Graph().Links()) > len(g.Links()) {
		g = old.routes.Graph() // the cables still exist
	}
	n, programs := NewNetwork(g), map[openflow.DatapathID]Program{}
	for _, s := range old.routes.Graph().Switches() {
		programs[s] = old.Program(s)
		n.Install(s, programs[s])
	}
	list := []*Network{n}
	for _, round := range next.Rounds(old) {
		for _, i := range r.Perm(len(round)) {
			c := round[i]
			programs[c.Switch] = apply(t, programs[c.Switch], c.Change)
			n = &Network{g, maps.Clone(n.switches)}
			n.Install(c.Switch, programs[c.Switch])
			list = append(list, n)
		}
	}
	for _, s := range next.routes.Graph().Switches() {
		if !samePrograms(programs[s], next.Program(s)) {
			t.Fatalf("the rounds end at switch %v with %d entries and %d groups, not those of the plan", s,
				len(programs[s].Entries), len(programs[s].Groups))
		}
	}
	return list
}

// pass executes the rounds from one plan to the next, and checks all frames after each switch.
func pass(t testing.TB, r *rand.Rand, old, next *Plan, well func(*Network)) {
	t.Helper()
	for _, n := range between(t, r, old, next)[1:] {
		well(n)
	}
}

// Make before break: every packet arrives while the new routes replace the emergency routes, and while the old ones
// replace the new ones when the link is back.
func TestNoPacketIsLostBetweenPlans(t *testing.T) {
	for seed := range uint64(25) {
		g, name := random(seed, 12)
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				whole := planOf(t, g, avoid)
				for _, e := range cables(g) {
					without := updated(t, whole, g.Without(e), g.Switches(), whole.hosts)
					pass(t, r, whole, without, func(n *Network) { survive(t, n, cut(e), allPairs(g)) })
					part := parts(g, cut(e))
					// the others wait for their routes
					connected := func(p pair) bool { return part[p.from] == part[p.to] }
					pass(t, r, without, updated(t, without, g, g.Switches(), whole.hosts),
						func(n *Network) { survive(t, n, Failures{}, only(allPairs(g), connected)) })
				}
			})
		}
	}
}

// Hosts appear, disappear and move. Switches become destinations and cease to be.
func TestNoPacketIsLostWhenHostsChange(t *testing.T) {
	for seed := range uint64(25) {
		g, name := random(seed, 12)
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			at := func(some []Host) (dests []openflow.DatapathID) {
				for _, h := range some {
					dests = append(dests, h.At.Switch)
				}
				return dests
			}
			few := hostsOf(g)[:1+r.IntN(len(g.Switches()))]
			stay := map[openflow.DatapathID]bool{}
			for _, h := range few {
				stay[h.At.Switch] = true
			}
			routes, err := paths.Protect(g, at(few), modes[seed%2])
			if err != nil {
				t.Fatal(err)
			}
			less, err := Compile(routes, few, roomy)
			if err != nil {
				t.Fatal(err)
			}
			well := func(n *Network) {
				survive(t, n, Failures{}, only(allPairs(g), func(p pair) bool { return stay[p.to] }))
			}
			more := updated(t, less, g, g.Switches(), hostsOf(g))
			pass(t, r, less, more, well)
			pass(t, r, more, updated(t, more, g, at(few), few), well)

			delete(stay, few[0].At.Switch)
			moved := slices.Clone(few)
			moved[0].At = paths.End{Switch: g.Switches()[len(g.Switches())-1], Port: hostPort + 7}
			pass(t, r, less, updated(t, less, g, at(moved), moved), func(n *Network) {
				well(n) // except the host that moves: its frames arrive at the old or at the new port
				for _, from := range g.Switches() {
					if j := n.Follow(moved[0].MAC, paths.End{Switch: from, Port: hostPort + 1},
						Failures{}); j.Fate != Delivered || j.At != moved[0].At && j.At != few[0].At {
						t.Fatalf("from %v to the host that moves from %v to %v: %v at %v", from, few[0].At, moved[0].At,
							j.Fate, j.At)
					}
				}
			})
		})
	}
}

// The kind of protection may change, too.
func TestNoPacketIsLostWhenProtectionChanges(t *testing.T) {
	for seed := range uint64(10) {
		g, name := random(seed, 12)
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			a, b := planOf(t, g, paths.LinkDisjoint), planOf(t, g, paths.NodeDisjoint)
			well := func(n *Network) { survive(t, n, Failures{}, allPairs(g)) }
			pass(t, r, a, b, well)
			pass(t, r, b, a, well)
		})
	}
}

func TestSwitchesComeAndGo(t *testing.T) {
	g := graphs.Random(1, 10, 20, 3)
	r := rand.New(rand.NewPCG(1, 5))
	links := slices.DeleteFunc(slices.Clone(g.Links()),
		func(l paths.Link) bool { return l.From.Switch == 10 || l.To.Switch == 10 })
	h, err := paths.NewGraph(g.Switches()[:9], links)
	if err != nil {
		t.Fatal(err)
	}
	less := planOf(t, h, paths.LinkDisjoint)
	whole := updated(t, less, g, g.Switches(), hostsOf(g))
	staying := func(n *Network) { survive(t, n, Failures{}, allPairs(h)) }
	pass(t, r, less, whole, staying)
	pass(t, r, whole, updated(t, whole, h, h.Switches(), hostsOf(h)), func(*Network) {})
}
