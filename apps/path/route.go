package path

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// hop is a switch on a route.
type hop struct {
	_       struct{} `cbor:",toarray"`
	Switch  app.Switch
	In, Out app.Port
}

// route is a way through the network, and the tag of frames that take it.
//
// If it has a backup, that is one more way, for frames at any switch of Hops whose link is down: back over the switches
// before it to the first one (crankback), and from there over links that Hops has in neither direction. Frames on it
// have a tag of its own.
type route struct {
	_         struct{} `cbor:",toarray"`
	Number    uint64
	Tag       uint16 // 0: it has one hop
	Hops      []hop
	Backup    []hop // from the last switch but one, back to the first switch, to the last one; nil: there is none
	BackupTag uint16
	Bare      string // why there is none
}

// maxTag is the highest VLAN id (IEEE 802.1Q).
const maxTag = 4094

func (v *visit) linkUp(m topology.LinkUp) error {
	v.links.Put(v.tx, all, m.From, whereto{Switch: m.To.Switch, Port: m.To.Port})
	if m.Bidirectional {
		v.reconsider()
	}
	v.networkChanged()
	return nil
}

// reconsider has the paths looked at that are broken.
func (v *visit) reconsider() {
	for id := range v.broken.All(v.tx, all) {
		if _, known := v.todo.Get(v.tx, all, id); !known {
			v.todo.Put(v.tx, all, id, true)
		}
	}
}

func (v *visit) linkDown(m topology.LinkDown) error {
	for _, l := range m.Links {
		if to, _ := v.links.Get(v.tx, all, l.From); to.Switch == l.To.Switch && to.Port == l.To.Port {
			v.links.Delete(v.tx, all, l.From)
		}
		for _, id := range v.tags.All(v.tx, l.To) {
			v.todo.Put(v.tx, all, id, true)
		}
	}
	v.networkChanged()
	return nil
}

// networkChanged makes the graph be computed again, and paths be looked at.
func (v *visit) networkChanged() {
	v.c.Network = rand.Uint64()
	v.await(quiet)
}

// network returns the links that are up in both directions, of switches that are up.
func (v *visit) network() (*paths.Graph, error) {
	if g := &v.graph; g.graph != nil && g.version == v.c.Network {
		return g.graph, nil
	}
	up := map[app.Switch]bool{}
	for id, l := range v.nodes.All(v.tx, all) {
		if l.Up {
			up[id] = true
		}
	}
	links := slices.DeleteFunc(topology.Both(func(yield func(from, to app.PortOf) bool) {
		for from, to := range v.links.All(v.tx, all) {
			if !yield(from, app.PortOf{Switch: to.Switch, Port: to.Port}) {
				return
			}
		}
	}), func(l paths.Link) bool { return !up[l.From.Switch] || !up[l.To.Switch] })
	g, err := paths.NewGraph(slices.Collect(maps.Keys(up)), links)
	if err == nil {
		v.graph.version, v.graph.graph, v.graph.to = v.c.Network, g, map[app.Switch]*paths.Distances{}
	}
	return g, err
}

// find returns the shortest route for a path, without a tag. The error says why there is none.
func (v *visit) find(p *model.Path) (route, error) {
	g, err := v.network()
	if err != nil {
		return route{}, err
	}
	for _, end := range []app.Switch{p.From.Switch, p.To.Switch} {
		if !v.line(end).Up {
			return route{}, fmt.Errorf("switch %v is down or unknown", end)
		}
	}
	if p.From.Switch == p.To.Switch {
		return route{Hops: []hop{{Switch: p.From.Switch, In: p.From.Port, Out: p.To.Port}}}, nil
	}
	way, found := v.shortest(g, p)
	most := MaxHops
	if p.MaxHops > 0 {
		most = p.MaxHops
	}
	switch {
	case !found:
		return route{}, fmt.Errorf("no links lead from switch %v to switch %v: see holdfast show topology",
			p.From.Switch, p.To.Switch)
	case len(way.Links)+1 > most:
		return route{}, fmt.Errorf("the shortest route has %d switches, and at most %d are permitted", len(way.Links)+1,
			most)
	}
	r := route{Hops: hops(p, way)}
	if p.Backup {
		r.protect(p, allowed(g, p), way, most)
	}
	return r, nil
}

// hops are the switches of a way.
func hops(p *model.Path, way paths.Path) (list []hop) {
	list = make([]hop, 0, len(way.Links)+1)
	in := p.From.Port
	for _, l := range way.Links {
		list = append(list, hop{Switch: l.From.Switch, In: in, Out: l.From.Port})
		in = l.To.Port
	}
	return append(list, hop{Switch: p.To.Switch, In: in, Out: p.To.Port})
}

// protect gives a route a backup: the shortest way that avoids its switches, or at least its links.
func (r *route) protect(p *model.Path, g *paths.Graph, way paths.Path, most int) {
	var links []paths.End
	var between []app.Switch
	for i, l := range way.Links {
		if links = append(links, l.From); i > 0 {
			between = append(between, l.From.Switch)
		}
	}
	other, found := g.Without(append(ends(g, between), links...)...).Shortest(p.From.Switch, p.To.Switch)
	if !found || len(other.Links)+1 > most {
		other, found = g.Without(links...).Shortest(p.From.Switch, p.To.Switch)
	}
	switch {
	case !found:
		r.Bare = "there is no second way that shares no link with the route"
		return
	case len(other.Links)+1 > most:
		r.Bare = fmt.Sprintf("the second way has %d switches, and at most %d are permitted", len(other.Links)+1, most)
		return
	}
	for i := len(r.Hops) - 2; i > 0; i-- {
		r.Backup = append(r.Backup, hop{Switch: r.Hops[i].Switch, In: r.Hops[i].Out, Out: r.Hops[i].In})
	}
	last := hops(p, other)
	last[0].In = r.Hops[0].Out
	r.Backup = append(r.Backup, last...)
}

// shortest returns the shortest way for a path.
func (v *visit) shortest(g *paths.Graph, p *model.Path) (paths.Path, bool) {
	if len(p.Avoid) == 0 {
		to, known := v.graph.to[p.To.Switch]
		if !known {
			if len(v.graph.to) == maxDistances {
				clear(v.graph.to)
			}
			to = g.To(p.To.Switch)
			v.graph.to[p.To.Switch] = to
		}
		return to.Shortest(p.From.Switch)
	}
	return allowed(g, p).Shortest(p.From.Switch, p.To.Switch)
}

// allowed returns the links that a path may cross.
func allowed(g *paths.Graph, p *model.Path) *paths.Graph {
	if len(p.Avoid) == 0 {
		return g
	}
	return g.Without(ends(g, p.Avoid)...)
}

// ends are where the links of some switches begin.
func ends(g *paths.Graph, of []app.Switch) (list []paths.End) {
	for _, l := range g.Links() {
		if slices.Contains(of, l.From.Switch) || slices.Contains(of, l.To.Switch) {
			list = append(list, l.From)
		}
	}
	return list
}

// reserve gives a route a number and tags.
func (v *visit) reserve(path uint64, r *route) (err error) {
	if r.Number = v.number(); len(r.Hops) == 1 {
		return nil
	}
	if r.Tag, err = v.reserveTag(path, r.Number, r.Hops[1:]); err != nil || r.Backup == nil {
		return err
	}
	if r.BackupTag, err = v.reserveTag(path, r.Number, r.Backup); err != nil {
		for _, h := range r.Hops[1:] {
			v.tags.Delete(v.tx, h.entrance(), uint32(r.Tag))
		}
	}
	return err
}

// reserveTag takes a tag for the links that lead to some hops, which no other route has there.
func (v *visit) reserveTag(path, number uint64, hops []hop) (uint16, error) {
	for i := range uint64(maxTag) {
		tag := uint32((number+i)%maxTag) + 1
		if slices.ContainsFunc(hops, func(h hop) bool {
			_, taken := v.tags.Get(v.tx, h.entrance(), tag)
			return taken
		}) {
			continue
		}
		for _, h := range hops {
			v.tags.Put(v.tx, h.entrance(), tag, path)
		}
		return uint16(tag), nil
	}
	return 0, fmt.Errorf("no tag is free on all links of the route: at most %d paths can take a link", maxTag)
}

func (h *hop) entrance() app.PortOf { return app.PortOf{Switch: h.Switch, Port: h.In} }

// intact reports whether all links of a route are up.
func (v *visit) intact(r *route) bool { return v.joined(r.Hops) }

// joined reports whether links that are up lead from each hop to the next one.
func (v *visit) joined(hops []hop) bool {
	for i := 1; i < len(hops); i++ {
		to, up := v.links.Get(v.tx, all, app.PortOf{Switch: hops[i-1].Switch, Port: hops[i-1].Out})
		if !up || to.Switch != hops[i].Switch || to.Port != hops[i].In {
			return false
		}
	}
	return true
}

// complete reports whether a route needs no other one: its links are up, and those of the backup that it is to have.
func (v *visit) complete(r *route) bool { return v.intact(r) && v.joined(r.Backup) && r.Bare == "" }
