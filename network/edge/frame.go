package edge

import (
	"encoding/binary"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	ethLen    = 14
	maxLength = 2048 // of a frame; discovery needs less

	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeVLAN = 0x8100
	typeQinQ = 0x88a8
	typeIPv6 = 0x86dd

	protoHopByHop = 0
	protoUDP      = 17
	protoICMPv6   = 58

	firstMLD, lastMLD, reportMLDv2 = 130, 132, 143

	routerSolicitation, routerAdvertisement       = 133, 134
	neighbourSolicitation, neighbourAdvertisement = 135, 136
)

// frame is what one of discovery says.
type frame struct {
	from  app.MAC
	group bool       // it is for more than one host
	asks  netip.Addr // who has this; zero if it does not ask that
	says  netip.Addr // the sender has this; zero if it does not say that
}

// read reads a frame of ARP, IPv6 discovery, MLD or DHCP, with up to two VLAN tags. Others are not ok, nor are those
// that end too early or do not come from a host.
func read(b []byte) (f frame, ok bool) {
	if len(b) < ethLen || len(b) > maxLength {
		return f, false
	}
	f.from, f.group = app.MAC(b[6:12]), b[0]&1 != 0
	if f.from[0]&1 != 0 || f.from == (app.MAC{}) {
		return f, false
	}
	ethType, b := binary.BigEndian.Uint16(b[12:]), b[ethLen:]
	for tags := 0; tags < 2 && (ethType == typeVLAN || ethType == typeQinQ) && len(b) >= 4; tags++ {
		ethType, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	switch ethType {
	case typeARP:
		ok = f.arp(b)
	case typeIPv4:
		ok = isDHCP(b)
	case typeIPv6:
		ok = f.ipv6(b)
	}
	return f, ok
}

func (f *frame) arp(b []byte) bool {
	const ethernetIPv4, request = "\x00\x01\x08\x00\x06\x04", 1
	if len(b) < 28 || string(b[:6]) != ethernetIPv4 || app.MAC(b[8:14]) != f.from {
		return false
	}
	f.says = netip.AddrFrom4([4]byte(b[14:18]))
	if binary.BigEndian.Uint16(b[6:]) == request {
		f.asks = netip.AddrFrom4([4]byte(b[24:28]))
	}
	return true
}

func isDHCP(b []byte) bool {
	if len(b) < 20 || b[0]>>4 != 4 {
		return false
	}
	header := int(b[0]&15) * 4
	fragment := binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	return b[9] == protoUDP && !fragment && header >= 20 && toPort(b[min(header, len(b)):], 67, 68)
}

func toPort(udp []byte, a, b uint16) bool {
	if len(udp) < 8 {
		return false
	}
	port := binary.BigEndian.Uint16(udp[2:])
	return port == a || port == b
}

func (f *frame) ipv6(b []byte) bool {
	if len(b) < 40 || b[0]>>4 != 6 {
		return false
	}
	next, hops, src, b := b[6], b[7], netip.AddrFrom16([16]byte(b[8:24])), b[40:]
	if next == protoHopByHop && len(b) >= 8 { // MLD has a router alert
		n := 8 * (int(b[1]) + 1)
		next, b = b[0], b[min(n, len(b)):]
	}
	switch {
	case next == protoUDP:
		return toPort(b, 546, 547)
	case next != protoICMPv6 || len(b) < 4:
		return false
	}
	kind, local := b[0], hops == 255 // what a router passed on has another hop limit
	switch {
	case kind >= firstMLD && kind <= lastMLD, kind == reportMLDv2:
		return true
	case !local:
		return false
	case kind == routerSolicitation, kind == routerAdvertisement:
		return true
	case len(b) < 24:
		return false
	case kind == neighbourSolicitation:
		f.says, f.asks = src, netip.AddrFrom16([16]byte(b[8:24]))
		return true
	case kind == neighbourAdvertisement:
		f.says = netip.AddrFrom16([16]byte(b[8:24]))
		return true
	}
	return false
}
