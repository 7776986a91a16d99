package of13

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Field is a match field of the class OpenFlow basic (section 7.2.3.7).
type Field uint8

// The match fields.
const (
	FieldInPort Field = iota
	FieldInPhyPort
	FieldMetadata
	FieldEthDst
	FieldEthSrc
	FieldEthType
	FieldVLANVID
	FieldVLANPCP
	FieldIPDSCP
	FieldIPECN
	FieldIPProto
	FieldIPv4Src
	FieldIPv4Dst
	FieldTCPSrc
	FieldTCPDst
	FieldUDPSrc
	FieldUDPDst
	FieldSCTPSrc
	FieldSCTPDst
	FieldICMPv4Type
	FieldICMPv4Code
	FieldARPOp
	FieldARPSPA
	FieldARPTPA
	FieldARPSHA
	FieldARPTHA
	FieldIPv6Src
	FieldIPv6Dst
	FieldIPv6FLabel
	FieldICMPv6Type
	FieldICMPv6Code
	FieldIPv6NDTarget
	FieldIPv6NDSLL
	FieldIPv6NDTLL
	FieldMPLSLabel
	FieldMPLSTC
	FieldMPLSBOS
	FieldPBBISID
	FieldTunnelID
	FieldIPv6ExtHdr
	numFields
)

// Classes of match fields.
const (
	ClassNXM0         uint16 = 0x0000
	ClassNXM1         uint16 = 0x0001
	ClassBasic        uint16 = 0x8000
	ClassExperimenter uint16 = 0xffff
)

// Values of FieldVLANVID: a frame without a tag, and the bit that stands for "has a tag".
const (
	VLANNone    uint16 = 0
	VLANPresent uint16 = 0x1000
)

// form is the text format of a value.
type form uint8

const (
	formDecimal form = iota
	formHex
	formMAC
	formIP
	formPort
)

// fields describes each field: its name, how many bytes and bits it has, whether it may be masked. Masks of ports of
// TCP, UDP and SCTP are those of OpenFlow 1.5: Open vSwitch takes them in each version, other switches may refuse them.
var fields = [numFields]struct {
	name     string
	bytes    uint8
	bits     uint8
	maskable bool
	form     form
}{
	FieldInPort:       {"in_port", 4, 32, false, formPort},
	FieldInPhyPort:    {"in_phy_port", 4, 32, false, formPort},
	FieldMetadata:     {"metadata", 8, 64, true, formHex},
	FieldEthDst:       {"eth_dst", 6, 48, true, formMAC},
	FieldEthSrc:       {"eth_src", 6, 48, true, formMAC},
	FieldEthType:      {"eth_type", 2, 16, false, formHex},
	FieldVLANVID:      {"vlan_vid", 2, 13, true, formHex},
	FieldVLANPCP:      {"vlan_pcp", 1, 3, false, formDecimal},
	FieldIPDSCP:       {"ip_dscp", 1, 6, false, formDecimal},
	FieldIPECN:        {"ip_ecn", 1, 2, false, formDecimal},
	FieldIPProto:      {"ip_proto", 1, 8, false, formDecimal},
	FieldIPv4Src:      {"ipv4_src", 4, 32, true, formIP},
	FieldIPv4Dst:      {"ipv4_dst", 4, 32, true, formIP},
	FieldTCPSrc:       {"tcp_src", 2, 16, true, formDecimal},
	FieldTCPDst:       {"tcp_dst", 2, 16, true, formDecimal},
	FieldUDPSrc:       {"udp_src", 2, 16, true, formDecimal},
	FieldUDPDst:       {"udp_dst", 2, 16, true, formDecimal},
	FieldSCTPSrc:      {"sctp_src", 2, 16, true, formDecimal},
	FieldSCTPDst:      {"sctp_dst", 2, 16, true, formDecimal},
	FieldICMPv4Type:   {"icmpv4_type", 1, 8, false, formDecimal},
	FieldICMPv4Code:   {"icmpv4_code", 1, 8, false, formDecimal},
	FieldARPOp:        {"arp_op", 2, 16, false, formDecimal},
	FieldARPSPA:       {"arp_spa", 4, 32, true, formIP},
	FieldARPTPA:       {"arp_tpa", 4, 32, true, formIP},
	FieldARPSHA:       {"arp_sha", 6, 48, true, formMAC},
	FieldARPTHA:       {"arp_tha", 6, 48, true, formMAC},
	FieldIPv6Src:      {"ipv6_src", 16, 128, true, formIP},
	FieldIPv6Dst:      {"ipv6_dst", 16, 128, true, formIP},
	FieldIPv6FLabel:   {"ipv6_flabel", 4, 20, true, formHex},
	FieldICMPv6Type:   {"icmpv6_type", 1, 8, false, formDecimal},
	FieldICMPv6Code:   {"icmpv6_code", 1, 8, false, formDecimal},
	FieldIPv6NDTarget: {"ipv6_nd_target", 16, 128, false, formIP},
	FieldIPv6NDSLL:    {"ipv6_nd_sll", 6, 48, false, formMAC},
	FieldIPv6NDTLL:    {"ipv6_nd_tll", 6, 48, false, formMAC},
	FieldMPLSLabel:    {"mpls_label", 4, 20, false, formDecimal},
	FieldMPLSTC:       {"mpls_tc", 1, 3, false, formDecimal},
	FieldMPLSBOS:      {"mpls_bos", 1, 1, false, formDecimal},
	FieldPBBISID:      {"pbb_isid", 3, 24, true, formHex},
	FieldTunnelID:     {"tunnel_id", 8, 64, true, formHex},
	FieldIPv6ExtHdr:   {"ipv6_exthdr", 2, 9, true, formHex},
}

// Size returns the bytes of the field's value on the wire, 0 for an unknown field.
func (f Field) Size() int {
	if f >= numFields {
		return 0
	}
	return int(fields[f].bytes)
}

// Maskable reports whether a match may wildcard single bits of the field.
func (f Field) Maskable() bool { return f < numFields && fields[f].maskable }

func (f Field) String() string {
	if f >= numFields {
		return fmt.Sprintf("field%d", uint8(f))
	}
	return fields[f].name
}

// OXM is one match field with its value. Value and Mask alias the match that contains them.
type OXM struct {
	Class        uint16 // ClassBasic for all the Field constants
	Field        Field
	HasMask      bool
	Experimenter uint32 // of ClassExperimenter
	Value, Mask  []byte // in network order; Mask is nil, or as long as Value
}

// Exact returns the OXM for a basic field with a value and no mask.
func Exact(f Field, value []byte) OXM { return OXM{Class: ClassBasic, Field: f, Value: value} }

// Uint64 returns the value as a number; of a value longer than 8 bytes the last 8.
func (o OXM) Uint64() uint64 { return number(o.Value) }

// MaskUint64 returns the mask as a number, all ones when there is none.
func (o OXM) MaskUint64() uint64 {
	if !o.HasMask {
		return ^uint64(0)
	}
	return number(o.Mask)
}

func number(b []byte) uint64 {
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

// Name returns the field's name, with the class when that is not OpenFlow basic.
func (o OXM) Name() string {
	switch o.Class {
	case ClassBasic:
		return o.Field.String()
	case ClassExperimenter:
		return fmt.Sprintf("experimenter(%#x)field%d", o.Experimenter, uint8(o.Field))
	}
	return fmt.Sprintf("class(%#04x)field%d", o.Class, uint8(o.Field))
}

// String returns name=value or name=value/mask.
func (o OXM) String() string {
	if o.HasMask {
		return o.Name() + "=" + o.format(o.Value) + "/" + o.format(o.Mask)
	}
	return o.Name() + "=" + o.format(o.Value)
}

func (o OXM) format(b []byte) string {
	if o.Class != ClassBasic || o.Field >= numFields {
		return fmt.Sprintf("%#x", b)
	}
	switch fields[o.Field].form {
	case formMAC:
		if len(b) == 6 {
			return MAC(b).String()
		}
	case formIP:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
	case formPort:
		return Port(number(b)).String()
	case formDecimal:
		return fmt.Sprint(number(b))
	}
	return fmt.Sprintf("%#x", number(b))
}

// size returns the bytes of the TLV, header included.
func (o OXM) size() int {
	n := 4 + len(o.Value) + len(o.Mask)
	if o.Class == ClassExperimenter {
		n += 4
	}
	return n
}

func (o OXM) append(dst []byte) []byte {
	f := byte(o.Field) << 1
	if o.HasMask {
		f |= 1
	}
	dst = append(dst, byte(o.Class>>8), byte(o.Class), f, byte(o.size()-4))
	if o.Class == ClassExperimenter {
		dst = put32(dst, o.Experimenter)
	}
	dst = append(dst, o.Value...)
	return append(dst, o.Mask...)
}

// parseOXM decodes the TLV at the start of b, which was checked before, and returns its length.
func parseOXM(b []byte) (OXM, int) {
	n := 4 + int(b[3])
	o := OXM{Class: binary.BigEndian.Uint16(b), Field: Field(b[2] >> 1), HasMask: b[2]&1 != 0}
	v := b[4:n:n]
	if o.Class == ClassExperimenter {
		o.Experimenter, v = u32(v), v[4:]
	}
	if o.HasMask {
		h := len(v) / 2
		o.Value, o.Mask = v[:h:h], v[h:]
	} else {
		o.Value = v
	}
	return o, n
}

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for i, c := range m {
		if i > 0 {
			s.WriteByte(':')
		}
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}
