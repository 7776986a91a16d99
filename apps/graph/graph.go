// Package graph is an example of graph processing: shortest paths between all switches, by hops, which follow each
// change of the links. A vertex is an actor, at its switch, and knows only what its neighbours tell it: their shortest
// paths. When its own change, it tells those that have a link to it. So a change of a link costs messages where paths
// change, and nothing elsewhere, and no actor knows the whole network.
//
// Paths are told whole, so a vertex takes none that leads through itself, and paths that are gone are not found again
// by asking around in circles. It is path-vector routing, as BGP (RFC 4271) without policies. A path that is read while
// changes spread may be an old one. An application that needs paths at one time uses topology.Snapshot and package
// paths; this one installs nothing.
//
//	GET /apps/graph/{switch}: the hops to each switch. GET /apps/graph/{from}/{to}: the switches on a shortest path
package graph

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Name is the name of the application.
const Name = "graph"

const (
	// MaxVertices is how many switches a vertex has paths to. It ignores further ones.
	MaxVertices = 256
	// MaxLinks is how many links may begin and end at a vertex. Further ones are ignored.
	MaxLinks = 512
	// MaxHops is how long a path may be. A switch that is farther away counts as unreachable.
	MaxHops = 64
	// Settle is how long a vertex waits after a change for others, before it looks for shorter paths.
	Settle = 10 * time.Millisecond
)

// path is the switches from one to another, with both.
type path []app.Switch

// told is what a vertex tells one that has a link to it: paths that are new; those that are gone are empty.
type told struct {
	From, To app.Switch
	First    bool // the vertex has told nothing before that counts
	Paths    map[app.Switch]path
}

// found is a link that is up, and lost one that is down. Both ends receive them in the order of the changes, because
// one actor sends them.
type (
	found struct{ topology.Link }
	lost  struct{ topology.Link }
)

// all is the one key of the links.
const all = 0

type vertices struct {
	links  app.Map[uint32, app.PortOf, app.PortOf] // of which the vertices know, in an actor of their own
	degree app.Map[uint32, app.Switch, int]        // how many links begin and end at a vertex

	out   app.Map[app.Switch, app.Port, app.Switch] // links from here
	in    app.Map[app.Switch, app.PortOf, bool]     // links to here, by where they begin
	heard app.Map[app.Switch, string, path]         // what neighbours have told, by the neighbour and the last switch
	best  app.Map[app.Switch, app.Switch, path]     // the shortest paths from here
	again app.Map[app.Switch, app.Switch, bool]     // switches to look for paths to
	waits app.Table[app.Switch, bool]               // a timer is set for that
}

// New returns the application. It needs topology before it in the list of applications.
func New() *app.App {
	a := app.New(Name)
	v := &vertices{
		links:  app.NewMap[uint32, app.PortOf, app.PortOf](a, "links"),
		degree: app.NewMap[uint32, app.Switch, int](a, "degree"),
		out:    app.NewMap[app.Switch, app.Port, app.Switch](a, "out"),
		in:     app.NewMap[app.Switch, app.PortOf, bool](a, "in"),
		heard:  app.NewMap[app.Switch, string, path](a, "heard"),
		best:   app.NewMap[app.Switch, app.Switch, path](a, "best"),
		again:  app.NewMap[app.Switch, app.Switch, bool](a, "again"),
		waits:  app.NewTable[app.Switch, bool](a, "waits"),
	}
	at := func(id app.Switch) app.Cells {
		return app.Need(v.out.Cell(id), v.in.Cell(id), v.heard.Cell(id), v.best.Cell(id), v.again.Cell(id),
			v.waits.Cell(id))
	}
	links := app.Need(v.links.Cell(all), v.degree.Cell(all))
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return links }, v.linkUp)
	app.HandleEmitted(a, func(topology.LinkDown) app.Cells { return links }, v.linkDown)
	app.HandleEmitted(a, func(l found) app.Cells { return at(l.From.Switch) }, v.begins)
	app.HandleEmitted(a, func(l found) app.Cells { return at(l.To.Switch) }, v.arrives)
	app.HandleEmitted(a, func(l lost) app.Cells { return at(l.From.Switch) }, v.ends)
	app.HandleEmitted(a, func(l lost) app.Cells { return at(l.To.Switch) }, v.leaves)
	app.HandleEmitted(a, func(m told) app.Cells { return at(m.To) }, v.hear)
	app.Handle(a, func(t app.Timer) app.Cells { return at(t.Switch) }, v.look)
	from := func(r app.Request) app.Cells {
		id, _ := openflow.ParseDatapathID(r.Values["from"])
		return at(id)
	}
	app.HandleHTTP(a, "GET /{from}", from, v.hops)
	app.HandleHTTP(a, "GET /{from}/{to}", from, v.find)
	return a
}

func (v *vertices) linkUp(tx *app.Tx, l topology.LinkUp) error {
	from, _ := v.degree.Get(tx, all, l.From.Switch)
	to, _ := v.degree.Get(tx, all, l.To.Switch)
	if from >= MaxLinks || to >= MaxLinks {
		return nil
	}
	v.count(tx, l.Link, 1)
	v.links.Put(tx, all, l.From, l.To)
	return app.Emit(tx, found{l.Link})
}

func (v *vertices) linkDown(tx *app.Tx, m topology.LinkDown) error {
	for _, l := range m.Links {
		if _, known := v.links.Get(tx, all, l.From); !known {
			continue
		}
		v.count(tx, l, -1)
		v.links.Delete(tx, all, l.From)
		if err := app.Emit(tx, lost{l}); err != nil {
			return err
		}
	}
	return nil
}

// count adds to the numbers of links at the ends of one.
func (v *vertices) count(tx *app.Tx, l topology.Link, n int) {
	for _, id := range []app.Switch{l.From.Switch, l.To.Switch} {
		was, _ := v.degree.Get(tx, all, id)
		if v.degree.Put(tx, all, id, was+n); was+n == 0 {
			v.degree.Delete(tx, all, id)
		}
	}
}

// begins notes a link from this vertex.
func (v *vertices) begins(tx *app.Tx, l found) error {
	v.out.Put(tx, l.From.Switch, l.From.Port, l.To.Switch)
	return v.reconsider(tx, l.From.Switch, l.To.Switch)
}

// arrives notes a link to this vertex, and tells all its paths to where the link begins.
func (v *vertices) arrives(tx *app.Tx, l found) error {
	id := l.To.Switch
	v.in.Put(tx, id, l.From, true)
	paths := map[app.Switch]path{id: {id}}
	for to, p := range v.best.All(tx, id) {
		paths[to] = p
	}
	return app.Emit(tx, told{id, l.From.Switch, true, paths})
}

// ends forgets a link from this vertex.
func (v *vertices) ends(tx *app.Tx, l lost) error {
	v.out.Delete(tx, l.From.Switch, l.From.Port)
	return v.reconsider(tx, l.From.Switch, l.To.Switch)
}

// leaves forgets a link to this vertex, and what it has told is void if that was the last.
func (v *vertices) leaves(tx *app.Tx, l lost) error {
	v.in.Delete(tx, l.To.Switch, l.From)
	for from := range v.in.All(tx, l.To.Switch) {
		if from.Switch == l.From.Switch {
			return nil
		}
	}
	return app.Emit(tx, told{l.To.Switch, l.From.Switch, true, nil})
}

// key is that of what was heard from a neighbour about a switch.
func key(from, to app.Switch) string { return from.String() + to.String() }

// hear notes what a neighbour has told. It may come before the link is known here.
func (v *vertices) hear(tx *app.Tx, m told) error {
	if m.First {
		if err := v.reconsider(tx, m.To, m.From); err != nil {
			return err
		}
		for k, p := range v.heard.All(tx, m.To) {
			if p[0] == m.From {
				v.heard.Delete(tx, m.To, k)
			}
		}
	}
	for to, p := range m.Paths {
		if len(p) == 0 {
			v.heard.Delete(tx, m.To, key(m.From, to))
		} else {
			v.heard.Put(tx, m.To, key(m.From, to), p)
		}
		v.again.Put(tx, m.To, to, true)
	}
	return v.wait(tx, m.To)
}

// reconsider has a vertex look for paths to all that a neighbour has told of.
func (v *vertices) reconsider(tx *app.Tx, id, neighbour app.Switch) error {
	for _, p := range v.heard.All(tx, id) {
		if p[0] == neighbour {
			v.again.Put(tx, id, p[len(p)-1], true)
		}
	}
	return v.wait(tx, id)
}

// wait sets the timer, unless it is set. So one that hears something all the time looks for paths, too.
func (v *vertices) wait(tx *app.Tx, id app.Switch) error {
	if waits, _ := v.waits.Get(tx, id); waits {
		return nil
	}
	v.waits.Put(tx, id, true)
	return tx.SetTimer("look", Settle, nil)
}

// look finds the shortest paths again that may have changed, and tells the neighbours.
func (v *vertices) look(tx *app.Tx, t app.Timer) error {
	id := t.Switch
	v.waits.Delete(tx, id)
	known := 0
	for range v.best.All(tx, id) {
		known++
	}
	news := map[app.Switch]path{}
	for to := range v.again.All(tx, id) {
		v.again.Delete(tx, id, to)
		was, there := v.best.Get(tx, id, to)
		now := v.shortest(tx, id, to)
		switch {
		case slices.Equal(now, was) || !there && known >= MaxVertices:
			continue
		case now == nil:
			v.best.Delete(tx, id, to)
			known--
		default:
			v.best.Put(tx, id, to, now)
			if !there {
				known++
			}
		}
		news[to] = now
	}
	return v.spread(tx, id, news)
}

// spread tells paths to all that have a link to this vertex.
func (v *vertices) spread(tx *app.Tx, id app.Switch, news map[app.Switch]path) error {
	if len(news) == 0 {
		return nil
	}
	last := app.Switch(0)
	for from := range v.in.All(tx, id) { // in the order of switches
		if from.Switch == last {
			continue
		}
		last = from.Switch
		if err := app.Emit(tx, told{id, last, false, news}); err != nil {
			return err
		}
	}
	return nil
}

// shortest returns the shortest path to a switch, by the lowest neighbour if there are several; nil if there is none.
func (v *vertices) shortest(tx *app.Tx, id, to app.Switch) (best path) {
	if id == to {
		return nil
	}
	next := app.Switch(0)
	for _, n := range v.out.All(tx, id) {
		p, _ := v.heard.Get(tx, id, key(n, to))
		better := best == nil || len(p) < len(best) || len(p) == len(best) && n < next
		if len(p) > 0 && len(p) <= MaxHops && better && !slices.Contains(p, id) {
			best, next = p, n
		}
	}
	if best == nil {
		return nil
	}
	return append(path{id}, best...)
}

func (v *vertices) hops(tx *app.Tx, r app.Request) (app.Response, error) {
	id, err := openflow.ParseDatapathID(r.Values["from"])
	if err != nil {
		return app.BadRequest(err)
	}
	hops := map[string]int{}
	for to, p := range v.best.All(tx, id) {
		hops[to.String()] = len(p) - 1
	}
	return app.JSON(hops, true)
}

func (v *vertices) find(tx *app.Tx, r app.Request) (app.Response, error) {
	id, err := openflow.ParseDatapathID(r.Values["from"])
	if err != nil {
		return app.BadRequest(err)
	}
	to, err := openflow.ParseDatapathID(r.Values["to"])
	if err != nil {
		return app.BadRequest(err)
	}
	p, there := v.best.Get(tx, id, to)
	if !there {
		return app.Response{Status: 404, Body: fmt.Appendf(nil, "switch %s knows no path to %s\n", id, to)}, nil
	}
	list := []string{}
	for _, s := range p {
		list = append(list, s.String())
	}
	return app.JSON(list, true)
}
