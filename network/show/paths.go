package show

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Paths is how packets get from one place to another, and what happens to them when something on their way fails.
type Paths struct {
	From     Point     `json:"from"`
	To       Point     `json:"to"`
	Disjoint string    `json:"disjoint"` // what backups avoid
	Primary  *Way      `json:"primary"`  // nil: there is none
	Backups  []Backup  `json:"backups"`  // of each switch on the way, except the last
	Failures []Failure `json:"failures"` // of each link on the way, and of each switch between its ends

	Installed bool     `json:"installed"` // else it is what would be installed
	Notes     []string `json:"notes"`
}

// Point is a place, for JSON.
type Point struct {
	Switch string `json:"switch"`
	MAC    string `json:"mac,omitempty"` // of a host
	name   string
}

func pointOf(p place) Point {
	out := Point{Switch: p.Switch.String(), name: p.String()}
	if p.Host != nil {
		out.MAC = p.Host.MAC.String()
	}
	return out
}

// Way is the links that packets take.
type Way struct {
	Hops  int    `json:"hops"`
	Links []Step `json:"links"`
}

// Step is a link that packets take. They go Back when they leave by the link that they came by: that is crankback.
type Step struct {
	From End  `json:"from"`
	To   End  `json:"to"`
	Back bool `json:"back"`
}

// Backup is what a switch does with the packets.
type Backup struct {
	Switch  string `json:"switch"`
	Primary Next   `json:"primary"`
	Backup  *Next  `json:"backup"` // nil: there is none
	Back    bool   `json:"back"`   // it is the port that the packets come in by
	Once    bool   `json:"once"`   // it serves if the link is dead, and not if the next switch is
}

// Next is a port, and the switch behind it.
type Next struct {
	Port   app.Port `json:"port"`
	Switch string   `json:"switch"`
}

// Outcome is what becomes of packets before a controller acts.
type Outcome string

// Outcomes.
const (
	Delivered Outcome = "delivered"
	CutOff    Outcome = "cut off" // no other way exists
	Lost      Outcome = "lost"    // another way exists, and the switches do not have it
	Looping   Outcome = "looping"
)

// Failure is the loss of a link or of a switch, and what it does to the packets.
type Failure struct {
	Link    *Step   `json:"link,omitempty"`   // in the direction of the packets
	Switch  string  `json:"switch,omitempty"` // if it is not a link
	Outcome Outcome `json:"outcome"`
	Way     *Way    `json:"way,omitempty"`   // if they are delivered
	Extra   int     `json:"extra,omitempty"` // hops more than by the primary path
	Later   int     `json:"later,omitempty"` // hops once controllers have replaced the way; 0 if there is none
}

// Question asks for the paths between two places: switches by their datapath ids, in hexadecimal, or hosts by their
// Ethernet or IP addresses.
type Question struct {
	From, To string
	Avoid    *paths.Disjoint // nil: as it is installed
}

// Ask answers a question by the plan that the switches hold or, where nothing protects the network (v is nil), by what
// is known of its links.
func Ask(s *topology.Snapshot, v *recovery.View, q Question, now time.Time) (*Paths, error) {
	var g *paths.Graph
	var err error
	avoid, installed, said := paths.LinkDisjoint, false, []string{}
	if v != nil {
		g, avoid, installed, said = v.Graph, v.Disjoint, true, notes(v, now)
	} else if g, err = s.Graph(); err != nil {
		return nil, err
	} else {
		said = append(said, "application recovery does not run: nothing of this is installed")
	}
	if q.Avoid != nil && *q.Avoid != avoid {
		if installed {
			said = append(said, fmt.Sprintf("the switches hold a %v plan: this is what another would do", avoid))
		}
		avoid, installed = *q.Avoid, false
	}
	hosts := hostsOf(s, v)
	from, err := find(q.From, g.Switches(), hosts)
	if err != nil {
		return nil, err
	}
	to, err := find(q.To, g.Switches(), hosts)
	if err != nil {
		return nil, err
	}
	p, err := explain(g, from, to, avoid)
	if err != nil {
		return nil, err
	}
	p.Installed, p.Notes = installed, said
	return p, nil
}

// The ports of the places. No link has them, whatever the ports of hosts are.
const (
	entry = of13.PortMax - 1
	exit  = of13.PortMax
)

// explain computes how packets get from one place to another in a protected network, by sending one through the tables
// that the switches hold.
func explain(g *paths.Graph, from, to place, avoid paths.Disjoint) (*Paths, error) {
	out := &Paths{From: pointOf(from), To: pointOf(to), Disjoint: avoid.String(), Backups: []Backup{},
		Failures: []Failure{}, Notes: []string{}}
	routes, err := paths.Protect(g, []app.Switch{to.Switch}, avoid)
	if err != nil {
		return nil, err
	}
	// whoever is there: all are served alike
	target := protect.Host{MAC: app.MAC{2}, At: paths.End{Switch: to.Switch, Port: exit}}
	plan, err := protect.Compile(routes, []protect.Host{target},
		protect.Config{MaxEntries: paths.MaxSwitches, MaxGroups: paths.MaxSwitches})
	if err != nil {
		return nil, fmt.Errorf("paths to %v: %w", to, err)
	}
	network := plan.Network()
	send := func(dead protect.Failures) protect.Journey {
		return network.Follow(target.MAC, paths.End{Switch: from.Switch, Port: entry}, dead)
	}
	primary := send(protect.Failures{})
	if primary.Fate != protect.Delivered {
		return out, nil
	}
	out.Primary = wayOf(primary.Links)
	fail := func(f Failure, dead protect.Failures, without *paths.Graph) {
		f.judge(send(dead), out.Primary.Hops)
		if p, ok := without.Shortest(from.Switch, to.Switch); ok {
			f.Later = len(p.Links)
		} else if f.Outcome == Lost {
			f.Outcome = CutOff
		}
		out.Failures = append(out.Failures, f)
	}
	in := of13.Port(entry)
	for i, l := range primary.Links {
		h := routes.Hop(to.Switch, l.From.Switch)
		h.Once = h.Once && routes.Avoids() == paths.NodeDisjoint // else no backup is for more than a dead link
		out.Backups = append(out.Backups, backupOf(g, h, l, in))
		in = l.To.Port
		fail(Failure{Link: &out.Primary.Links[i]}, protect.Failures{Ends: map[paths.End]bool{l.From: true}},
			g.Without(l.From))
	}
	for _, l := range primary.Links[min(1, len(primary.Links)):] {
		s := l.From.Switch
		fail(Failure{Switch: s.String()}, protect.Failures{Switches: map[app.Switch]bool{s: true}},
			g.Without(endsOf(g, s)...))
	}
	return out, nil
}

// judge notes what became of a packet.
func (f *Failure) judge(j protect.Journey, hops int) {
	switch j.Fate {
	case protect.Delivered:
		f.Outcome, f.Way = Delivered, wayOf(j.Links)
		f.Extra = f.Way.Hops - hops
	case protect.Looping:
		f.Outcome = Looping
	default:
		f.Outcome = Lost
	}
}

func endsOf(g *paths.Graph, s app.Switch) (ends []paths.End) {
	for _, l := range g.Links() {
		if l.From.Switch == s {
			ends = append(ends, l.From)
		}
	}
	return ends
}

func backupOf(g *paths.Graph, h paths.Hop, l paths.Link, in of13.Port) Backup {
	b := Backup{Switch: l.From.Switch.String(), Primary: Next{l.From.Port, l.To.Switch.String()}, Once: h.Once}
	if other, ok := g.From(paths.End{Switch: l.From.Switch, Port: h.Backup}); ok {
		b.Backup, b.Back = &Next{h.Backup, other.To.Switch.String()}, h.Backup == in
	}
	return b
}

// wayOf finds the steps that take back the last one that is not taken back yet.
func wayOf(links []paths.Link) *Way {
	w := &Way{Hops: len(links), Links: []Step{}}
	var open []paths.End // where those begin
	for _, l := range links {
		back := len(open) > 0 && open[len(open)-1] == l.To
		if back {
			open = open[:len(open)-1]
		} else {
			open = append(open, l.From)
		}
		w.Links = append(w.Links, Step{endOf(app.PortOf(l.From)), endOf(app.PortOf(l.To)), back})
	}
	return w
}
