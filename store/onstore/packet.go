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

	// flowHardTimeout ends an entry that is used, since nobody deletes one that leads to where a host was.
	flowHardTimeout = 120
)

// messages appends what makes a switch react to a packet.
func (r Reaction) messages(dst []byte, p *Packet, in *of13.PacketIn) []byte {
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: p.InPort, Data: in.Data}
	switch {
	case r.MAC != of13.MAC{}:
		out.InPort, out.Data = of13.PortController, p.Reply(r.MAC)
		out.Actions = of13.Actions(nil).Output(p.InPort, 0)
	case r.Member != nil:
		to, back := p.Redirect(p.InPort, r.Member, memberIdleTimeout)
		for _, e := range []packet.Entry{back, to} { // so that what a member answers finds its way
			dst = add(dst, of13.FlowMod{Priority: balancePriority, IdleTimeout: e.IdleTimeout, Match: e.Match},
				e.Actions)
		}
		out.Actions = to.Actions
	case r.Out == 0 || r.Out == p.InPort:
		return dst
	default:
		out.Actions = of13.Actions(nil).Output(r.Out, 0)
		if r.Out != of13.PortFlood && !r.Once {
			match := of13.Match(nil).WithInPort(p.InPort).WithEthDst(p.Dst).WithEthSrc(p.Src)
			dst = add(dst, of13.FlowMod{Priority: switchPriority, IdleTimeout: flowIdleTimeout,
				HardTimeout: flowHardTimeout, Match: match}, out.Actions)
		}
	}
	return out.Append(dst, 0)
}

// add appends a flow entry.
func add(dst []byte, m of13.FlowMod, actions of13.Actions) []byte {
	m.BufferID, m.Instructions = of13.NoBuffer, m.Instructions.Apply(actions)
	return m.Append(dst, 0)
}
