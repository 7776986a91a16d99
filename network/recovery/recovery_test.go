package recovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

const edgePort app.Port = 9

// build starts a network from a graph, with a host at each switch, and waits until it is protected.
func build(t apptest.Tester, seed uint64, g *paths.Graph, c Config) *world {
	t.Helper()
	w := newWorld(t, seed, c)
	for _, l := range g.Links() {
		w.wires[app.PortOf(l.From)] = app.PortOf(l.To)
	}
	for _, s := range g.Switches() {
		w.start(s, int(edgePort), true)
	}
	w.advance(2 * topology.Interval)
	for _, s := range g.Switches() {
		w.host(macAt(at(s, edgePort)), at(s, edgePort))
	}
	w.advance(time.Second)
	w.check()
	return w
}

// follow sends packets between all hosts while a cable is dead, or is repaired. None may loop, and all must arrive
// if there is a path without the cable.
func (w *world) follow(cable app.PortOf, dead bool) {
	w.t.Helper()
	failures := protect.Failures{Ends: map[paths.End]bool{paths.End(cable): dead}}
	all := w.truth()
	all.links = nil
	for a, b := range w.wires {
		if a.Switch < b.Switch {
			all.addCable(placeOf(a), placeOf(b))
		}
	}
	g, err := paths.NewGraph(all.switches, all.links)
	w.must(err)
	n := protect.NewNetwork(g)
	for id, s := range w.switches {
		n.Install(id, s.program())
	}
	p := parts{}
	for _, l := range g.Links() {
		if l.From != paths.End(cable) && l.To != paths.End(cable) {
			p.join(l.From.Switch, l.To.Switch)
		}
	}
	for _, to := range all.hosts {
		for _, from := range all.hosts {
			j := n.Follow(to.MAC, from.At, failures)
			reach := p.of(to.At.Switch) == p.of(from.At.Switch) && from.At.Switch != to.At.Switch
			if j.Fate == protect.Looping || reach && j.Fate != protect.Delivered {
				w.t.Fatalf("from %v to %v with %v dead (%v): %v, by %v", from.At, to.At, cable, dead, j.Fate,
					paths.Path{Links: j.Links}.Switches())
			}
		}
	}
}

// cables returns one end of each cable.
func cables(g *paths.Graph) (ends []app.PortOf) {
	for _, l := range g.Links() {
		if l.From.Switch < l.To.Switch {
			ends = append(ends, app.PortOf(l.From))
		}
	}
	return ends
}

// A link dies and is repaired. The plan follows, and no packet is lost between one plan and the next.
func TestNoPacketIsLostWhenALinkDiesAndReturns(t *testing.T) {
	for name, g := range map[string]*paths.Graph{"triangle": graphs.Triangle(), "ring": graphs.Ring(),
		"random": graphs.Random(3, 8, 14, 1)} {
		for _, avoid := range []paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint} {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				t.Parallel()
				c := defaults
				c.Disjoint = avoid
				w := build(t, 1, g, c)
				for i, e := range cables(g) {
					dead := true
					w.after = func() {
						w.follow(e, dead)
						if w.steps++; i%3 == 0 && w.steps%37 == 0 { // in the middle of a round
							w.Failover()
						}
					}
					w.setCable(e, false)
					w.advance(time.Second)
					w.check()
					dead = false
					w.setCable(e, true)
					w.advance(2*topology.Interval + c.HoldDown)
					w.check()
				}
			})
		}
	}
}
