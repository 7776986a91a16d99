package vswitch

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	ethLen = 14
	// maxTags and maxExtHeaders bound the parser.
	maxTags       = 8
	maxExtHeaders = 8
)

const (
	typeIPv4   = 0x0800
	typeARP    = 0x0806
	typeVLAN   = 0x8100
	typeIPv6   = 0x86dd
	typeMPLS   = 0x8847
	typeMPLSmc = 0x8848
	typeQinQ   = 0x88a8
	typePBB    = 0x88e7

	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
	protoSCTP   = 132
)

// layers has the offsets of the headers of a frame; 0 is "not present".
type layers struct {
	tags     int    // VLAN tags
	etherAt  int    // the ethertype of the payload, behind the tags
	ether    uint16 // that ethertype
	l3, l4   int
	proto    uint8 // of l4
	sll, tll int   // link-layer addresses in neighbour discovery
}

// parse fills the packet's part of k (section 7.2.3.7) and finds the headers of a frame of at least ethLen bytes.
// Headers that are truncated, or in a later fragment, are not present: their fields are 0.
func parse(frame []byte, k *key) (l layers) {
	clear(k[pipelineLen:])
	copy(k.field(of13.FieldEthDst), frame[0:6])
	copy(k.field(of13.FieldEthSrc), frame[6:12])
	l.etherAt = 12
	l.ether = binary.BigEndian.Uint16(frame[12:])
	for (l.ether == typeVLAN || l.ether == typeQinQ) && l.tags < maxTags && len(frame) >= l.etherAt+6 {
		if l.tags == 0 {
			tci := binary.BigEndian.Uint16(frame[14:])
			k.put16(of13.FieldVLANVID, tci&0xfff|of13.VLANPresent)
			k.put8(of13.FieldVLANPCP, uint8(tci>>13))
		}
		l.tags++
		l.etherAt += 4
		l.ether = binary.BigEndian.Uint16(frame[l.etherAt:])
	}
	k.put16(of13.FieldEthType, l.ether)
	l.l3 = l.etherAt + 2
	b := frame[l.l3:]
	ok := false
	switch l.ether {
	case typeIPv4:
		ok = parseIPv4(b, k, &l)
	case typeIPv6:
		ok = parseIPv6(b, k, &l)
	case typeARP:
		ok = parseARP(b, k)
	case typeMPLS, typeMPLSmc:
		if ok = len(b) >= 4; ok {
			v := binary.BigEndian.Uint32(b)
			k.put32(of13.FieldMPLSLabel, v>>12)
			k.put8(of13.FieldMPLSTC, uint8(v>>9&7))
			k.put8(of13.FieldMPLSBOS, uint8(v>>8&1))
		}
	case typePBB:
		if ok = len(b) >= 4; ok {
			copy(k.field(of13.FieldPBBISID), b[1:4])
		}
	}
	if !ok {
		l.l3 = 0
	}
	if l.l4 != 0 && !parseL4(frame[l.l4:], k, &l) {
		l.l4 = 0
	}
	return l
}

func parseIPv4(b []byte, k *key, l *layers) bool {
	if len(b) < 20 || b[0]>>4 != 4 {
		return false
	}
	header := int(b[0]&15) * 4
	if header < 20 || header > len(b) {
		return false
	}
	k.put8(of13.FieldIPDSCP, b[1]>>2)
	k.put8(of13.FieldIPECN, b[1]&3)
	k.put8(of13.FieldIPProto, b[9])
	copy(k.field(of13.FieldIPv4Src), b[12:16])
	copy(k.field(of13.FieldIPv4Dst), b[16:20])
	if binary.BigEndian.Uint16(b[6:])&0x1fff == 0 {
		l.proto, l.l4 = b[9], l.l3+header
	}
	return true
}

// Bits of IPV6_EXTHDR (section 7.2.3.7).
const (
	extNoNext uint16 = 1 << iota
	extESP
	extAuth
	extDest
	extFrag
	extRouter
	extHop
	extRepeated
	extUnordered
)

func parseIPv6(b []byte, k *key, l *layers) bool {
	if len(b) < 40 || b[0]>>4 != 6 {
		return false
	}
	v := binary.BigEndian.Uint32(b)
	k.put8(of13.FieldIPDSCP, uint8(v>>22&0x3f))
	k.put8(of13.FieldIPECN, uint8(v>>20&3))
	k.put32(of13.FieldIPv6FLabel, v&0xfffff)
	copy(k.field(of13.FieldIPv6Src), b[8:24])
	copy(k.field(of13.FieldIPv6Dst), b[24:40])
	next, at, seen, first := b[6], 40, uint16(0), true
	rank := 0
	for range maxExtHeaders {
		bit, order := extension(next)
		if bit == 0 {
			break
		}
		if seen&bit != 0 && bit != extDest {
			seen |= extRepeated
		}
		if order < rank && bit != extDest {
			seen |= extUnordered
		}
		rank = max(rank, order)
		seen |= bit
		if bit == extNoNext || bit == extESP || len(b) < at+8 {
			first = false // nothing readable follows
			break
		}
		size := 8 * (int(b[at+1]) + 1)
		switch bit {
		case extFrag:
			size = 8
			first = first && binary.BigEndian.Uint16(b[at+2:])&0xfff8 == 0
		case extAuth:
			size = 4 * (int(b[at+1]) + 2)
		}
		next, at = b[at], at+size
		if at > len(b) || !first {
			first = false
			break
		}
	}
	k.put8(of13.FieldIPProto, next)
	k.put16(of13.FieldIPv6ExtHdr, seen)
	if first {
		l.proto, l.l4 = next, l.l3+at
	}
	return true
}

// extension returns the bit of an IPv6 extension header and its place in the order that RFC 8200 recommends; 0 for
// other headers.
func extension(next uint8) (bit uint16, order int) {
	switch next {
	case 0:
		return extHop, 1
	case 60:
		return extDest, 2
	case 43:
		return extRouter, 3
	case 44:
		return extFrag, 4
	case 51:
		return extAuth, 5
	case 50:
		return extESP, 6
	case 59:
		return extNoNext, 7
	}
	return 0, 0
}

func parseARP(b []byte, k *key) bool {
	// Ethernet and IPv4 addresses only: the fields have no other form.
	if len(b) < 28 || binary.BigEndian.Uint32(b) != 0x00010800 || b[4] != 6 || b[5] != 4 {
		return false
	}
	copy(k.field(of13.FieldARPOp), b[6:8])
	copy(k.field(of13.FieldARPSHA), b[8:14])
	copy(k.field(of13.FieldARPSPA), b[14:18])
	copy(k.field(of13.FieldARPTHA), b[18:24])
	copy(k.field(of13.FieldARPTPA), b[24:28])
	return true
}

// parseL4 reads the header of l.proto from b.
func parseL4(b []byte, k *key, l *layers) bool {
	switch l.proto {
	case protoTCP:
		return parsePorts(b, k, 20, of13.FieldTCPSrc, of13.FieldTCPDst)
	case protoUDP:
		return parsePorts(b, k, 8, of13.FieldUDPSrc, of13.FieldUDPDst)
	case protoSCTP:
		return parsePorts(b, k, 12, of13.FieldSCTPSrc, of13.FieldSCTPDst)
	case protoICMP:
		if len(b) < 8 || l.ether != typeIPv4 {
			return false
		}
		k.put8(of13.FieldICMPv4Type, b[0])
		k.put8(of13.FieldICMPv4Code, b[1])
		return true
	case protoICMPv6:
		if len(b) < 8 || l.ether != typeIPv6 {
			return false
		}
		k.put8(of13.FieldICMPv6Type, b[0])
		k.put8(of13.FieldICMPv6Code, b[1])
		parseND(b, k, l)
		return true
	}
	return false
}

func parsePorts(b []byte, k *key, least int, src, dst of13.Field) bool {
	if len(b) < least {
		return false
	}
	copy(k.field(src), b[0:2])
	copy(k.field(dst), b[2:4])
	return true
}

// parseND reads neighbour solicitations and advertisements.
func parseND(b []byte, k *key, l *layers) {
	if b[0] != 135 && b[0] != 136 || b[1] != 0 || len(b) < 24 {
		return
	}
	copy(k.field(of13.FieldIPv6NDTarget), b[8:24])
	for at := 24; at+8 <= len(b) && b[at+1] != 0; at += 8 * int(b[at+1]) {
		switch {
		case b[at] == 1 && b[0] == 135 && l.sll == 0:
			l.sll = l.l4 + at + 2
			copy(k.field(of13.FieldIPv6NDSLL), b[at+2:at+8])
		case b[at] == 2 && b[0] == 136 && l.tll == 0:
			l.tll = l.l4 + at + 2
			copy(k.field(of13.FieldIPv6NDTLL), b[at+2:at+8])
		}
	}
}
