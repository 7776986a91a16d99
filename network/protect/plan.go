package protect

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Host is a station at the edge: a destination.
type Host struct {
	MAC of13.MAC
	At  paths.End
}

// Config is how much room the switches have.
type Config struct {
	Table      uint8 // of hosts; the table after it is that of routes
	MaxEntries int   // of one switch
	MaxGroups  int   // of one switch
}

// Plan is what all switches should hold. It is immutable, and safe for concurrent use.
type Plan struct {
	config Config
	routes *paths.Routes
	hosts  []Host // by address

	// Of each switch, in the order of the graph.
	entries, hostEntries []int
	groups               []map[GroupID]int32 // how many hops share it
}

// Compile makes the plan for routes to the switches that have hosts. It returns an error if a switch would need more
// than its room, or if no routes lead to a host.
func Compile(routes *paths.Routes, hosts []Host, config Config) (*Plan, error) {
	n := len(routes.Graph().Switches())
	p := &Plan{config: config, routes: routes, entries: make([]int, n), groups: make([]map[GroupID]int32, n)}
	for v := range p.groups {
		p.groups[v] = map[GroupID]int32{}
	}
	if err := check(routes); err != nil {
		return nil, err
	}
	if config.Table+1 > of13.TableMax || config.MaxEntries < 1 || config.MaxGroups < 1 {
		return nil, fmt.Errorf("protect with tables from %d, %d entries and %d groups: the last table is %d, and a "+
			"switch needs room", config.Table, config.MaxEntries, config.MaxGroups, of13.TableMax)
	}
	for _, d := range routes.Destinations() {
		for v, h := range routes.Hops(d) {
			p.count(v, h, 1)
		}
	}
	return p, p.setHosts(hosts)
}

// Update returns the plan for routes that are an update of those of p. It is what Compile would return.
func (p *Plan) Update(routes *paths.Routes, hosts []Host) (*Plan, error) {
	switches := routes.Graph().Switches()
	if !slices.Equal(switches, p.routes.Graph().Switches()) {
		return Compile(routes, hosts, p.config)
	}
	if err := check(routes); err != nil {
		return nil, err
	}
	next := &Plan{config: p.config, routes: routes, entries: slices.Clone(p.entries), groups: slices.Clone(p.groups)}
	own := make([]bool, len(switches))
	for _, s := range routes.Steps(p.routes) {
		v, _ := slices.BinarySearch(switches, s.Switch)
		if !own[v] {
			own[v], next.groups[v] = true, maps.Clone(p.groups[v])
		}
		next.count(v, s.Old, -1)
		next.count(v, s.New, 1)
	}
	return next, next.setHosts(hosts)
}

// check rejects what the entries cannot express.
func check(routes *paths.Routes) error {
	if d := routes.Destinations(); len(d) > 0 && d[0] == 0 {
		return errors.New("protect routes to switch 0: metadata 0 stands for none, give the switch another id")
	}
	for _, l := range routes.Graph().Links() {
		if l.From.Port > MaxPort {
			return fmt.Errorf("protect link %v: use ports up to %v for links between switches", l, MaxPort)
		}
	}
	return nil
}

func (p *Plan) count(v int, h paths.Hop, sign int32) {
	p.entries[v] += int(sign) * countHop(h)
	groupsOf(h, func(id GroupID) {
		if p.groups[v][id] += sign; p.groups[v][id] == 0 {
			delete(p.groups[v], id)
		}
	})
}

// setHosts also checks the bounds.
func (p *Plan) setHosts(hosts []Host) error {
	p.hosts = slices.Clone(hosts)
	slices.SortFunc(p.hosts, func(a, b Host) int { return slices.Compare(a.MAC[:], b.MAC[:]) })
	local := map[openflow.DatapathID]int{}
	for i, h := range p.hosts {
		if i > 0 && p.hosts[i-1].MAC == h.MAC {
			return fmt.Errorf("host %v is at %v and at %v: keep one", h.MAC, p.hosts[i-1].At, h.At)
		}
		if h.MAC == (of13.MAC{}) || h.MAC[0]&1 != 0 {
			return fmt.Errorf("host %v at %v has no unicast address", h.MAC, h.At)
		}
		if p.routes.Hops(h.At.Switch) == nil {
			return fmt.Errorf("host %v is at %v: its switch is no destination of the routes", h.MAC, h.At)
		}
		local[h.At.Switch]++
	}
	p.hostEntries = make([]int, len(p.entries))
	for v, s := range p.routes.Graph().Switches() {
		p.hostEntries[v] = len(p.hosts) + local[s]
		if n := p.entries[v] + p.hostEntries[v]; n > p.config.MaxEntries {
			return fmt.Errorf("switch %v needs %d flow entries and may have %d: let it have more, or protect fewer "+
				"destinations", s, n, p.config.MaxEntries)
		}
		if n := len(p.groups[v]); n > p.config.MaxGroups {
			return fmt.Errorf("switch %v needs %d groups and may have %d: let it have more, or use fewer links", s, n,
				p.config.MaxGroups)
		}
	}
	return nil
}

// Routes returns the routes that the plan was made from.
func (p *Plan) Routes() *paths.Routes { return p.routes }

// Size returns how many entries and groups a switch holds.
func (p *Plan) Size(s openflow.DatapathID) (entries, groups int) {
	v, ok := slices.BinarySearch(p.routes.Graph().Switches(), s)
	if !ok {
		return 0, 0
	}
	return p.entries[v] + p.hostEntries[v], len(p.groups[v])
}

// Program returns what a switch should hold.
func (p *Plan) Program(s openflow.DatapathID) Program {
	v, ok := slices.BinarySearch(p.routes.Graph().Switches(), s)
	if !ok {
		return Program{}
	}
	entries := make([]Entry, 0, p.entries[v]+p.hostEntries[v])
	for _, h := range p.hosts {
		entries = p.appendHost(entries, s, h)
	}
	for _, d := range p.routes.Destinations() {
		entries = appendHop(entries, p.config.Table+1, d, p.routes.Hops(d)[v])
	}
	return Program{entries, slices.Sorted(maps.Keys(p.groups[v]))}
}

// appendHost appends the entries of a host at a switch.
func (p *Plan) appendHost(dst []Entry, s openflow.DatapathID, h Host) []Entry {
	m := Match{Host: h.MAC}
	if h.At.Switch != s {
		return append(dst, Entry{p.config.Table, priorityNormal, m, Action{Dest: h.At.Switch}})
	}
	marked := m
	marked.Tag = Detoured
	dst = append(dst, Entry{p.config.Table, priorityDetoured, marked, Action{Port: h.At.Port, Untag: true}})
	return append(dst, Entry{p.config.Table, priorityNormal, m, Action{Port: h.At.Port}})
}
