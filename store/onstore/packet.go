package onstore

import (
	"encoding/binary"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Sizes and offsets in packets of Ethernet without VLAN, ARP (RFC 826) and IPv4 (RFC 791), in bytes.
const (
	etherLen   = 14
	arpLen     = 28
	ipv4Len    = 20
	arpSender  = etherLen + 8 // its addresses of Ethernet and IPv4, then those of the target
	ipv4Source = etherLen + 12
)

// parsePacket reads a packet; false if it is none of Ethernet.
func parsePacket(id openflow.DatapathID, port of13.Port, b []byte) (p Packet, ok bool) {
	if len(b) < etherLen {
		return p, false
	}
	p = Packet{Switch: id, InPort: port, Dst: of13.MAC(b[0:6]), Src: of13.MAC(b[6:12]),
		Type: binary.BigEndian.Uint16(b[12:])}
	switch {
	case p.Type == typeARP && len(b) >= etherLen+arpLen:
		p.ARP = binary.BigEndian.Uint16(b[etherLen+6:])
		p.From = netip.AddrFrom4([4]byte(b[arpSender+6:]))
		p.To = netip.AddrFrom4([4]byte(b[arpSender+16:]))
	case p.Type == typeIPv4 && len(b) >= etherLen+ipv4Len:
		p.From, p.To = netip.AddrFrom4([4]byte(b[ipv4Source:])), netip.AddrFrom4([4]byte(b[ipv4Source+4:]))
	}
	return p, true
}

// reply returns an ARP reply to a request, which says that mac has the address.
func (p *Packet) reply(mac of13.MAC) []byte {
	b := make([]byte, 0, etherLen+arpLen)
	b = append(append(append(b, p.Src[:]...), mac[:]...), 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, arpReply)
	b = append(append(b, mac[:]...), p.To.AsSlice()...)
	return append(append(b, p.Src[:]...), p.From.AsSlice()...)
}

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
		out.InPort, out.Data = of13.PortController, p.reply(r.MAC)
		out.Actions = of13.Actions(nil).Output(p.InPort, 0)
	case r.Member != nil:
		dst, out.Actions = r.Member.flows(dst, p)
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

// flows appends entries for a host's packets to a virtual address, and those of the member to the host, which then
// come from the virtual address. It returns the actions for the first packet.
func (m *Member) flows(dst []byte, p *Packet) ([]byte, of13.Actions) {
	whole := [4]byte{255, 255, 255, 255}
	member, host, vip := m.Address.As4(), p.From.As4(), p.To.As4()
	set := func(mac of13.MAC, ether, ip of13.Field, address [4]byte) of13.Actions {
		return of13.Actions(nil).SetField(of13.Exact(ether, mac[:])).SetField(of13.Exact(ip, address[:]))
	}
	to := set(m.MAC, of13.FieldEthDst, of13.FieldIPv4Dst, member).Output(m.Port, 0)
	back := set(p.Dst, of13.FieldEthSrc, of13.FieldIPv4Src, vip).Output(p.InPort, 0)
	ip := of13.Match(nil).WithEthType(typeIPv4)
	dst = add(dst, balancePriority, memberIdleTimeout, ip.WithIPv4Src(member, whole).WithIPv4Dst(host, whole), back)
	ip = of13.Match(nil).WithEthType(typeIPv4)
	dst = add(dst, balancePriority, memberIdleTimeout, ip.WithIPv4Src(host, whole).WithIPv4Dst(vip, whole), to)
	return dst, to
}

// add appends a flow entry.
func add(dst []byte, priority, idle uint16, match of13.Match, actions of13.Actions) []byte {
	m := of13.FlowMod{Command: of13.FlowAdd, Priority: priority, IdleTimeout: idle, BufferID: of13.NoBuffer,
		Match: match, Instructions: of13.Instructions(nil).Apply(actions)}
	return m.Append(dst, 0)
}
