package packet

import (
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Types of ICMPv6 for neighbour discovery (RFC 4861).
const (
	NeighbourSolicitation  = 135
	NeighbourAdvertisement = 136
)

// Options and flags of neighbour discovery.
const (
	neighbourLen = 24 // of a message, without options
	sourceMAC    = 1
	targetMAC    = 2
	solicited    = 0x40
	override     = 0x20
	isRouter     = 0x80
)

// Neighbour is a message by which hosts find the Ethernet address for an IP address: ARP for IPv4, or a neighbour
// solicitation or advertisement for IPv6.
type Neighbour struct {
	From netip.Addr // an address of the sender; unspecified if it has none yet
	MAC  of13.MAC   // for From; zero if the message does not say
	Asks netip.Addr // of a request, for what address; else invalid

	src of13.MAC // of the frame
}

// ParseNeighbour reads a frame; false if it is no valid message of this kind.
func ParseNeighbour(frame []byte) (n Neighbour, ok bool) {
	if p, ok := Parse(frame); ok && p.ARP != 0 {
		n = Neighbour{From: p.From, MAC: of13.MAC(frame[arpSender:]), src: p.Src}
		if p.ARP == ARPRequest {
			n.Asks = p.To
		}
		return n, p.ARP <= ARPReply && n.MAC[0]&1 == 0
	}
	p, ok := ParseIP(frame)
	m := p.Payload
	if !ok || !p.To.Is6() || p.Protocol != ICMPv6 || p.TTL != maxTTL || !p.Whole || len(m) < neighbourLen ||
		m[1] != 0 || sum(pseudo(p.From, p.To, len(m)), m) != 0xffff {
		return n, false
	}
	target, option := netip.AddrFrom16([16]byte(m[8:])), byte(sourceMAC)
	switch m[0] {
	case NeighbourSolicitation:
		n = Neighbour{From: p.From, Asks: target, src: p.Src}
	case NeighbourAdvertisement:
		n, option = Neighbour{From: target, src: p.Src}, targetMAC
	default:
		return n, false
	}
	for rest := m[neighbourLen:]; len(rest) > 0; {
		if len(rest) < 8 || rest[1] == 0 || 8*int(rest[1]) > len(rest) {
			return Neighbour{}, false
		}
		if rest[0] == option && rest[1] == 1 {
			n.MAC = of13.MAC(rest[2:])
		}
		rest = rest[8*int(rest[1]):]
	}
	return n, !target.IsMulticast() && n.MAC[0]&1 == 0
}

// Ask returns a request for the Ethernet address of an IP address, from a host with these addresses. It goes to all
// hosts that may have the address.
func Ask(mac of13.MAC, from, to netip.Addr) []byte {
	if to.Is4() {
		asked := Packet{Src: of13.MAC{}, From: to, To: from}
		b := asked.Reply(mac)
		b[etherLen+7] = ARPRequest
		copy(b, []byte{255, 255, 255, 255, 255, 255})
		return b
	}
	a := to.As16()
	group := [16]byte{0: 0xff, 1: 2, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]}
	p := IP{Src: mac, Dst: of13.MAC{0x33, 0x33, 0xff, a[13], a[14], a[15]}, From: from,
		To: netip.AddrFrom16(group), TTL: maxTTL}
	return p.append(message(NeighbourSolicitation, 0, to, sourceMAC, mac))
}

// Reply returns the answer to a request, from a router: mac has the address.
func (n *Neighbour) Reply(mac of13.MAC) []byte {
	if n.Asks.Is4() {
		asked := Packet{Src: n.MAC, From: n.From, To: n.Asks}
		return asked.Reply(mac)
	}
	p := IP{Src: mac, Dst: n.src, From: n.Asks, To: n.From, TTL: maxTTL}
	flags := byte(isRouter | override | solicited)
	if n.From.IsUnspecified() { // it tests whether the address is free (RFC 4861, section 7.2.4)
		p.Dst, p.To = of13.MAC{0x33, 0x33, 0, 0, 0, 1}, netip.IPv6LinkLocalAllNodes()
		flags = isRouter | override
	}
	return p.append(message(NeighbourAdvertisement, flags, n.Asks, targetMAC, mac))
}

// message returns a message of neighbour discovery without a checksum.
func message(kind, flags byte, target netip.Addr, option byte, mac of13.MAC) []byte {
	b := append([]byte{kind, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	return append(append(b, option, 1), mac[:]...)
}
