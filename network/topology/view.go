package topology

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/paths"
)

// Snapshot is the network at one time. Everything in it is ordered, so equal networks have equal snapshots.
type Snapshot struct {
	Switches     []SwitchView
	Links        []LinkView
	Hosts        []HostView
	HostsRefused uint64 // packets of hosts that were not learned for lack of room
}

// SwitchView is a switch that is up.
type SwitchView struct {
	ID    app.Switch
	Ports []PortView
	More  bool // it has more ports, which are ignored: there are too many
}

// PortView is a port.
type PortView struct {
	Port     app.Port
	Name     string
	HwAddr   app.MAC
	Up       bool
	Silent   bool     // a link of it was lost, and the port is up: no host is learned here until it has been down
	Rejected Rejected // LLDP frames that came in here
}

// LinkView is one direction of a link that is up, or of the last one that left its port.
type LinkView struct {
	Link
	Up            bool
	Bidirectional bool // both directions are up
	Changed       time.Time
	Reason        Reason // why it is down
}

// HostView is a host.
type HostView struct {
	Host
	Seen time.Time // at most a minute before it was last seen
}

// Rejected counts LLDP frames that changed nothing, at all ports.
func (s *Snapshot) Rejected() (sum uint64) {
	for _, sw := range s.Switches {
		for _, p := range sw.Ports {
			sum += p.Rejected.Total()
		}
	}
	return sum
}

// Of makes a snapshot of the application's tables, whose rows may come in any order.
func Of(rows iter.Seq[ledger.Row]) (*Snapshot, error) {
	v := view{ports: map[app.PortOf]portRow{}, rejected: map[app.PortOf]Rejected{}, ends: map[app.PortOf]endRow{}}
	t := tablesOf(app.New(Name))
	err := app.Read(rows,
		t.switches.Each(func(id app.Switch, row switchRow) {
			v.s.Switches = append(v.s.Switches, SwitchView{ID: id, More: row.More})
		}),
		t.ports.Each(func(id app.Switch, port app.Port,
			row portRow) {
			v.ports[app.PortOf{Switch: id, Port: port}] = row
		}),
		t.rejected.Each(func(id app.Switch, port app.Port, row Rejected) {
			v.rejected[app.PortOf{Switch: id, Port: port}] = row
		}),
		t.ends.Each(func(_ uint32, port app.PortOf, row endRow) { v.ends[port] = row }),
		t.hosts.Each(func(_ uint32, mac app.MAC, row hostRow) {
			v.s.Hosts = append(v.s.Hosts, HostView{Host{mac, row.At, row.Addrs}, time.Unix(0, row.Seen)})
		}),
		t.totals.Each(func(_ uint32, row totals) { v.s.HostsRefused = row.Refused }))
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", Name, err)
	}
	return v.snapshot(), nil
}

// view is the state while tables are read.
type view struct {
	s        Snapshot
	ports    map[app.PortOf]portRow
	rejected map[app.PortOf]Rejected
	ends     map[app.PortOf]endRow
}

func (v *view) snapshot() *Snapshot {
	s := &v.s
	slices.SortFunc(s.Switches, func(a, b SwitchView) int { return cmp.Compare(a.ID, b.ID) })
	for at, p := range v.ports {
		if i, up := slices.BinarySearchFunc(s.Switches, at.Switch,
			func(s SwitchView, id app.Switch) int { return cmp.Compare(s.ID, id) }); up {
			s.Switches[i].Ports = append(s.Switches[i].Ports,
				PortView{at.Port, p.Name, p.HwAddr, p.Up, v.ends[at].Silent, v.rejected[at]})
		}
	}
	for at, p := range v.ends {
		if p.To == (app.PortOf{}) {
			continue
		}
		l := LinkView{Link: Link{at, p.To}, Up: p.ToUp, Changed: time.Unix(0, p.ToChanged), Reason: p.ToReason}
		if l.Up {
			back := v.ends[p.To]
			l.Bidirectional, l.Reason = back.ToUp && back.To == at, 0
		}
		s.Links = append(s.Links, l)
	}
	for _, sw := range s.Switches {
		slices.SortFunc(sw.Ports, func(a, b PortView) int { return cmp.Compare(a.Port, b.Port) })
	}
	slices.SortFunc(s.Links, func(a, b LinkView) int { return a.From.Compare(b.From) })
	slices.SortFunc(s.Hosts, func(a, b HostView) int { return slices.Compare(a.MAC[:], b.MAC[:]) })
	for _, h := range s.Hosts {
		slices.SortFunc(h.Addresses, netip.Addr.Compare)
	}
	return s
}

// Graph is the network for computing paths: the links that are up in both directions, all of the same cost. A cable
// from a switch to itself is left out.
func (s *Snapshot) Graph() (*paths.Graph, error) {
	switches := make([]app.Switch, len(s.Switches))
	for i, sw := range s.Switches {
		switches[i] = sw.ID
	}
	var links []paths.Link
	for _, l := range s.Links {
		if l.Bidirectional && l.From.Switch != l.To.Switch {
			links = append(links, paths.Link{From: paths.End(l.From), To: paths.End(l.To), Cost: 1})
		}
	}
	return paths.NewGraph(switches, links)
}

// Both returns those of some links, by where they begin, that are there in both directions, all of the same cost, for
// computing paths. A cable from a switch to itself is left out.
func Both(links iter.Seq2[app.PortOf, app.PortOf]) (list []paths.Link) {
	ends := maps.Collect(links)
	for from, to := range ends {
		if back, up := ends[to]; up && back == from && from.Switch != to.Switch {
			list = append(list, paths.Link{From: paths.End(from), To: paths.End(to), Cost: 1})
		}
	}
	return list
}
