package onstore

import (
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Priorities of flow entries, and how long they stay in a switch without packets, in seconds.
const (
	switchPriority    = 10
	balancePriority   = 20
	flowIdleTimeout   = 60
	memberIdleTimeout = 30
)

// messages appends what makes a switch react to a packet.
func (r Reaction) messages(dst []byte, p *Packet, in *of13.PacketIn) []byte {
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: p.InPort, Data: in.Data}
	switch {
	case r.MAC != of13.MAC{}:
		out.InPort, out.Data = of13.PortController, p.Reply(r.MAC)
		out.Actions = of13.Actions(nil).Output(p.InPort, 0)
	case r.Member != nil:
		to, back := p.Redirect(p.InPort, r.Member)
		for _, e := range []packet.Entry{back, to} { // so that what a member answers finds its way
			dst = add(dst, balancePriority, memberIdleTimeout, e.Match, e.Actions)
		}
		out.Actions = to.Actions
	case r.Out == 0 || r.Out == p.InPort:
		return dst
	default:
		out.Actions = of13.Actions(nil).Output(r.Out, 0)
		if r.Out != of13.PortFlood && !r.Once {
			match := of13.Match(nil).WithInPort(p.InPort).WithEthDst(p.Dst).WithEthSrc(p.Src)
			dst = add(dst, switchPriority, flowIdleTimeout, match, out.Actions)
		}
	}
	return out.Append(dst, 0)
}

// add appends a flow entry.
func add(dst []byte, priority, idle uint16, match of13.Match, actions of13.Actions) []byte {
	m := of13.FlowMod{Command: of13.FlowAdd, Priority: priority, IdleTimeout: idle, BufferID: of13.NoBuffer,
		Match: match, Instructions: of13.Instructions(nil).Apply(actions)}
	return m.Append(dst, 0)
}
