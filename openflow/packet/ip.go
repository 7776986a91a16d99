package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// IPv6 is the EtherType of RFC 8200.
const IPv6 = 0x86dd

// Protocols of IP.
const (
	ICMP   = 1
	ICMPv6 = 58
)

const (
	ipv6Len = 40
	icmpLen = 8

	startTTL = 64  // of packets that this package makes
	maxTTL   = 255 // of neighbour discovery: it shows that no router has forwarded the packet

	// quoted is how much of a packet an ICMP error has at most. RFC 1812 (section 4.3.2.3) and RFC 4443 (section 2.4)
	// allow 576 and 1,280 bytes with all headers.
	quoted = 500
)

// IP is a packet of IPv4 or IPv6 in a frame without VLAN.
type IP struct {
	Src, Dst of13.MAC
	From, To netip.Addr
	TTL      uint8 // or hop limit
	Protocol uint8 // or the type of the first header after that of IPv6: extension headers are not followed
	Fragment bool  // it is not the first one, so Payload does not begin with the header of the protocol
	Payload  []byte
	Whole    bool // the frame has all of the packet

	packet []byte // from the header of IP on
}

// ParseIP reads a frame; false if it is none with a valid header of IP. It may be cut off after that header.
func ParseIP(frame []byte) (p IP, ok bool) {
	if len(frame) < etherLen {
		return p, false
	}
	b := frame[etherLen:]
	p = IP{Dst: of13.MAC(frame[0:6]), Src: of13.MAC(frame[6:12])}
	size, total := 0, 0
	switch ether := binary.BigEndian.Uint16(frame[12:]); {
	case ether == IPv4 && len(b) >= ipv4Len && b[0]>>4 == 4:
		size, total = 4*int(b[0]&15), int(binary.BigEndian.Uint16(b[2:]))
		p.TTL, p.Protocol, p.Fragment = b[8], b[9], binary.BigEndian.Uint16(b[6:])&0x1fff != 0
		p.From, p.To = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		if size < ipv4Len || size > len(b) || sum(0, b[:size]) != 0xffff {
			return p, false
		}
	case ether == IPv6 && len(b) >= ipv6Len && b[0]>>4 == 6:
		size, total = ipv6Len, ipv6Len+int(binary.BigEndian.Uint16(b[4:]))
		p.TTL, p.Protocol = b[7], b[6]
		p.From, p.To = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return p, false
	}
	if total < size {
		return p, false
	}
	p.Whole = len(b) >= total
	p.packet = b[:min(total, len(b))]
	p.Payload = p.packet[size:]
	return p, true
}

// sum adds 16-bit words in ones' complement (RFC 1071).
func sum(start uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		start += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) > 0 {
		start += uint32(b[0]) << 8
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return start
}

// pseudo is the sum of what a checksum over IPv6 covers besides the payload (RFC 8200, section 8.1).
func pseudo(from, to netip.Addr, size int) uint32 {
	return sum(sum(uint32(size)+ICMPv6, from.AsSlice()), to.AsSlice())
}

// append appends the packet with a payload of ICMP or ICMPv6, and sets the checksums.
func (p *IP) append(icmp []byte) []byte {
	b := append(append([]byte(nil), p.Dst[:]...), p.Src[:]...)
	start := uint32(0)
	if p.To.Is4() {
		b = append(b, IPv4>>8, IPv4&0xff, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(ipv4Len+len(icmp)))
		b = append(b, 0, 0, 0, 0, p.TTL, ICMP, 0, 0)
		b = append(append(b, p.From.AsSlice()...), p.To.AsSlice()...)
		binary.BigEndian.PutUint16(b[etherLen+10:], ^uint16(sum(0, b[etherLen:])))
	} else {
		b = append(b, IPv6>>8, IPv6&0xff, 0x60, 0, 0, 0)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(icmp))), ICMPv6, p.TTL)
		b = append(append(b, p.From.AsSlice()...), p.To.AsSlice()...)
		start = pseudo(p.From, p.To, len(icmp))
	}
	head := len(b)
	b = append(b, icmp...)
	b[head+2], b[head+3] = 0, 0
	binary.BigEndian.PutUint16(b[head+2:], ^uint16(sum(start, b[head:])))
	return b
}
