// Package packet reads what simple applications need of a packet: the addresses of Ethernet without VLAN, ARP (RFC
// 826), IPv4 (RFC 791) and IPv6 (RFC 8200), and neighbour discovery (RFC 4861). It makes what a router answers: replies
// of ARP and neighbour discovery, of ICMP and ICMPv6 echo, and their errors. A Class is a set of packets in the words
// of a configuration. It is not a parser of protocols: gopacket is one.
package packet

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// EtherTypes.
const (
	IPv4 = 0x0800
	ARP  = 0x0806
	LLDP = 0x88cc
)

// Operations of ARP.
const (
	ARPRequest = 1
	ARPReply   = 2
)

// Sizes and offsets in bytes.
const (
	etherLen   = 14
	arpLen     = 28
	ipv4Len    = 20
	arpSender  = etherLen + 8 // its addresses of Ethernet and IPv4, then those of the target
	ipv4Source = etherLen + 12
)

// arpOfIPv4 is how ARP for IPv4 over Ethernet begins: the types of the addresses, and their sizes.
const arpOfIPv4 = "\x00\x01\x08\x00\x06\x04"

// Packet has the addresses of a packet.
type Packet struct {
	Src, Dst of13.MAC
	Type     uint16     // of Ethernet
	From, To netip.Addr // of IPv4, and of ARP; else invalid
	ARP      uint16     // operation; 0: it is no ARP
}

// Parse reads a packet; false if it is none of Ethernet. It may be cut off after the headers.
func Parse(b []byte) (p Packet, ok bool) {
	if len(b) < etherLen {
		return p, false
	}
	p = Packet{Dst: of13.MAC(b[0:6]), Src: of13.MAC(b[6:12]), Type: binary.BigEndian.Uint16(b[12:])}
	switch {
	case p.Type == ARP && len(b) >= etherLen+arpLen && string(b[etherLen:arpSender-2]) == arpOfIPv4:
		if p.ARP = binary.BigEndian.Uint16(b[etherLen+6:]); p.ARP != 0 { // else it would look like IPv4
			p.From = netip.AddrFrom4([4]byte(b[arpSender+6:]))
			p.To = netip.AddrFrom4([4]byte(b[arpSender+16:]))
		}
	case p.Type == IPv4 && len(b) >= etherLen+ipv4Len && b[etherLen]>>4 == 4:
		p.From, p.To = netip.AddrFrom4([4]byte(b[ipv4Source:])), netip.AddrFrom4([4]byte(b[ipv4Source+4:]))
	}
	return p, true
}

// ParseMAC reads an address of Ethernet that a host can have.
func ParseMAC(text string) (of13.MAC, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != len(of13.MAC{}) || mac[0]&1 != 0 || of13.MAC(mac) == (of13.MAC{}) {
		return of13.MAC{}, fmt.Errorf("mac %q: use the address of one host, such as 02:00:00:00:00:01", text)
	}
	return of13.MAC(mac), nil
}

// HostMAC is an address of Ethernet that a host can have. In a configuration it is a text.
type HostMAC of13.MAC

// UnmarshalText reads an address.
func (m *HostMAC) UnmarshalText(text []byte) error {
	mac, err := ParseMAC(string(text))
	*m = HostMAC(mac)
	return err
}

// MarshalText returns what UnmarshalText reads.
func (m HostMAC) MarshalText() ([]byte, error) { return []byte(of13.MAC(m).String()), nil }

// Reply returns an ARP reply to a request, which says that mac has the address.
func (p *Packet) Reply(mac of13.MAC) []byte {
	b := make([]byte, 0, etherLen+arpLen)
	b = append(append(append(b, p.Src[:]...), mac[:]...), ARP>>8, ARP&0xff, 0, 1, IPv4>>8, IPv4&0xff, 6, 4, 0, ARPReply)
	b = append(append(b, mac[:]...), p.To.AsSlice()...)
	return append(append(b, p.Src[:]...), p.From.AsSlice()...)
}
