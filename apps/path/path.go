// Package path is the path manager: it installs rules for the whole network. A path brings the frames of a class from
// one port to another, over as many switches as that takes.
//
// A path is there as a whole or not at all. The entry at the switch where it begins is installed last, when all other
// switches have confirmed theirs, and is removed first. If a switch refuses its entry or is down, everything that was
// installed is taken back. When a link or a switch on the way goes down, another route is installed beside the old one,
// then the first switch is changed over with one entry, and then the old route is removed. The first switch gives each
// frame a tag (VLAN id) that stands for the route, the last one takes it away, and those between know the tag only. So
// a frame takes one route from its beginning to its end (per-packet consistency), and no route has a loop.
//
// A path that is to have a backup gets a second route with the first one, over other links. A switch whose link is down
// sends frames back to the first switch, which sends them by the second route: no controller is needed for that. Then
// the path is installed anew as above, with a new backup.
//
// The entries belong to package node, which also tells when switches have confirmed them. Links come from package
// topology. This package does not move a path that works to a shorter route.
//
//	PUT, GET, DELETE /apps/path/paths/{name}: a Definition; the answers are a View
//	PUT /apps/path/paths: up to 256 Definitions, by name; the answer is a State for each
//	GET /apps/path/paths?after=NAME: up to 1,000 views, by name
//
// Other applications use model.AddPath, model.AddPaths and model.RemovePath, and are told with model.PathState.
package path

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// Name is the name of the application.
const Name = "path"

// Bounds. A path that would exceed one is refused.
const (
	MaxPaths = 65_536
	MaxHops  = 64     // switches that a path crosses
	MaxQueue = 16_384 // changes of entries that wait for a switch; removals and new routes of paths may exceed it
)

// How long things wait.
const (
	// drain is how long a route stays installed that no new frame takes. Open vSwitch confirms a change before its
	// datapath has forgotten the old entry, which takes half a second at most.
	drain = time.Second
	quiet = 20 * time.Millisecond // after a change of the network, for others that come with it
)

// Bounds of one transaction. What is beyond them follows in the next one.
const (
	maxTurn  = 64  // paths or routes
	maxLines = 512 // switches that get something
)

// Names of timers.
const (
	timerDrain = "drain"
	timerTurn  = "turn"
)

// all is the key of maps with one cell.
const all uint32 = 0

type manager struct {
	counters app.Table[uint32, counters]
	paths    app.Table[uint64, *row]              // by their numbers; not to be modified: see load
	enters   app.Table[uint64, uint64]            // the rows of ops by which Next of a path lets frames enter; see load
	names    app.Map[uint32, string, uint64]      // numbers of paths, by name
	nodes    app.Map[uint32, app.Switch, line]    // switches that were up once
	ops      app.Map[app.Switch, uint64, []byte]  // that a switch has not confirmed, in their order, many in each
	tags     app.Map[app.PortOf, uint32, uint64]  // that frames have which enter by a port: of which path
	links    app.Map[uint32, app.PortOf, whereto] // by where they begin, one direction each
	drains   app.Map[uint32, uint64, retired]     // routes that frames may still be on, in the order of their ends
	todo     app.Map[uint32, uint64, bool]        // paths that are to be looked at
	broken   app.Map[uint32, uint64, bool]        // paths that wait for the network to change
	gone     app.Map[uint32, app.Switch, bool]    // switches that were forgotten

	graph struct { // derived from links and nodes
		version uint64
		graph   *paths.Graph
		to      map[app.Switch]*paths.Distances // at most maxDistances of them
	}
	needs app.Cells

	// Memory that is used again, since handlers run one after the other: for ops that are read, and of lists of lines.
	some  []op
	fresh [][]op // at most maxFresh
}

// maxFresh bounds the lists of ops that are kept, which have about maxRow each.
const maxFresh = 64

// maxKnown bounds the paths that are kept in memory: those that are being installed are read several times. A path has
// two numbers.
const maxKnown = 2 * 8192

// maxDistances bounds the switches of which the distances of all others are kept. One more begins anew.
const maxDistances = 256

// counters is what there is once.
type counters struct {
	_       struct{} `cbor:",toarray"`
	Paths   int
	Last    uint64 // number of a path or route; they are never used again
	Network uint64 // another one for each state of links and nodes; random, so that a graph which was kept is of it
	Turn    int64  // when the next turn is due; 0: its timer is not set
}

type whereto struct {
	_      struct{} `cbor:",toarray"`
	Switch app.Switch
	Port   app.Port
}

// New returns the application. It needs topology and node.
func New() *app.App {
	a := app.New(Name).Whole()
	m := &manager{
		counters: app.NewTable[uint32, counters](a, "counters"),
		paths:    app.NewTable[uint64, *row](a, "paths", app.Remembers(maxKnown)),
		enters:   app.NewTable[uint64, uint64](a, "enters"),
		names:    app.NewMap[uint32, string, uint64](a, "names"),
		nodes:    app.NewMap[uint32, app.Switch, line](a, "nodes"),
		ops:      app.NewMap[app.Switch, uint64, []byte](a, "ops"),
		tags:     app.NewMap[app.PortOf, uint32, uint64](a, "tags"),
		links:    app.NewMap[uint32, app.PortOf, whereto](a, "links"),
		drains:   app.NewMap[uint32, uint64, retired](a, "drains"),
		todo:     app.NewMap[uint32, uint64, bool](a, "todo"),
		broken:   app.NewMap[uint32, uint64, bool](a, "broken"),
		gone:     app.NewMap[uint32, app.Switch, bool](a, "gone"),
	}
	m.needs = app.Whole(m.counters, m.paths, m.enters, m.names, m.nodes, m.ops, m.tags, m.links, m.drains, m.todo,
		m.broken, m.gone)
	app.Handle(a, needs[app.Timer](m), within(m, (*visit).timer))
	app.HandleEmitted(a, needs[topology.LinkUp](m), within(m, (*visit).linkUp))
	app.HandleEmitted(a, needs[topology.LinkDown](m), within(m, (*visit).linkDown))
	app.HandleEmitted(a, needs[model.NodeUp](m), within(m, (*visit).nodeUp))
	app.HandleEmitted(a, needs[model.NodeDown](m), within(m, (*visit).nodeDown))
	app.HandleEmitted(a, needs[model.NodeForgotten](m), within(m, (*visit).nodeForgotten))
	app.HandleEmitted(a, needs[model.Changed](m), within(m, (*visit).changed))
	app.HandleEmitted(a, needs[model.Removed](m), within(m, (*visit).removed))
	app.HandleEmitted(a, needs[model.AddPath](m), within(m, (*visit).addPath))
	app.HandleEmitted(a, needs[model.AddPaths](m), within(m, (*visit).addPaths))
	app.HandleEmitted(a, needs[model.RemovePath](m), within(m, (*visit).removePath))
	m.serve(a)
	return a
}

// needs is the map function of all handlers: a path may need any cell.
func needs[M any](m *manager) func(M) app.Cells {
	return func(M) app.Cells { return m.needs }
}

// visit is one run of a handler.
type visit struct {
	*manager
	tx    *app.Tx
	c     counters
	lines map[app.Switch]*kept // of switches for which something may wait now
	flows int                  // entries that switches are sent now
	err   error
}

// within makes a handler. At its end, switches get what waits for them.
func within[M any](m *manager, run func(*visit, M) error) func(*app.Tx, M) error {
	return func(tx *app.Tx, msg M) error {
		v := m.begin(tx)
		return errors.Join(run(v, msg), v.end())
	}
}

func (m *manager) begin(tx *app.Tx) *visit {
	v := &visit{manager: m, tx: tx, lines: map[app.Switch]*kept{}}
	v.c, _ = m.counters.Get(tx, all)
	return v
}

func (v *visit) end() error {
	for _, id := range slices.Sorted(maps.Keys(v.lines)) {
		l := v.lines[id]
		v.write(id, l)
		if v.send(id, l); l.line != l.was {
			v.nodes.Put(v.tx, all, id, l.line)
		}
	}
	if before, _ := v.counters.Get(v.tx, all); before != v.c {
		v.counters.Put(v.tx, all, v.c)
	}
	return v.err
}

// number returns a number that nothing has had.
func (v *visit) number() uint64 {
	v.c.Last++
	return v.c.Last
}

func (v *visit) fail(err error) { v.err = errors.Join(v.err, err) }

func (v *visit) set(timer string, after time.Duration) { v.fail(v.tx.SetTimer(timer, after, nil)) }

func (v *visit) timer(m app.Timer) error {
	switch m.Name {
	case timerDrain:
		v.drained()
	case timerTurn:
		v.c.Turn = 0
		v.resume()
		if v.turn() {
			v.c.Turn = 0 // sooner than what has been found needs
			v.await(1)
		}
	}
	return nil
}
