package recovery

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
)

// hostTable is the table of package protect's hosts, if the entries that lead to it are in the first table.
func hostTable(first uint8) uint8 { return first + 1 }

// network is the input of a plan, in order.
type network struct {
	avoid    paths.Disjoint
	switches []app.Switch
	links    []paths.Link // both directions of each cable
	hosts    []protect.Host
}

func (n *network) equal(o *network) bool {
	return n.avoid == o.avoid && slices.Equal(n.switches, o.switches) && slices.Equal(n.links, o.links) &&
		slices.Equal(n.hosts, o.hosts)
}

func (n *network) addCable(a, b place) {
	n.links = append(n.links, paths.Both(paths.End(a.portOf()), paths.End(b.portOf()), 1)...)
}

func (n *network) sort() {
	slices.Sort(n.switches)
	slices.SortFunc(n.links, func(a, b paths.Link) int { return app.PortOf(a.From).Compare(app.PortOf(b.From)) })
	slices.SortFunc(n.hosts, compareMACs)
}

// compiled is a plan and its input.
type compiled struct {
	id uint64
	network
	plan *protect.Plan
}

// compile makes the plan of a network, by an update of an old plan if there is one. It has no bounds: this package
// checks the room of switches itself, so that a plan that was made with other bounds can still be compiled.
func compile(old *compiled, n network, first uint8) (*protect.Plan, error) {
	unbounded := protect.Config{Table: hostTable(first), MaxEntries: math.MaxInt, MaxGroups: math.MaxInt}
	g, err := paths.NewGraph(n.switches, n.links)
	if err != nil {
		return nil, err
	}
	dests := make([]app.Switch, len(n.hosts))
	for i, h := range n.hosts {
		dests[i] = h.At.Switch
	}
	if old == nil || old.avoid != n.avoid {
		routes, err := paths.Protect(g, dests, n.avoid)
		if err != nil {
			return nil, err
		}
		return protect.Compile(routes, n.hosts, unbounded)
	}
	routes, err := old.plan.Routes().Update(g, dests)
	if err != nil {
		return nil, err
	}
	return old.plan.Update(routes, n.hosts)
}

// fits checks whether switches have room for a plan.
func (c Config) fits(p *protect.Plan) error {
	for _, s := range p.Routes().Graph().Switches() {
		if entries, groups := p.Size(s); entries > c.MaxEntries || groups > c.MaxGroups {
			return fmt.Errorf("%s would need %d flow entries and %d groups, and may have %d and %d: raise "+
				"recovery.max_entries or max_groups if it has more room",
				switchName(s), entries, groups, c.MaxEntries, c.MaxGroups)
		}
	}
	return nil
}

// compile makes the plan of a network, if switches have room for it.
func (c Config) compile(old *compiled, n network) (*protect.Plan, error) {
	p, err := compile(old, n, c.Table)
	if err != nil {
		return nil, err
	}
	return p, c.fits(p)
}

// leaveOutNew removes the hosts that are not among the old ones.
func (n *network) leaveOutNew(old []protect.Host) {
	n.hosts = slices.DeleteFunc(n.hosts, func(h protect.Host) bool {
		_, known := slices.BinarySearchFunc(old, h, compareMACs)
		return !known
	})
}

func compareMACs(a, b protect.Host) int { return slices.Compare(a.MAC[:], b.MAC[:]) }

// wanted returns the network as it should be used now.
func (v *visit) wanted() network {
	n := network{avoid: v.config.Disjoint}
	in := map[app.Switch]bool{}
	for s := range v.switches.All(v.tx, all) {
		if usableSwitch(s) {
			in[s] = true
			n.switches = append(n.switches, s)
		}
	}
	parts := parts{}
	var doubtful []link
	for at, l := range v.links.All(v.tx, all) {
		if at != l.A.portOf() || !l.Found || !usableLink(l) || !in[l.A.Switch] || !in[l.B.Switch] {
			continue
		}
		if l.Dark || v.now < l.Until {
			doubtful = append(doubtful, l)
			continue
		}
		n.addCable(l.A, l.B)
		parts.join(l.A.Switch, l.B.Switch)
	}
	// One that is held or dark is used only where there is no other path. So false alarms at all links leave a network
	// that works. No backup leads across such a link, so packets for a switch that is really dead do not loop. Of dark
	// links the last to become dark come first, because a false alarm ends soon and a failure does not.
	slices.SortStableFunc(doubtful, func(a, b link) int {
		return cmp.Or(compareBool(a.Dark, b.Dark), cmp.Compare(b.Lost, a.Lost))
	})
	for _, l := range doubtful {
		if parts.join(l.A.Switch, l.B.Switch) {
			n.addCable(l.A, l.B)
		}
	}
	for mac, at := range v.hosts.All(v.tx, all) {
		if usableHost(mac) && in[at.Switch] {
			n.hosts = append(n.hosts, protect.Host{MAC: mac, At: paths.End(at.portOf())})
		}
	}
	n.sort()
	return n
}

// compareBool is the order of false and true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// What does not fit into the plan is left out, so that the rest is protected.
func usableSwitch(s app.Switch) bool { return s != 0 }
func usableLink(l link) bool         { return l.A.Port <= protect.MaxPort && l.B.Port <= protect.MaxPort }
func usableHost(mac app.MAC) bool    { return mac != app.MAC{} && mac[0]&1 == 0 }

// parts is a union-find of switches that reach each other: each names another of its set, and one names none.
type parts map[app.Switch]app.Switch

func (p parts) of(s app.Switch) app.Switch {
	for {
		next, ok := p[s]
		if !ok {
			return s
		}
		if further, ok := p[next]; ok {
			p[s] = further
		}
		s = next
	}
}

// join reports whether the two sets were different.
func (p parts) join(a, b app.Switch) bool {
	if a, b = p.of(a), p.of(b); a == b {
		return false
	}
	p[a] = b
	return true
}

// plan returns the plan that a cell of the tables holds.
func (v *visit) plan(which uint32) (*compiled, error) {
	id := v.st.Installed
	if which == target {
		id = v.st.Target
	}
	for _, c := range v.plans {
		if c.id == id.ID {
			return c, nil
		}
	}
	n := network{avoid: id.Avoid}
	for s := range v.planSwitches.All(v.tx, which) {
		n.switches = append(n.switches, s)
	}
	for a, b := range v.planLinks.All(v.tx, which) {
		n.addCable(placeOf(a), b)
	}
	for mac, at := range v.planHosts.All(v.tx, which) {
		n.hosts = append(n.hosts, protect.Host{MAC: mac, At: paths.End(at.portOf())})
	}
	n.sort()
	p, err := compile(nil, n, v.config.Table)
	if err != nil {
		return nil, fmt.Errorf("compile the plan of the tables again: %w", err)
	}
	return v.keep(&compiled{id.ID, n, p}), nil
}

// keep stores a plan in memory, in place of the older of two.
func (r *recovery) keep(c *compiled) *compiled {
	r.plans = append(r.plans[max(0, len(r.plans)-1):], c)
	return c
}

// store writes the input of a plan. What is unchanged costs nothing.
func (v *visit) store(which uint32, n network) {
	links, hosts := map[app.PortOf]place{}, map[app.MAC]place{}
	for _, l := range n.links {
		if l.From.Switch < l.To.Switch {
			links[app.PortOf(l.From)] = placeOf(app.PortOf(l.To))
		}
	}
	for _, h := range n.hosts {
		hosts[h.MAC] = placeOf(app.PortOf(h.At))
	}
	for s := range v.planSwitches.All(v.tx, which) {
		if _, stays := slices.BinarySearch(n.switches, s); !stays {
			v.planSwitches.Delete(v.tx, which, s)
		}
	}
	for _, s := range n.switches {
		v.planSwitches.Put(v.tx, which, s, 1)
	}
	replace(v.tx, v.planLinks, which, links)
	replace(v.tx, v.planHosts, which, hosts)
}

// replace makes a cell of a map equal to m.
func replace[K app.Key](tx *app.Tx, t app.Map[uint32, K, place], cell uint32, m map[K]place) {
	for k := range t.All(tx, cell) {
		if _, stays := m[k]; !stays {
			t.Delete(tx, cell, k)
		}
	}
	for k, p := range m {
		t.Put(tx, cell, k, p)
	}
}

// begin makes a plan of the current network, and begins to install it.
func (v *visit) begin() error {
	old, err := v.plan(installed)
	if err != nil {
		return err
	}
	why, more := v.st.Why, v.st.More
	v.st.First, v.st.Due, v.st.Latest, v.st.Why, v.st.More, v.st.Problem = 0, 0, 0, "", 0, ""
	next := v.wanted()
	if next.equal(&old.network) {
		return nil
	}
	start := time.Now()
	p, err := v.config.compile(old, next)
	if err != nil {
		// A host that sends from invented addresses must not prevent that the plan follows failed links.
		v.st.Problem = err.Error() + "; meanwhile hosts that are new are left out"
		if next.leaveOutNew(old.hosts); next.equal(&old.network) {
			return nil
		}
		p, err = v.config.compile(old, next)
	}
	if err != nil {
		v.st.Problem = err.Error()
		return nil
	}
	for s, j := range v.jobs.All(v.tx, all) {
		if !j.Check {
			continue
		}
		v.endJob(s) // it compares with the old plan
		if _, behind := v.todo.Get(v.tx, all, s); !behind && (j.Barrier != 0 || j.Removing) {
			v.todo.Put(v.tx, all, s, todo{}) // it is not right, and only a part of it is repaired
		}
	}
	id := planID{ID: rand.Uint64() | 1, Avoid: next.avoid}
	v.store(target, next)
	v.keep(old)
	v.keep(&compiled{id.ID, next, p})
	v.st.Target, v.st.Round, v.st.Next = id, 0, 0
	rounds, err := v.transition()
	if err != nil {
		return err
	}
	v.st.Change = changeRow{Began: v.now, Compile: int64(time.Since(start)), Rounds: len(rounds), Why: why, More: more}
	return v.goOn()
}
