package topology

import (
	"encoding/binary"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeVLAN = 0x8100
	typeQinQ = 0x88a8
	typeIPv6 = 0x86dd

	protoUDP    = 17
	protoICMPv6 = 58

	neighbourSolicitation  = 135
	neighbourAdvertisement = 136

	dhcpServerPort, dhcpClientPort = 67, 68
)

// sighting is what a frame tells of hosts.
type sighting struct {
	mac  app.MAC    // of the sender
	addr netip.Addr // of the sender; zero if the frame does not tell
	said bool       // the sender says that addr is its own; else it may be a router, and addr somebody's behind it

	leaser app.MAC // to whom a DHCP server gives lease
	lease  netip.Addr
}

// look reads a frame of ARP, IPv4 or IPv6, with up to two VLAN tags. Other frames, and those from no host's address,
// tell nothing; nor does the part of a frame that is cut off or wrong.
func look(frame []byte) (s sighting, ok bool) {
	if len(frame) < ethLen {
		return s, false
	}
	copy(s.mac[:], frame[6:])
	if s.mac[0]&1 != 0 || s.mac == (app.MAC{}) {
		return s, false
	}
	ethType, b := binary.BigEndian.Uint16(frame[12:]), frame[ethLen:]
	for tags := 0; tags < 2 && (ethType == typeVLAN || ethType == typeQinQ) && len(b) >= 4; tags++ {
		ethType, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	switch ethType {
	case typeARP:
		s.arp(b)
	case typeIPv4:
		s.ipv4(b)
	case typeIPv6:
		s.ipv6(b)
	default:
		return s, false
	}
	return s, true
}

// note takes an address that a host can have.
func (s *sighting) note(a netip.Addr, said bool) {
	if !unicast(a) {
		return
	}
	s.addr, s.said = a, said
}

func unicast(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func (s *sighting) arp(b []byte) {
	const ethernetIPv4 = "\x00\x01\x08\x00\x06\x04"
	if len(b) >= 28 && string(b[:6]) == ethernetIPv4 && app.MAC(b[8:14]) == s.mac {
		s.note(netip.AddrFrom4([4]byte(b[14:18])), true)
	}
}

func (s *sighting) ipv4(b []byte) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return
	}
	s.note(netip.AddrFrom4([4]byte(b[12:16])), false)
	header := int(b[0]&15) * 4
	fragment := binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	if b[9] != protoUDP || fragment || header < 20 || len(b) < header+8 {
		return
	}
	udp := b[header:]
	src, dst := binary.BigEndian.Uint16(udp), binary.BigEndian.Uint16(udp[2:])
	switch {
	case src == dhcpClientPort && dst == dhcpServerPort,
		src == dhcpServerPort && (dst == dhcpClientPort || dst == dhcpServerPort):
		s.dhcp(udp[8:])
	}
}

// dhcp reads a message of DHCP (RFC 2131): a client tells which address it has, an acknowledgement which it gets.
func (s *sighting) dhcp(b []byte) {
	const options, magic = 240, "\x63\x82\x53\x63"
	if len(b) < options || string(b[236:options]) != magic || b[1] != 1 || b[2] != 6 {
		return
	}
	client := app.MAC(b[28:34])
	switch b[0] {
	case 1:
		if client == s.mac { // else it is a relay's
			s.note(netip.AddrFrom4([4]byte(b[12:16])), true)
		}
	case 2:
		if a := netip.AddrFrom4([4]byte(b[16:20])); unicast(a) && acknowledges(b[options:]) {
			s.leaser, s.lease = client, a
		}
	}
}

// acknowledges looks for the type of a DHCP message among its options.
func acknowledges(options []byte) bool {
	for len(options) >= 2 && options[0] != 255 {
		if options[0] == 0 {
			options = options[1:]
			continue
		}
		n := int(options[1])
		if len(options) < 2+n {
			return false
		}
		if options[0] == 53 && n == 1 {
			return options[2] == 5
		}
		options = options[2+n:]
	}
	return false
}

func (s *sighting) ipv6(b []byte) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return
	}
	src := netip.AddrFrom16([16]byte(b[8:24]))
	s.note(src, false)
	if b[6] != protoICMPv6 || len(b) < 44 || b[7] != 255 { // what a router passed on has another hop limit
		return
	}
	switch b[40] {
	case neighbourSolicitation:
		s.note(src, true)
	case neighbourAdvertisement:
		if len(b) >= 64 {
			s.note(netip.AddrFrom16([16]byte(b[48:64])), true)
		}
	}
}
