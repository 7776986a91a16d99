package of10

import (
	"math/bits"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// match is a match of 1.0 (section 5.2.3): 32 bits of wildcards, then every field at its place. A wildcard bit that
// is set means that its field does not count. The wildcards of the two IPv4 addresses are numbers of 6 bits: how
// many low bits of the address do not count.
type match []byte

const (
	matchLen = 40

	wildVLAN      uint32 = 1 << 1
	wildEtherType uint32 = 1 << 4
	wildIPProto   uint32 = 1 << 5
	wildVLANPCP   uint32 = 1 << 20
	wildAll       uint32 = 1<<22 - 1
	prefixBits    uint32 = 0x3f

	vlanAt      = 18
	etherTypeAt = 22
	ipProtoAt   = 25

	// vlanNone is the VLAN id of frames without a tag.
	vlanNone = 0xffff
)

// Values of the Ethernet type and of the protocol of IPv4 on which the meaning of other fields depends.
const (
	typeIPv4  = 0x0800
	typeARP   = 0x0806
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
)

// field says where 1.0 has one field of 1.3, in a match and in the action that sets it.
type field struct {
	at, size  uint8  // bytes of the match
	bits      uint8  // how many bits the field has in 1.3
	shift     uint8  // how far to the left 1.0 has them
	wildAt    uint8  // the lowest of its wildcard bits
	prefix    bool   // it is an address, with a number for a wildcard
	action    uint8  // type of the action that sets it, whose value has size bytes; 0: none does
	etherType uint16 // the Ethernet type that the match needs for this field, 0: any
	ipProto   uint8  // the same for the protocol of IPv4
}

// fields has the fields of 1.0 by the number of their OXM. In that order no field comes before those it needs.
var fields = [...]field{
	of13.FieldInPort:     {at: 4, size: 2, bits: 32, wildAt: 0},
	of13.FieldEthDst:     {at: 12, size: 6, bits: 48, wildAt: 3, action: 5},
	of13.FieldEthSrc:     {at: 6, size: 6, bits: 48, wildAt: 2, action: 4},
	of13.FieldEthType:    {at: etherTypeAt, size: 2, bits: 16, wildAt: 4},
	of13.FieldVLANVID:    {at: vlanAt, size: 2, bits: 16, wildAt: 1, action: actionSetVLANVID},
	of13.FieldVLANPCP:    {at: 20, size: 1, bits: 3, wildAt: 20, action: actionSetVLANPCP},
	of13.FieldIPDSCP:     {at: 24, size: 1, bits: 6, shift: 2, wildAt: 21, action: 8, etherType: typeIPv4},
	of13.FieldIPProto:    {at: ipProtoAt, size: 1, bits: 8, wildAt: 5, etherType: typeIPv4},
	of13.FieldIPv4Src:    {at: 28, size: 4, bits: 32, wildAt: 8, prefix: true, action: 6, etherType: typeIPv4},
	of13.FieldIPv4Dst:    {at: 32, size: 4, bits: 32, wildAt: 14, prefix: true, action: 7, etherType: typeIPv4},
	of13.FieldTCPSrc:     {at: 36, size: 2, bits: 16, wildAt: 6, action: 9, etherType: typeIPv4, ipProto: protoTCP},
	of13.FieldTCPDst:     {at: 38, size: 2, bits: 16, wildAt: 7, action: 10, etherType: typeIPv4, ipProto: protoTCP},
	of13.FieldUDPSrc:     {at: 36, size: 2, bits: 16, wildAt: 6, action: 9, etherType: typeIPv4, ipProto: protoUDP},
	of13.FieldUDPDst:     {at: 38, size: 2, bits: 16, wildAt: 7, action: 10, etherType: typeIPv4, ipProto: protoUDP},
	of13.FieldICMPv4Type: {at: 37, size: 1, bits: 8, wildAt: 6, etherType: typeIPv4, ipProto: protoICMP},
	of13.FieldICMPv4Code: {at: 39, size: 1, bits: 8, wildAt: 7, etherType: typeIPv4, ipProto: protoICMP},
	of13.FieldARPOp:      {at: ipProtoAt, size: 1, bits: 16, wildAt: 5, etherType: typeARP}, // its low byte
	of13.FieldARPSPA:     {at: 28, size: 4, bits: 32, wildAt: 8, prefix: true, etherType: typeARP},
	of13.FieldARPTPA:     {at: 32, size: 4, bits: 32, wildAt: 14, prefix: true, etherType: typeARP},
}

// fieldOf returns where 1.0 has f; its size is 0 if 1.0 does not have it.
func fieldOf(f of13.Field) *field {
	if int(f) < len(fields) {
		return &fields[f]
	}
	return &fields[of13.FieldInPhyPort] // 1.0 does not have that one
}

func (m match) wildcards() uint32 { return be.Uint32(m) }

func (m match) value(f *field) uint64 {
	return number(m[f.at:f.at+f.size]) >> f.shift & (1<<f.bits - 1)
}

// allows reports whether m has the Ethernet type and the protocol that f needs.
func (m match) allows(f *field) bool { return m.allowsType(f) && m.allowsProto(f) }

func (m match) allowsType(f *field) bool {
	return f.etherType == 0 || m.wildcards()&wildEtherType == 0 && be.Uint16(m[etherTypeAt:]) == f.etherType
}

func (m match) allowsProto(f *field) bool {
	return f.ipProto == 0 || m.wildcards()&wildIPProto == 0 && m[ipProtoAt] == f.ipProto
}

// toV13 appends the fields of m to x. A 1.0 switch ignores a field whose protocol is not matched, so the result does
// not have it.
func (m match) toV13(x of13.Match) of13.Match {
	w := m.wildcards()
	untagged := w&wildVLAN == 0 && be.Uint16(m[vlanAt:]) == vlanNone
	for i := range fields {
		f, oxm := &fields[i], of13.Field(i)
		if f.size == 0 || !m.allows(f) {
			continue
		}
		v, exact := m.value(f), w>>f.wildAt&1 == 0
		switch {
		case f.prefix:
			x = x.WithUintMasked(oxm, v, prefixMask(32-min(w>>f.wildAt&prefixBits, 32)))
		case oxm == of13.FieldVLANVID && exact && untagged:
			x = x.WithNoVLAN()
		case oxm == of13.FieldVLANVID && exact:
			x = x.WithVLAN(uint16(v) & 0xfff)
		case oxm == of13.FieldVLANVID && w&wildVLANPCP == 0: // 1.3 wants a VLAN id before a priority: "any tag"
			x = x.WithUintMasked(oxm, uint64(of13.VLANPresent), uint64(of13.VLANPresent))
		case !exact, oxm == of13.FieldVLANPCP && untagged:
		case oxm == of13.FieldInPort:
			x = x.WithInPort(portToV13(uint16(v)))
		default:
			x = x.WithUint(oxm, v)
		}
	}
	return x
}

// tagged reports whether packets that match m may be taken to have a VLAN tag.
func (m match) tagged() bool {
	w := m.wildcards()
	return w&wildVLAN == 0 && be.Uint16(m[vlanAt:]) != vlanNone || w&(wildVLAN|wildVLANPCP) == wildVLAN
}

// prefixMask returns a mask of 32 bits of which the high n are set.
func prefixMask(n uint32) uint64 { return uint64(^uint32(0)) << (32 - n) & 0xffffffff }

// matchFromV13 appends the match that x is, whose fields stand at offset in msg.
func matchFromV13(dst []byte, x of13.Match, msg []byte, offset int) ([]byte, error) {
	n := len(dst)
	dst = pad(be.AppendUint32(dst, wildAll), matchLen-4)
	m, anyTag := match(dst[n:]), false
	for o := range x.All() {
		f := fieldOf(o.Field)
		switch {
		case o.Class != of13.ClassBasic:
			return dst, unsupported(msg, offset, "match field %s", o.Name())
		case !m.allowsType(f):
			return dst, unsupported(msg, offset, "match field %s without eth_type %#04x before it", o.Name(),
				f.etherType)
		case !m.allowsProto(f):
			return dst, unsupported(msg, offset, "match field %s without ip_proto %d before it", o.Name(), f.ipProto)
		case o.Field == of13.FieldVLANVID && o.HasMask && o.Uint64() == uint64(of13.VLANPresent) &&
			o.MaskUint64() == uint64(of13.VLANPresent):
			anyTag = true
		case !m.set(f, o):
			return dst, unsupported(msg, offset, "match field %v", o)
		}
		offset += 4 + len(o.Value) + len(o.Mask)
	}
	if anyTag && m.wildcards()&wildVLANPCP != 0 {
		return dst, unsupported(msg, offset, "a match on any VLAN tag, without vlan_pcp")
	}
	return dst, nil
}

// set makes m match o too, of which f says where 1.0 has it, and reports whether 1.0 can.
func (m match) set(f *field, o of13.OXM) bool {
	v, mask := o.Uint64(), o.MaskUint64()
	if o.HasMask && mask == 0 && len(o.Mask) <= 8 { // of a longer one this is not the whole
		return true
	}
	w, ok := m.wildcards(), f.size > 0
	switch {
	case f.prefix:
		n := uint32(bits.LeadingZeros32(^uint32(mask)))
		w = w&^(prefixBits<<f.wildAt) | (32-n)<<f.wildAt
		ok = uint64(uint32(mask)) == prefixMask(n)
	case o.Field == of13.FieldVLANVID:
		w &^= wildVLAN
		v, ok = vlanFromV13(uint16(v), uint16(mask))
	default:
		w &^= 1 << f.wildAt
		if o.Field == of13.FieldInPort {
			var p uint16
			p, ok = portFromV13(of13.Port(v))
			v = uint64(p)
		}
		ok = ok && ^mask&(1<<f.bits-1) == 0 && v>>(8*f.size) == 0
	}
	if ok {
		putNumber(m[f.at:f.at+f.size], v<<f.shift)
		be.PutUint32(m, w)
	}
	return ok
}

// vlanFromV13 reports whether 1.0 can match on these VLANs: on frames without a tag, or on one VLAN id.
func vlanFromV13(v, mask uint16) (uint64, bool) {
	const all = of13.VLANPresent | 0xfff
	if v == of13.VLANNone {
		return vlanNone, mask&all == all
	}
	return uint64(v & 0xfff), mask&all == all && v&of13.VLANPresent != 0
}
