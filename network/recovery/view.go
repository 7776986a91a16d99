package recovery

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/reconcile"
)

// View is how the network is protected at one time. Everything in it is ordered.
type View struct {
	// The plan that the switches hold; while Changing, the one that is being replaced.
	Disjoint paths.Disjoint
	Graph    *paths.Graph
	Hosts    []protect.Host

	Addresses map[app.MAC][]netip.Addr // of all known hosts, also at switches that are down

	Changing bool
	Round    int // counted from 1, of Change.Rounds
	Change   Change

	Last    Change    // the last finished one
	Due     time.Time // when the next plan will be made; zero if nothing has changed
	Problem string    // why no plan of the current network could be made

	Switches []SwitchView
	Held     []HeldLink
	Dark     []Cable  // in the plan although BFD takes them for dead: nothing else joins their switches
	Unheard  []Cable  // assumed to work: a switch at one end is down
	LeftOut  []string // what did not fit into the plan
}

// Change is from one plan to the next.
type Change struct {
	Began   time.Time
	Took    time.Duration // once it is over
	Compile time.Duration // in the controller
	Rounds  int
	Why     string // the first cause
	More    int    // number of further causes
}

// Cable is two ends that are linked.
type Cable struct{ A, B app.PortOf }

// HeldLink is a cable that is back, and is not used until it has been stable for a time.
type HeldLink struct {
	Cable
	Until time.Time
}

// SwitchView is a switch.
type SwitchView struct {
	ID     app.Switch
	Up     bool // else it is assumed to forward as before
	InSync bool // it holds its part of the plan, as far as is known
	Since  time.Time

	Checked          time.Time // zero: never
	Found            reconcile.Result
	PutBack, Removed uint64 // by all checks, without those after it came up

	Failed         time.Time // zero: not since the last check
	Error, Command string
}

// Stable reports whether the switches that are up hold the plan, and no change is pending.
func (v *View) Stable() bool {
	return !v.Changing && v.Due.IsZero() && v.Problem == "" && len(v.Held) == 0 &&
		!slices.ContainsFunc(v.Switches, func(s SwitchView) bool { return s.Up && !s.InSync })
}

// Plan compiles the plan that the switches hold, with the program of each. Tables are numbered as without other
// applications before this one.
func (v *View) Plan() (*protect.Plan, error) {
	return compile(nil, network{avoid: v.Disjoint, switches: v.Graph.Switches(), links: v.Graph.Links(),
		hosts: v.Hosts}, 0)
}

// Of makes a view of the application's tables, whose rows may come in any order.
func Of(rows iter.Seq[ledger.Row]) (*View, error) {
	t, err := read(rows)
	if err != nil {
		return nil, err
	}
	return t.view()
}

// tables is the state while tables are read.
type tables struct {
	st        state
	switches  map[app.Switch]switchRow
	behind    map[app.Switch]bool
	links     []link
	hosts     []app.MAC
	addrs     map[app.MAC][]netip.Addr
	installed network
	aim       map[app.PortOf]bool // ends of the links of the target
}

func read(rows iter.Seq[ledger.Row]) (*tables, error) {
	t := tables{switches: map[app.Switch]switchRow{}, behind: map[app.Switch]bool{}, addrs: map[app.MAC][]netip.Addr{},
		aim: map[app.PortOf]bool{}}
	d := tablesOf(app.New(Name))
	err := app.Read(rows,
		d.state.Each(func(_ uint32, st state) { t.st = st }),
		d.switches.Each(func(_ uint32, id app.Switch, row switchRow) { t.switches[id] = row }),
		d.todo.Each(func(_ uint32, id app.Switch, _ todo) { t.behind[id] = true }),
		d.links.Each(func(_ uint32, port app.PortOf, l link) {
			if l.A.portOf() == port {
				t.links = append(t.links, l)
			}
		}),
		d.hosts.Each(func(_ uint32, mac app.MAC, _ place) { t.hosts = append(t.hosts, mac) }),
		d.addrs.Each(func(_ uint32, mac app.MAC, list []netip.Addr) { t.addrs[mac] = list }),
		d.planSwitches.Each(func(plan uint32, id app.Switch, _ uint16) {
			if plan == installed {
				t.installed.switches = append(t.installed.switches, id)
			}
		}),
		d.planLinks.Each(func(plan uint32, port app.PortOf, to place) {
			if plan == installed {
				t.installed.addCable(placeOf(port), to)
			} else {
				t.aim[port] = true
			}
		}),
		d.planHosts.Each(func(plan uint32, mac app.MAC, at place) {
			if plan == installed {
				t.installed.hosts = append(t.installed.hosts, protect.Host{MAC: mac, At: paths.End(at.portOf())})
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", Name, err)
	}
	return &t, nil
}

func (t *tables) view() (*View, error) {
	t.installed.sort()
	g, err := paths.NewGraph(t.installed.switches, t.installed.links)
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", Name, err)
	}
	s := &t.st
	v := &View{Disjoint: s.Installed.Avoid, Graph: g, Hosts: t.installed.hosts, Addresses: t.addrs,
		Changing: s.Installed.ID != s.Target.ID,
		Change:   s.Change.view(), Last: s.Last.view(), Due: instant(s.Due), Problem: s.Problem}
	if v.Changing {
		v.Round = s.Round + 1
	}
	for id, row := range t.switches {
		v.Switches = append(v.Switches, t.switchView(id, row))
		if !usableSwitch(id) {
			v.LeftOut = append(v.LeftOut, switchName(id)+": metadata 0 stands for none, give it another id")
		}
	}
	slices.SortFunc(v.Switches, func(a, b SwitchView) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(t.links, func(a, b link) int { return a.A.portOf().Compare(b.A.portOf()) })
	for _, l := range t.links {
		cable := Cable{l.A.portOf(), l.B.portOf()}
		switch {
		case !l.Found:
		case !usableLink(l):
			v.LeftOut = append(v.LeftOut, fmt.Sprintf("link %s: use ports up to %v for links between switches",
				l.name(), protect.MaxPort))
		case l.Until > 0 && !l.Dark && !t.aim[l.A.portOf()]:
			v.Held = append(v.Held, HeldLink{cable, instant(l.Until)})
		case l.Dark && t.aim[l.A.portOf()]:
			v.Dark = append(v.Dark, cable)
		}
		if l.Found && l.Unheard {
			v.Unheard = append(v.Unheard, cable)
		}
	}
	for _, mac := range t.hosts {
		if !usableHost(mac) {
			v.LeftOut = append(v.LeftOut, hostName(mac)+" has no unicast address")
		}
	}
	slices.Sort(v.LeftOut)
	return v, nil
}

func (t *tables) switchView(id app.Switch, row switchRow) SwitchView {
	return SwitchView{ID: id, Up: row.Up, InSync: row.Up && !t.behind[id], Since: instant(row.Since),
		Checked: instant(row.Checked),
		Found: reconcile.Result{Right: row.Right, Wrong: row.Wrong, Missing: row.Missing, Surplus: row.Surplus,
			Foreign: row.Foreign},
		PutBack: row.PutBack, Removed: row.Removed, Failed: instant(row.Failed), Error: row.Error, Command: row.Command}
}

func (t changeRow) view() Change {
	return Change{instant(t.Began), time.Duration(t.Took), time.Duration(t.Compile), t.Rounds, t.Why, t.More}
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
