// Package kandoo moves elephant flows to paths with fewer of them, as the example of Kandoo (Hassas Yeganeh and
// Ganjali, HotSDN 2012). It runs beside an application that forwards by flow entries with the ingress port and both
// Ethernet addresses, such as valiant, or before one that has no such entries, such as recovery: see measure.go. It has
// two parts:
//
//   - An actor at each switch asks for the counters of its flow entries once a second, and finds the flows that have
//     grown by Threshold. That is frequent and local: it stays in the group of the switch (detect.go).
//   - One actor, the root, hears only of elephants. It knows the links, and gives each elephant the one of the shortest
//     paths whose links have the fewest of them (this file).
//
// The entries of a path are installed at all switches but the first, and when these have confirmed them, at the first.
// So a frame takes the old path or the new one. When the flow is small again, or the path is cut, its entries are
// removed, and the application that forwards has it again.
//
// A path that is not confirmed within patience is chosen again: the group of a switch forgets who has sent a command
// when it has 1,024 newer transactions from other groups, and then the answer does not arrive.
//
// It measures no loss and no delay, and does not know how large links are.
//
//	GET /apps/kandoo/elephants: a list of Elephant
package kandoo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name and NameCentral are the names of the application, as New and NewCentral return it.
const Name, NameCentral = "kandoo", "kandoo-central"

// Cookie is that of all flow entries of this package, in the upper half. The lower half is a number of the path.
const Cookie uint64 = 0x68666b64 << 32 // "hfkd"

const (
	// MaxElephants bounds those that are on paths of their own. Others stay where they are.
	MaxElephants = 256
	// MaxWays is how many of the shortest paths between two switches are compared.
	MaxWays = 4

	priority = 200 // above those of applications that forward
)

// Elephant is a flow, as GET shows it.
type Elephant struct {
	Flow string   `json:"flow"`           // the match of its entries
	From string   `json:"from"`           // the switch and port where it enters the network
	Rate uint64   `json:"rate"`           // bytes in a second, when it became one
	Path []string `json:"path,omitempty"` // the switches and ports by which it leaves them; none: it stays where it is
}

// elephant is a flow that the root knows.
type elephant struct {
	grown
	Path    []app.PortOf // by where it leaves each switch; empty: none of its own
	In      []app.Port   // by where it enters each switch
	Number  uint32       // of the path
	Waits   []barrier    // for the switches but the first
	Started bool         // the first has its entry
}

// barrier is a request whose reply says that a switch has its entry.
type barrier struct {
	Switch app.Switch
	XID    uint32
}

// ofPath begins the names of the root's timers. Those of switches are datapath ids.
const ofPath = "path "

// timer is the name of the timer that runs until the path is confirmed.
func (e *elephant) timer() string { return fmt.Sprint(ofPath, e.Number) }

// all is the one cell of each table of the root.
const all = 0

type kandoo struct {
	links     app.Map[uint32, app.PortOf, app.PortOf] // of the root, as the next ones
	hosts     app.Map[uint32, app.MAC, app.PortOf]
	elephants app.Map[uint32, string, elephant] // by flow

	raised   app.Map[app.Switch, string, bool] // at each switch: flows that are elephants, by key
	readings map[app.Switch]*reading           // likewise, in memory
}

// New returns the application. It needs topology before it in the list of applications.
func New() *app.App { return newApp(Name) }

// NewCentral returns the application with everything in one actor, to which all counters of all switches go: the naive
// traffic engineering of Beehive's paper (sections 2 and 5), to compare. The only difference is an option of a table.
func NewCentral() *app.App { return newApp(NameCentral, app.Together) }

func newApp(name string, detection ...app.TableOption) *app.App {
	a := app.New(name)
	k := &kandoo{
		links:     app.NewMap[uint32, app.PortOf, app.PortOf](a, "links"),
		hosts:     app.NewMap[uint32, app.MAC, app.PortOf](a, "hosts"),
		elephants: app.NewMap[uint32, string, elephant](a, "elephants"),
		raised:    app.NewMap[app.Switch, string, bool](a, "raised", detection...),
		readings:  map[app.Switch]*reading{},
	}
	root := app.Need(k.links.Cell(all), k.hosts.Cell(all), k.elephants.Cell(all))
	app.HandleEmitted(a, func(topology.LinkUp) app.Cells { return root }, k.linkUp)
	app.HandleEmitted(a, func(topology.LinkDown) app.Cells { return root }, k.linkDown)
	app.HandleEmitted(a, func(topology.HostSeen) app.Cells { return root }, k.hostSeen)
	app.HandleEmitted(a, func(topology.HostGone) app.Cells { return root }, k.hostGone)
	app.HandleEmitted(a, func(grown) app.Cells { return root }, k.grown)
	app.HandleEmitted(a, func(shrunk) app.Cells { return root }, k.shrunk)
	app.Handle(a, func(app.BarrierReply) app.Cells { return root }, k.confirmed)
	app.Handle(a, func(m app.Timer) app.Cells {
		if strings.HasPrefix(m.Name, ofPath) {
			return root
		}
		return app.Need(k.raised.Cell(polled(m)))
	}, k.timer)
	app.Handle(a, func(app.Refused) app.Cells { return root }, k.refused)
	app.Handle(a, func(app.SwitchForgotten) app.Cells { return root }, k.switchForgotten)
	app.HandleHTTP(a, "GET /elephants", func(app.Request) app.Cells { return root }, k.list)
	k.detect(a)
	// Behind the handler of the switch's actor, which removes entries. An emitted message would not do: by the event,
	// the ledger knows for which epoch of the switch the root's commands are.
	app.Handle(a, func(app.SwitchUp) app.Cells { return root }, k.fresh)
	return a
}

// linkUp chooses again for the elephants that have no path. Others keep theirs, because a change may lose frames.
func (k *kandoo) linkUp(tx *app.Tx, l topology.LinkUp) error {
	k.links.Put(tx, all, l.From, l.To)
	if !l.Bidirectional {
		return nil
	}
	return k.again(tx, func(e *elephant) bool { return len(e.Path) == 0 })
}

// linkDown moves the elephants of links to other paths.
func (k *kandoo) linkDown(tx *app.Tx, m topology.LinkDown) error {
	for _, l := range m.Links {
		k.links.Delete(tx, all, l.From)
	}
	return k.again(tx, func(e *elephant) bool {
		return slices.ContainsFunc(m.Links, func(l topology.Link) bool { return slices.Contains(e.Path, l.From) })
	})
}

// hostSeen moves the elephants to a host that has moved, or that was not known yet.
func (k *kandoo) hostSeen(tx *app.Tx, h topology.HostSeen) error {
	was, known := k.hosts.Get(tx, all, h.MAC)
	k.hosts.Put(tx, all, h.MAC, h.At)
	if known && was == h.At {
		return nil
	}
	if known {
		k.unmeasure(tx, was.Switch, of13.Match(nil).WithEthSrc(h.MAC))
	}
	k.measure(tx, h.MAC, h.At, !known)
	return k.again(tx, func(e *elephant) bool { return e.Dst == h.MAC })
}

func (k *kandoo) hostGone(tx *app.Tx, gone topology.HostGone) error {
	for _, mac := range gone.Hosts {
		k.unmeasureAll(tx, mac)
		k.hosts.Delete(tx, all, mac)
	}
	return k.again(tx, func(e *elephant) bool { return slices.Contains(gone.Hosts, e.Dst) })
}

// again chooses the paths of some elephants again.
func (k *kandoo) again(tx *app.Tx, which func(*elephant) bool) error {
	for key, e := range k.elephants.All(tx, all) {
		if which(&e) {
			k.withdraw(tx, &e)
			if err := k.route(tx, key, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// grown is told of a flow at each switch that it passes. The one where it enters the network counts.
func (k *kandoo) grown(tx *app.Tx, g grown) error {
	n := 0
	for range k.elephants.All(tx, all) {
		n++
	}
	if _, known := k.elephants.Get(tx, all, g.key()); known || n >= MaxElephants {
		return nil
	}
	for _, to := range k.links.All(tx, all) {
		if to == g.At {
			return nil
		}
	}
	return k.route(tx, g.key(), elephant{grown: g})
}

func (k *kandoo) shrunk(tx *app.Tx, s shrunk) error {
	if e, known := k.elephants.Get(tx, all, s.Key); known {
		k.withdraw(tx, &e)
		k.elephants.Delete(tx, all, s.Key)
	}
	return nil
}

// fresh forgets what a switch had that has come up: it has no entries of this package, and finds its elephants again.
func (k *kandoo) fresh(tx *app.Tx, up app.SwitchUp) error {
	k.forget(tx, up.Switch)
	for mac, at := range k.hosts.All(tx, all) {
		if at.Switch == up.Switch {
			k.measure(tx, mac, at, false)
		}
	}
	return k.again(tx, func(e *elephant) bool {
		return slices.ContainsFunc(e.Path, func(p app.PortOf) bool { return p.Switch == up.Switch })
	})
}

func (k *kandoo) switchForgotten(tx *app.Tx, m app.SwitchForgotten) error {
	k.forget(tx, m.Switch)
	return nil
}

// forget forgets the elephants that enter the network at a switch.
func (k *kandoo) forget(tx *app.Tx, id app.Switch) {
	for key, e := range k.elephants.All(tx, all) {
		if e.At.Switch == id {
			k.withdraw(tx, &e)
			k.elephants.Delete(tx, all, key)
		}
	}
}

// route gives an elephant the path with the fewest others, and writes it.
func (k *kandoo) route(tx *app.Tx, key string, e elephant) error {
	k.elephants.Delete(tx, all, key) // so that it does not count
	way, to, err := k.choose(tx, &e)
	if err != nil {
		return err
	}
	e.Path, e.In, e.Waits, e.Started, e.Number = nil, nil, nil, false, rand.Uint32()|1
	if len(way) > 0 {
		e.In = append(e.In, e.At.Port)
		for _, l := range way {
			e.Path, e.In = append(e.Path, app.PortOf(l.From)), append(e.In, l.To.Port)
		}
		e.Path = append(e.Path, to)
		_ = tx.SetTimer(e.timer(), patience, []byte(key)) // if there is no room, a lost answer is not noticed
		for i := range e.Path[1:] {
			k.install(tx, &e, i+1)
			e.Waits = append(e.Waits, barrier{e.Path[i+1].Switch, tx.Send(e.Path[i+1].Switch, &of13.BarrierRequest{})})
		}
	}
	k.elephants.Put(tx, all, key, e)
	return nil
}

// choose returns the one of the shortest paths of an elephant whose links have the fewest others, and where it ends.
func (k *kandoo) choose(tx *app.Tx, e *elephant) (best []paths.Link, to app.PortOf, err error) {
	to, known := k.hosts.Get(tx, all, e.Dst)
	if !known {
		return nil, to, nil
	}
	links := topology.Both(k.links.All(tx, all))
	var switches []app.Switch
	for _, l := range links {
		switches = append(switches, l.From.Switch)
	}
	g, err := paths.NewGraph(switches, links)
	if err != nil {
		return nil, to, fmt.Errorf("graph of the network: %w", err)
	}
	load := map[app.PortOf]int{}
	for _, other := range k.elephants.All(tx, all) {
		for _, p := range other.Path {
			load[p]++
		}
	}
	least := 0
	ways := g.KShortest(e.At.Switch, to.Switch, MaxWays)
	for _, way := range ways {
		most := 0
		for _, l := range way.Links {
			most = max(most, load[app.PortOf(l.From)])
		}
		if way.Cost == ways[0].Cost && (best == nil || most < least) {
			best, least = way.Links, most
		}
	}
	return best, to, nil
}

// install has one switch of the path forward the elephant.
func (k *kandoo) install(tx *app.Tx, e *elephant, i int) {
	out := e.Path[i].Port
	if out == e.In[i] {
		out = of13.PortInPort
	}
	tx.FlowMod(e.Path[i].Switch, of13.FlowMod{Priority: priority, Cookie: Cookie | uint64(e.Number),
		BufferID: of13.NoBuffer, Match: e.at(e.In[i]), Instructions: of13.Instructions(nil).Apply(
			of13.Actions(nil).Outputs(out))})
}

// withdraw removes the entries of an elephant, by their match because OpenFlow 1.0 has no mask for a cookie. If a host
// has moved, the elephant from where it is now has the same match, and its entries are installed again.
func (k *kandoo) withdraw(tx *app.Tx, e *elephant) {
	tx.CancelTimer(e.timer())
	gone := map[app.PortOf]bool{}
	for i, p := range e.Path {
		gone[app.PortOf{Switch: p.Switch, Port: e.In[i]}] = true
		tx.FlowMod(p.Switch, of13.FlowMod{Command: of13.FlowDeleteStrict, Priority: priority, Match: e.at(e.In[i]),
			TableID: of13.TableAll, Cookie: Cookie | uint64(e.Number), BufferID: of13.NoBuffer,
			OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	}
	for _, other := range k.elephants.All(tx, all) {
		if other.Number == e.Number || !slices.Equal(other.Match, e.Match) {
			continue
		}
		for i, p := range other.Path {
			if gone[app.PortOf{Switch: p.Switch, Port: other.In[i]}] && (i > 0 || other.Started) {
				k.install(tx, &other, i)
			}
		}
	}
}

// refused leaves an elephant where it is when a switch refuses its entry, for example because the table is full. It
// gets a path when a link comes up.
func (k *kandoo) refused(tx *app.Tx, m app.Refused) error {
	command, err := of13.Decode(m.Command)
	f, is := command.(*of13.FlowMod)
	if err != nil || !is || f.Command != of13.FlowAdd {
		return nil
	}
	for key, e := range k.elephants.All(tx, all) {
		if f.Cookie == Cookie|uint64(e.Number) {
			k.withdraw(tx, &e)
			e.Path, e.In, e.Waits, e.Started = nil, nil, nil, false
			k.elephants.Put(tx, all, key, e)
		}
	}
	return nil
}

// confirmed lets an elephant take its path when all other switches of it have their entries.
func (k *kandoo) confirmed(tx *app.Tx, m app.BarrierReply) error {
	for key, e := range k.elephants.All(tx, all) {
		i := slices.Index(e.Waits, barrier{m.Switch, m.XID})
		if i < 0 {
			continue
		}
		if e.Waits = slices.Delete(slices.Clone(e.Waits), i, i+1); len(e.Waits) == 0 {
			k.install(tx, &e, 0)
			e.Started = true
			tx.CancelTimer(e.timer())
		}
		k.elephants.Put(tx, all, key, e)
		return nil
	}
	return nil
}

// late gives an elephant whose path was not confirmed another one, or the same.
func (k *kandoo) late(tx *app.Tx, t app.Timer) error {
	e, known := k.elephants.Get(tx, all, string(t.Data))
	if !known || e.timer() != t.Name {
		return nil
	}
	k.withdraw(tx, &e)
	return k.route(tx, string(t.Data), e)
}

func text(p app.PortOf) string { return fmt.Sprintf("%s:%d", p.Switch, p.Port) }

func (k *kandoo) list(tx *app.Tx, _ app.Request) (app.Response, error) {
	list := []Elephant{}
	for _, e := range k.elephants.All(tx, all) {
		shown := Elephant{Flow: of13.Match(e.Match).String(), From: text(e.At), Rate: e.Rate}
		for _, p := range e.Path {
			if e.Started {
				shown.Path = append(shown.Path, text(p))
			}
		}
		list = append(list, shown)
	}
	return app.JSON(list, true)
}
