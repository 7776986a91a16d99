package protect

import (
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Fate is what happens to a packet.
type Fate uint8

// The fates.
const (
	Dropped Fate = iota
	Delivered
	Looping
)

func (f Fate) String() string { return [...]string{"dropped", "delivered", "looping"}[f] }

// Failures are the dead ports and switches. A cable is dead if one of its ends is in Ends, or one of its switches in
// Switches. Only the switches at its ends know.
type Failures struct {
	Ends     map[paths.End]bool
	Switches map[openflow.DatapathID]bool
	Alarms   map[paths.End]bool // ends that their switch takes for dead although their cables carry packets
}

// Journey is the fate of a packet, and the links that it took.
type Journey struct {
	Fate  Fate
	Links []paths.Link
	At    paths.End // where it left the network, if it was delivered
	Mark  bool      // it has DetourVLAN when it ends

	returned bool // once, see Action.Return
}

// Network runs programs as the switches would.
type Network struct {
	graph    *paths.Graph
	switches map[openflow.DatapathID]*tables
}

// tables are the entries of a program by the fields that they match, each in the order of priorities.
type tables struct {
	hosts  map[of13.MAC][]Entry
	routes map[openflow.DatapathID][]Entry
	groups map[GroupID]bool
}

// NewNetwork makes a network of switches without programs.
func NewNetwork(g *paths.Graph) *Network {
	return &Network{g, map[openflow.DatapathID]*tables{}}
}

// Network returns a network in which each switch holds its program.
func (p *Plan) Network() *Network {
	n := NewNetwork(p.routes.Graph())
	for _, s := range p.routes.Graph().Switches() {
		n.Install(s, p.Program(s))
	}
	return n
}

// Install replaces the program of a switch.
func (n *Network) Install(s openflow.DatapathID, p Program) {
	t := &tables{map[of13.MAC][]Entry{}, map[openflow.DatapathID][]Entry{}, map[GroupID]bool{}}
	for _, e := range p.Entries {
		if e.Match.Dest != 0 {
			t.routes[e.Match.Dest] = append(t.routes[e.Match.Dest], e)
		} else {
			t.hosts[e.Match.Host] = append(t.hosts[e.Match.Host], e)
		}
	}
	for _, id := range p.Groups {
		t.groups[id] = true
	}
	n.switches[s] = t
}

// Follow sends a packet to a host from a port of a switch, and returns its journey.
func (n *Network) Follow(to of13.MAC, from paths.End, dead Failures) Journey {
	var j Journey
	for at := from; n.pass(to, &at, dead, &j); {
		if len(j.Links) > 2*len(n.graph.Links()) { // it has come to one port twice with the same tag
			j.Fate = Looping
			break
		}
	}
	return j
}

// pass sends a packet through one switch, and over the link behind it. It reports whether the journey goes on.
func (n *Network) pass(to of13.MAC, at *paths.End, dead Failures, j *Journey) bool {
	out, local := n.step(to, *at, dead, j)
	link, ok := n.graph.From(paths.End{Switch: at.Switch, Port: out})
	switch {
	case out == 0:
		return false
	case !ok && local:
		j.Fate, j.At = Delivered, paths.End{Switch: at.Switch, Port: out}
		return false
	case !ok || dead.link(link):
		return false
	}
	j.Links, *at = append(j.Links, link), link.To
	return true
}

func (f Failures) link(l paths.Link) bool {
	return f.Ends[l.From] || f.Ends[l.To] || f.Switches[l.From.Switch] || f.Switches[l.To.Switch]
}

// step returns the port by which a packet leaves a switch, 0 if it does not, and whether it is delivered to one of the
// switch's own hosts.
func (n *Network) step(to of13.MAC, at paths.End, dead Failures, j *Journey) (out of13.Port, local bool) {
	t := n.switches[at.Switch]
	if t == nil || dead.Switches[at.Switch] {
		return 0, false
	}
	e, ok := match(t.hosts[to], at.Port, j)
	if ok && e.Action.Dest != 0 {
		e, ok = match(t.routes[e.Action.Dest], at.Port, j)
	} else {
		local = true
	}
	if !ok {
		return 0, false
	}
	out = e.Action.Port
	switch {
	case e.Action.Untag:
		j.Mark = false
	case e.Action.Return:
		j.Mark, j.returned = true, true
		return at.Port, local
	}
	if g := e.Action.Group; g != 0 {
		if !t.groups[g] || !t.groups[Live] {
			return 0, false
		}
		if out = n.bucket(g, at, dead, &j.Mark); out == inPort {
			return at.Port, local
		}
	}
	if out == at.Port { // a switch sends nothing back by the incoming port without OFPP_IN_PORT
		return 0, false
	}
	return out, local
}

const inPort = of13.PortInPort

// bucket returns the port of the first bucket that is alive. The last one always is.
func (n *Network) bucket(g GroupID, at paths.End, dead Failures, mark *bool) of13.Port {
	alive := func(p of13.Port) bool {
		l, ok := n.graph.From(paths.End{Switch: at.Switch, Port: p})
		return ok && !dead.link(l) && !dead.Alarms[l.From]
	}
	if alive(g.Primary()) || !alive(g.Backup()) {
		return g.Primary()
	}
	*mark = *mark || g.Once()
	if g.Back() {
		return inPort
	}
	return g.Backup()
}

// match returns the entry of the highest priority that matches.
func match(entries []Entry, port of13.Port, j *Journey) (Entry, bool) {
	for _, e := range entries {
		if (e.Match.InPort == 0 || e.Match.InPort == port) && e.Match.Tag.matches(j.Mark, j.returned) {
			return e, true
		}
	}
	return Entry{}, false
}

func (t Tag) matches(mark, returned bool) bool {
	switch t {
	case NoTag:
		return !mark
	case Detoured:
		return mark
	case NotReturned:
		return mark && !returned
	}
	return true
}
