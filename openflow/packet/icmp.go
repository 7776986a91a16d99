package packet

import "net/netip"

// ICMPError is a reason why a router does not forward a packet.
type ICMPError uint8

// The reasons.
const (
	TimeExceeded ICMPError = iota
	NoRoute
	HostUnreachable
	PortUnreachable
)

// errorTypes has type and code of each ICMPError in ICMP (RFC 792) and in ICMPv6 (RFC 4443).
var errorTypes = [...]struct{ v4, v6 [2]byte }{
	TimeExceeded:    {[2]byte{11, 0}, [2]byte{3, 0}},
	NoRoute:         {[2]byte{3, 0}, [2]byte{1, 0}},
	HostUnreachable: {[2]byte{3, 1}, [2]byte{1, 3}},
	PortUnreachable: {[2]byte{3, 3}, [2]byte{1, 4}},
}

// Types of ICMP and ICMPv6.
const (
	echoReply     = 0
	echoRequest   = 8
	echoRequestV6 = 128
	echoReplyV6   = 129
)

// isICMP reports whether the protocol is that of ICMP for the version of IP.
func (p *IP) isICMP() bool {
	return p.To.Is4() && p.Protocol == ICMP || p.To.Is6() && p.Protocol == ICMPv6
}

// Echo returns the reply to an echo request; nil if the packet is no whole request to one host. Fragments are not
// reassembled, so they have no reply.
func (p *IP) Echo() []byte {
	request, reply := byte(echoRequest), byte(echoReply)
	if p.To.Is6() {
		request, reply = echoRequestV6, echoReplyV6
	}
	if !p.isICMP() || !p.Whole || !p.one() || len(p.Payload) < icmpLen || p.Payload[0] != request {
		return nil
	}
	if p.To.Is4() && (p.packet[6]&0x3f != 0 || p.packet[7] != 0) { // a fragment
		return nil
	}
	start := uint32(0)
	if p.To.Is6() {
		start = pseudo(p.From, p.To, len(p.Payload))
	}
	if sum(start, p.Payload) != 0xffff {
		return nil
	}
	back := IP{Src: p.Dst, Dst: p.Src, From: p.To, To: p.From, TTL: startTTL}
	return back.append(append([]byte{reply, 0}, p.Payload[2:]...))
}

// Local returns the answer of a host to a packet for an address of its own: to an echo request, or that it has no port
// for the packet; nil if there is none.
func (p *IP) Local() []byte {
	if p.isICMP() {
		return p.Echo()
	}
	return p.Error(PortUnreachable, p.To)
}

// Error returns an ICMP error about a packet, from an address of the router; nil if the packet must not have one (RFC
// 1122, section 3.2.2, and RFC 4443, section 2.4).
func (p *IP) Error(e ICMPError, from netip.Addr) []byte {
	if from.BitLen() != p.From.BitLen() || !p.one() || p.Fragment || p.isICMP() && !p.informs() {
		return nil
	}
	code := errorTypes[e].v4
	if p.To.Is6() {
		code = errorTypes[e].v6
	}
	back := IP{Src: p.Dst, Dst: p.Src, From: from, To: p.From, TTL: startTTL}
	return back.append(append([]byte{code[0], code[1], 0, 0, 0, 0, 0, 0}, p.packet[:min(len(p.packet), quoted)]...))
}

// one reports whether the packet is from one host and to one.
func (p *IP) one() bool {
	return p.Dst[0]&1 == 0 && !p.To.IsMulticast() && !p.From.IsMulticast() && !p.From.IsUnspecified() &&
		!p.From.IsLoopback() && p.From != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// informs reports whether a packet of ICMP is a query or a reply, and no error.
func (p *IP) informs() bool {
	if len(p.Payload) == 0 {
		return false
	}
	if p.To.Is6() {
		return p.Payload[0] >= echoRequestV6 // the errors have lower numbers
	}
	return p.Payload[0] == echoRequest || p.Payload[0] == echoReply || p.Payload[0] >= 13
}
