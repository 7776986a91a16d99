package sim

import (
	"bytes"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxCrossings bounds the switches that a probe crosses, all its copies together.
const maxCrossings = 64

// probe is a frame that enters by a port, and what the switches do to it by the flow entries that they have at this
// moment. It takes no time, and is neither lost nor doubled.
type probe struct {
	ends   []probeEnd
	drops  []*switchNode // where a copy was dropped, other than where it enters
	circle bool          // it crosses too many switches
}

// probeEnd is a copy that leaves by a port without a link.
type probeEnd struct {
	at    app.PortOf
	frame []byte
}

// beyond returns the port at the other end of a link. Port 0 has none.
func (n *switchNode) beyond(port of13.Port) (to app.PortOf, linked bool) {
	if port <= census.HostPort || int(port) > len(n.cables) || n.cables[port-1] == nil {
		return to, false
	}
	for _, e := range n.cables[port-1].ends {
		if e.sw != n {
			to = app.PortOf{Switch: e.sw.id, Port: e.port}
		}
	}
	return to, true
}

// toward returns by which port each other switch sends what is for one, by shortest ways that do not cross a cable.
func (s *simulation) toward(to openflow.DatapathID, without *cable) map[openflow.DatapathID]of13.Port {
	ports := map[openflow.DatapathID]of13.Port{}
	for reached := []openflow.DatapathID{to}; len(reached) > 0; reached = reached[1:] {
		n := s.switches[reached[0]-1]
		for i, w := range n.cables {
			from, linked := n.beyond(of13.Port(i + 1))
			if _, known := ports[from.Switch]; !linked || known || from.Switch == to || w == without {
				continue
			}
			ports[from.Switch] = from.Port
			reached = append(reached, from.Switch)
		}
	}
	return ports
}

// probe follows a frame.
func (s *simulation) probe(at app.PortOf, frame []byte) (p probe) {
	type arrival struct {
		at    app.PortOf
		frame []byte
	}
	queue := []arrival{{at, frame}}
	for crossed := 0; len(queue) > 0; crossed++ {
		if crossed == maxCrossings {
			p.circle = true
			return p
		}
		a := queue[0]
		queue = queue[1:]
		n := s.switches[a.at.Switch-1]
		out := n.forward(a.at.Port, a.frame)
		if len(out) == 0 && crossed > 0 {
			p.drops = append(p.drops, n)
		}
		for _, e := range out {
			if to, linked := n.beyond(e.at.Port); linked {
				queue = append(queue, arrival{to, e.frame})
			} else {
				p.ends = append(p.ends, e)
			}
		}
	}
	return p
}

// forward returns what leaves a switch of a frame that enters.
func (n *switchNode) forward(port of13.Port, frame []byte) (out []probeEnd) {
	if !n.p.up {
		return nil
	}
	for _, f := range n.sw.Trace(n.s.w.now, port, frame) {
		out = append(out, probeEnd{app.PortOf{Switch: n.id, Port: f.Port}, bytes.Clone(f.Data)})
	}
	return out
}

// damaged reports whether a switch may drop what it has an entry for, or have lost entries: a cable of it is cut, or it
// was started again.
func (n *switchNode) damaged() bool {
	for _, w := range n.cables {
		if w != nil && !w.up {
			return true
		}
	}
	return !n.p.up || n.p.incarnation > 0
}

// entries returns how many flow entries the first table of a switch has.
func (n *switchNode) entries() int {
	const auditor = 1 << 40 // the id of a connection
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	n.sw.Connect(auditor)
	defer n.sw.Disconnect(auditor)
	n.sw.Message(n.s.w.now, auditor, hello.Append(nil, 0))
	n.sw.Take(auditor)
	n.sw.Message(n.s.w.now, auditor, (&of13.MultipartRequest{Part: of13.PartTable}).Append(nil, 0))
	var m of13.MultipartReply
	for _, msg := range n.sw.Take(auditor) {
		if err := m.Decode(msg); err != nil {
			n.s.w.fail("switch %s: %v", n.id, err)
		}
		for table := range m.Tables().All() {
			return int(table.ActiveCount)
		}
	}
	return 0
}
