// Package show presents the network to operators, as text, as JSON and as a drawing for Graphviz: the topology, how it
// is protected, how links are monitored, and where packets from one place to another go when a link or a switch on
// their path fails. It is pure: the caller passes the tables of the applications.
//
// It discovers nothing and decides nothing. What it presents comes from the applications, and from packages paths and
// protect.
package show

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// Topology is a network, for JSON.
type Topology struct {
	Switches     []Switch `json:"switches"`
	Links        []Link   `json:"links"` // one of each direction
	Hosts        []Host   `json:"hosts"`
	HostsRefused uint64   `json:"hosts_refused"` // packets of hosts for which there was no room
}

// Switch is a switch that is up.
type Switch struct {
	ID    string `json:"switch"`
	Ports []Port `json:"ports"`
	More  bool   `json:"more_ports"` // that are left alone: there are too many
}

// Port is a port of a switch.
type Port struct {
	Port     app.Port `json:"port"`
	Name     string   `json:"name"`
	MAC      string   `json:"mac"`
	Up       bool     `json:"up"`
	Rejected Rejected `json:"lldp_rejected,omitzero"`
}

// Rejected counts LLDP frames that were not believed.
type Rejected struct {
	Malformed uint64 `json:"malformed,omitzero"`
	Foreign   uint64 `json:"foreign,omitzero"`
	Forged    uint64 `json:"forged,omitzero"`
	Reflected uint64 `json:"reflected,omitzero"`
	Stale     uint64 `json:"stale,omitzero"`
	Replayed  uint64 `json:"replayed,omitzero"`
	Contested uint64 `json:"contested,omitzero"`
}

// End is a port of the network.
type End struct {
	Switch string   `json:"switch"`
	Port   app.Port `json:"port"`
}

func endOf(p app.PortOf) End { return End{p.Switch.String(), p.Port} }

func (e End) String() string { return fmt.Sprintf("%s:%d", e.Switch, uint32(e.Port)) }

// Link is one direction of a link.
type Link struct {
	From          End       `json:"from"`
	To            End       `json:"to"`
	Up            bool      `json:"up"`
	Bidirectional bool      `json:"bidirectional"` // both directions are up
	Since         time.Time `json:"since"`
	Reason        string    `json:"reason,omitempty"` // of its being down
}

// Host is a host at the edge.
type Host struct {
	MAC       string       `json:"mac"`
	Addresses []netip.Addr `json:"addresses"`
	At        End          `json:"at"`
	Seen      time.Time    `json:"seen"` // not more than a minute before it was seen last
}

// NewTopology brings a snapshot into this form.
func NewTopology(s *topology.Snapshot) *Topology {
	t := &Topology{Switches: []Switch{}, Links: []Link{}, Hosts: []Host{}, HostsRefused: s.HostsRefused}
	for _, sw := range s.Switches {
		ports := []Port{}
		for _, p := range sw.Ports {
			r := p.Rejected
			ports = append(ports, Port{p.Port, p.Name, p.HwAddr.String(), p.Up,
				Rejected{r.Malformed, r.Foreign, r.Forged, r.Reflected, r.Stale, r.Replayed, r.Contested}})
		}
		t.Switches = append(t.Switches, Switch{sw.ID.String(), ports, sw.More})
	}
	for _, l := range s.Links {
		reason := ""
		if !l.Up {
			reason = l.Reason.String()
		}
		t.Links = append(t.Links, Link{endOf(l.From), endOf(l.To), l.Up, l.Bidirectional, l.Changed, reason})
	}
	for _, h := range s.Hosts {
		t.Hosts = append(t.Hosts, Host{h.MAC.String(), append([]netip.Addr{}, h.Addresses...), endOf(h.At), h.Seen})
	}
	return t
}

// cable is a link with its directions together. There is no back if nothing is known of one.
type cable struct {
	Link
	back *Link
}

// cables pairs directions, in the order of the lower end.
func (t *Topology) cables() []cable {
	known := map[[2]End]*Link{}
	for i, l := range t.Links {
		known[[2]End{l.From, l.To}] = &t.Links[i]
	}
	var list []cable
	for _, l := range t.Links {
		there, back := [2]End{l.From, l.To}, [2]End{l.To, l.From}
		if known[there] == nil {
			continue // it is the way back of one before
		}
		list = append(list, cable{l, known[back]})
		delete(known, back)
	}
	return list
}

// state says how a cable is, since when, why, and how to draw it: the direction that works.
func (c cable) state() (state, why, arrow string, since time.Time) {
	since = c.Since
	if c.back != nil && c.back.Since.After(since) {
		since = c.back.Since
	}
	switch {
	case c.Bidirectional:
		return "up", "", "─", since
	case c.Up && c.back == nil:
		return "one way", "nothing was ever heard the other way", "→", since
	case c.Up:
		return "one way", "the other way: " + c.back.Reason, "→", since
	case c.back != nil && c.back.Up:
		return "one way", "the other way: " + c.Reason, "←", since
	case c.back != nil && c.back.Reason != c.Reason:
		return "down", c.Reason + ", and back " + c.back.Reason, "─", since
	}
	return "down", c.Reason, "─", since
}

// WriteText writes tables for people.
func (t *Topology) WriteText(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	cables := t.cables()
	rejected := t.writeSwitches(w)
	if len(cables) > 0 {
		fmt.Fprintln(w, "\nLINK\tSTATE\tSINCE\tREASON")
	}
	for _, c := range cables {
		state, why, arrow, since := c.state()
		fmt.Fprintf(w, "%v %s %v\t%s\t%s\t%s\n", c.From, arrow, c.To, state, age(now, since), dash(why))
	}
	if len(t.Hosts) > 0 {
		fmt.Fprintln(w, "\nHOST\tAT\tSEEN\tADDRESSES")
	}
	for _, h := range t.Hosts {
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\n", h.MAC, h.At, age(now, h.Seen), dash(addresses(h.Addresses)))
	}
	if t.HostsRefused > 0 {
		fmt.Fprintf(w, "\nPackets of hosts for which there was no room: %d\n", t.HostsRefused)
	}
	if rejected > 0 {
		fmt.Fprintf(w, "\nLLDP frames that were not believed: %d; --json says at which ports, and why\n", rejected)
	}
	return w.Flush()
}

// writeSwitches returns how many LLDP frames were not believed.
func (t *Topology) writeSwitches(w io.Writer) (rejected uint64) {
	links, hosts := map[string]int{}, map[string]int{}
	for _, l := range t.Links {
		if l.Bidirectional {
			links[l.From.Switch]++
		}
	}
	for _, h := range t.Hosts {
		hosts[h.At.Switch]++
	}
	fmt.Fprintln(w, "SWITCH\tPORTS\tUP\tLINKS\tHOSTS")
	for _, s := range t.Switches {
		up, more := 0, ""
		for _, p := range s.Ports {
			if p.Up {
				up++
			}
			rejected += p.Rejected.total()
		}
		if s.More {
			more = "+"
		}
		fmt.Fprintf(w, "%s\t%d%s\t%d\t%d\t%d\n", s.ID, len(s.Ports), more, up, links[s.ID], hosts[s.ID])
	}
	return rejected
}

func (r Rejected) total() uint64 {
	return r.Malformed + r.Foreign + r.Forged + r.Reflected + r.Stale + r.Replayed + r.Contested
}

func addresses(list []netip.Addr) string {
	var s []string
	for _, a := range list {
		s = append(s, a.String())
	}
	return strings.Join(s, " ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago a time was, in two units at most. The clocks of controllers may be ahead of ours.
func age(now, t time.Time) string {
	d := max(0, now.Sub(t)).Truncate(time.Second)
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d/time.Hour%24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d/time.Minute%60)
	}
	return d.String()
}
