package tenants

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Cookie is that of all flow entries of this package.
const Cookie uint64 = 0x6866746e // "hftn"

// The tables of this package. In enter a frame gets the tag of its tenant; a frame that comes from another switch has
// it. In forward it is sent on by tag and destination.
const enter, forward uint8 = 0, 1

const (
	prioritySome, priorityOne = 100, 101 // frames to a group of hosts, and all others
	typeVLAN                  = 0x8100
)

// group is the bit of addresses of more than one host.
var group = app.MAC{1}

// network is what the entries of all switches follow from. Frames of a tag are those of one tenant:
//
//   - A frame gets a tag only at a port at which a host of that tenant is.
//   - A frame with a tag leaves by a port between two switches, or where a host of that tenant is.
//   - A port where a host is does not count as one between switches, whatever was discovered there.
//
// So frames of tenants stay apart if all switches have entries of one network, or a part of them.
type network struct {
	switches []app.Switch // that are up
	links    []topology.Link
	hosts    []attached
}

// attached is a host of a tenant.
type attached struct {
	tag  uint16
	mac  app.MAC
	at   app.PortOf
	vlan uint16
}

// end is where frames leave the network.
type end struct {
	_    struct{} `cbor:",toarray"`
	Port app.Port
	VLAN uint16 // 0: without a tag
}

// entry is a flow entry: of a port between switches (In), of a host at a port (In, VLAN, MAC and Tag), or of frames
// with a tag to a host or to many (Tag and MAC; zero is many).
type entry struct {
	_    struct{} `cbor:",toarray"`
	In   app.Port
	VLAN uint16
	MAC  app.MAC
	Tag  uint16
	Out  []app.Port // with the tag
	Ends []end
}

// graph returns the links between switches that are up in both directions, without those at ports of hosts.
func (n *network) graph() (*paths.Graph, error) {
	inside := map[app.PortOf]app.PortOf{}
	for _, l := range n.links {
		inside[l.From] = l.To
	}
	for _, h := range n.hosts {
		delete(inside, h.at)
	}
	links := slices.DeleteFunc(topology.Both(maps.All(inside)), func(l paths.Link) bool {
		_, from := slices.BinarySearch(n.switches, l.From.Switch)
		_, to := slices.BinarySearch(n.switches, l.To.Switch)
		return !from || !to
	})
	return paths.NewGraph(n.switches, links)
}

// programs returns the entries of each switch.
func (n *network) programs() (map[app.Switch][]entry, error) {
	g, err := n.graph()
	if err != nil {
		return nil, fmt.Errorf("graph of the network: %w", err)
	}
	routes, err := paths.Protect(g, n.switches, paths.LinkDisjoint)
	if err != nil {
		return nil, fmt.Errorf("routes of the network: %w", err)
	}
	tree := n.tree(g, routes)
	programs := map[app.Switch][]entry{}
	many := map[uint16]map[app.Switch][]end{}
	for _, h := range n.hosts {
		at, here := h.at.Switch, end{Port: h.at.Port, VLAN: h.vlan}
		if many[h.tag] == nil {
			many[h.tag] = map[app.Switch][]end{}
		}
		if !slices.Contains(many[h.tag][at], here) {
			many[h.tag][at] = append(many[h.tag][at], here)
		}
		if _, up := slices.BinarySearch(n.switches, at); !up {
			continue
		}
		programs[at] = append(programs[at], entry{In: here.Port, VLAN: h.vlan, MAC: h.mac, Tag: h.tag})
		for _, id := range n.switches {
			e := entry{MAC: h.mac, Tag: h.tag}
			if id == at {
				e.Ends = []end{here}
			} else if p := routes.Hop(at, id).Primary; p != 0 {
				e.Out = []app.Port{p}
			} else {
				continue
			}
			programs[id] = append(programs[id], e)
		}
	}
	for _, l := range g.Links() {
		programs[l.From.Switch] = append(programs[l.From.Switch], entry{In: l.From.Port})
	}
	for tag, ends := range many {
		for _, id := range n.switches {
			programs[id] = append(programs[id], entry{Tag: tag, Out: tree[id], Ends: ends[id]})
		}
	}
	return programs, nil
}

// tree returns the ports of a spanning tree of each part of the network that is connected: the one of shortest paths to
// its lowest switch.
func (n *network) tree(g *paths.Graph, routes *paths.Routes) map[app.Switch][]app.Port {
	tree := map[app.Switch][]app.Port{}
	for _, id := range n.switches {
		for _, root := range n.switches {
			up := routes.Hop(root, id).Primary
			if root != id && up == 0 {
				continue
			}
			if l, ok := g.From(paths.End{Switch: id, Port: up}); ok {
				tree[id] = append(tree[id], up)
				tree[l.To.Switch] = append(tree[l.To.Switch], l.To.Port)
			}
			break
		}
	}
	for _, ports := range tree {
		slices.Sort(ports)
	}
	return tree
}

// encoded is an entry as it is kept.
type encoded = cbor.ByteString

// encode returns entries in order, and a digest of them.
func encode(entries []entry) (list []encoded, digest []byte) {
	h := sha256.New()
	for _, e := range entries {
		b, err := cbor.Marshal(e)
		if err != nil {
			panic(fmt.Sprintf("%+v cannot be encoded: %v", e, err)) // it has only numbers
		}
		list = append(list, encoded(b))
	}
	slices.Sort(list)
	for _, s := range list {
		h.Write([]byte(s))
	}
	return list, h.Sum(nil)
}

// flowMod returns the command that installs an entry.
func (e *entry) flowMod() of13.FlowMod {
	m := of13.FlowMod{TableID: enter, Priority: priorityOne, Cookie: Cookie, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: of13.Match(nil).WithInPort(e.In)}
	tag, as := of13.FieldVLANVID, func(vlan uint16) uint64 { return uint64(of13.VLANPresent | vlan) }
	switch {
	case e.In != 0 && e.Tag == 0:
		m.Match = m.Match.WithUintMasked(tag, as(0), as(0))
		m.Instructions = m.Instructions.Goto(forward)
		return m
	case e.In != 0:
		a := of13.Actions(nil)
		if m.Match = m.Match.WithEthSrc(e.MAC); e.VLAN == 0 {
			m.Match, a = m.Match.WithNoVLAN(), a.PushVLAN(typeVLAN)
		} else {
			m.Match = m.Match.WithVLAN(e.VLAN)
		}
		m.Instructions = m.Instructions.Apply(a.SetUint(tag, as(e.Tag))).Goto(forward)
		return m
	}
	m.TableID, m.Match = forward, of13.Match(nil).WithEthDst(e.MAC)
	if e.MAC == (app.MAC{}) {
		m.Priority, m.Match = prioritySome, of13.Match(nil).WithEthDstMasked(group, group)
	}
	m.Match = m.Match.WithVLAN(e.Tag)
	a := of13.Actions(nil).Outputs(e.Out...)
	ends := slices.SortedFunc(slices.Values(e.Ends), func(x, y end) int { return cmp.Compare(y.VLAN, x.VLAN) })
	popped := false
	for _, to := range ends { // those without a tag last
		switch {
		case to.VLAN > 0:
			a = a.SetUint(tag, as(to.VLAN))
		case !popped:
			a, popped = a.PopVLAN(), true
		}
		a = a.Outputs(to.Port)
	}
	m.Instructions = m.Instructions.Apply(a)
	return m
}
