package of10

import (
	"math/bits"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// toV13 appends the fields of m to x. A 1.0 switch ignores a field whose protocol is not
// matched, and so does the result, in which a field's prerequisites come before it.
func (m *Match) toV13(x of13.Match) of13.Match {
	exact := func(w Wildcards) bool { return m.Wildcards&w == 0 }
	if exact(WildInPort) {
		x = x.WithInPort(m.InPort.toV13())
	}
	if exact(WildDLDst) {
		x = x.WithEthDst(m.DLDst)
	}
	if exact(WildDLSrc) {
		x = x.WithEthSrc(m.DLSrc)
	}
	x = m.vlanToV13(x)
	if !exact(WildDLType) {
		return x
	}
	x = x.WithEthType(m.DLType)
	switch m.DLType {
	case dlTypeIPv4:
		if exact(WildNWTOS) {
			x = x.WithUint(of13.FieldIPDSCP, uint64(m.NWTOS>>2))
		}
		if exact(WildNWProto) {
			x = x.WithIPProto(m.NWProto)
		}
		x = m.addressesToV13(x, of13.FieldIPv4Src, of13.FieldIPv4Dst)
		if exact(WildNWProto) {
			x = m.transportToV13(x)
		}
	case dlTypeARP:
		if exact(WildNWProto) {
			x = x.WithUint(of13.FieldARPOp, uint64(m.NWProto))
		}
		x = m.addressesToV13(x, of13.FieldARPSPA, of13.FieldARPTPA)
	}
	return x
}

// vlanToV13 appends the tag. 1.3 wants a VLAN id before a priority: where 1.0 matches only
// the priority, "any tag" takes its place.
func (m *Match) vlanToV13(x of13.Match) of13.Match {
	anyVID := m.Wildcards&WildDLVLAN != 0
	switch {
	case !anyVID && m.DLVLAN == VLANNone:
		return x.WithNoVLAN()
	case !anyVID:
		x = x.WithVLAN(m.DLVLAN & 0xfff)
	case m.Wildcards&WildDLVLANPCP == 0:
		x = x.WithUintMasked(of13.FieldVLANVID, uint64(of13.VLANPresent), uint64(of13.VLANPresent))
	}
	if m.Wildcards&WildDLVLANPCP == 0 {
		x = x.WithUint(of13.FieldVLANPCP, uint64(m.DLVLANPCP&7))
	}
	return x
}

func (m *Match) addressesToV13(x of13.Match, src, dst of13.Field) of13.Match {
	x = x.WithUintMasked(src, uint64(m.NWSrc), prefixMask(m.Wildcards.NWSrcBits()))
	return x.WithUintMasked(dst, uint64(m.NWDst), prefixMask(m.Wildcards.NWDstBits()))
}

func prefixMask(n int) uint64 { return uint64(^uint32(0)) << (32 - n) & 0xffffffff }

func (m *Match) transportToV13(x of13.Match) of13.Match {
	src, dst, mask := of13.FieldTCPSrc, of13.FieldTCPDst, uint16(0xffff)
	switch m.NWProto {
	case nwProtoTCP:
	case nwProtoUDP:
		src, dst = of13.FieldUDPSrc, of13.FieldUDPDst
	case nwProtoICMP:
		src, dst, mask = of13.FieldICMPv4Type, of13.FieldICMPv4Code, 0xff
	default:
		return x
	}
	if m.Wildcards&WildTPSrc == 0 {
		x = x.WithUint(src, uint64(m.TPSrc&mask))
	}
	if m.Wildcards&WildTPDst == 0 {
		x = x.WithUint(dst, uint64(m.TPDst&mask))
	}
	return x
}

// needs is what a field demands of the fields before it: an Ethernet type and, unless 0, a
// protocol of IP.
type needs struct {
	dlType  uint16
	nwProto uint8
}

func fieldNeed(f of13.Field) needs {
	switch f {
	case of13.FieldIPDSCP, of13.FieldIPProto, of13.FieldIPv4Src, of13.FieldIPv4Dst:
		return needs{dlTypeIPv4, 0}
	case of13.FieldTCPSrc, of13.FieldTCPDst:
		return needs{dlTypeIPv4, nwProtoTCP}
	case of13.FieldUDPSrc, of13.FieldUDPDst:
		return needs{dlTypeIPv4, nwProtoUDP}
	case of13.FieldICMPv4Type, of13.FieldICMPv4Code:
		return needs{dlTypeIPv4, nwProtoICMP}
	case of13.FieldARPOp, of13.FieldARPSPA, of13.FieldARPTPA:
		return needs{dlTypeARP, 0}
	}
	return needs{}
}

// matchFromV13 reads the fields x, which stand at offset in msg.
func matchFromV13(x of13.Match, msg []byte, offset int) (Match, error) {
	m := Match{Wildcards: WildAll}
	anyTag := false
	for f := range x.All() {
		if f.Class != of13.ClassBasic {
			return m, unsupported(msg, offset, "match field %s", f.Name())
		}
		need := fieldNeed(f.Field)
		switch {
		case need.dlType != 0 && (m.Wildcards&WildDLType != 0 || m.DLType != need.dlType):
			return m, unsupported(msg, offset, "match field %s without eth_type %#04x before it", f.Name(), need.dlType)
		case need.nwProto != 0 && (m.Wildcards&WildNWProto != 0 || m.NWProto != need.nwProto):
			return m, unsupported(msg, offset, "match field %s without ip_proto %d before it", f.Name(), need.nwProto)
		}
		if f.Field == of13.FieldVLANVID && f.HasMask && f.Uint64() == uint64(of13.VLANPresent) &&
			f.MaskUint64() == uint64(of13.VLANPresent) {
			anyTag = true
		} else if !m.set(f) {
			return m, unsupported(msg, offset, "match field %v", f)
		}
		offset += 4 + len(f.Value) + len(f.Mask)
	}
	if anyTag && m.Wildcards&WildDLVLANPCP != 0 {
		return m, unsupported(msg, offset, "a match on any VLAN tag, without vlan_pcp")
	}
	return m, nil
}

// set makes m match f too, and reports whether 1.0 can.
func (m *Match) set(f of13.OXM) bool {
	v, mask := f.Uint64(), f.MaskUint64()
	if f.HasMask && mask == 0 && len(f.Mask) <= 8 { // of a longer one this is not the whole
		return true
	}
	bitsOf := func(n int) bool { return ^mask&(1<<n-1) == 0 } // an exact match of n bits?
	switch f.Field {
	case of13.FieldInPort:
		p, ok := portFromV13(of13.Port(v))
		m.InPort, m.Wildcards = p, m.Wildcards&^WildInPort
		return ok && bitsOf(32)
	case of13.FieldEthDst:
		m.DLDst, m.Wildcards = [6]byte(f.Value), m.Wildcards&^WildDLDst
		return bitsOf(48)
	case of13.FieldEthSrc:
		m.DLSrc, m.Wildcards = [6]byte(f.Value), m.Wildcards&^WildDLSrc
		return bitsOf(48)
	case of13.FieldEthType:
		m.DLType, m.Wildcards = uint16(v), m.Wildcards&^WildDLType
		return bitsOf(16)
	case of13.FieldVLANVID:
		return m.setVLAN(uint16(v), uint16(mask))
	case of13.FieldVLANPCP:
		m.DLVLANPCP, m.Wildcards = uint8(v), m.Wildcards&^WildDLVLANPCP
		return bitsOf(3)
	case of13.FieldIPDSCP:
		m.NWTOS, m.Wildcards = uint8(v)<<2, m.Wildcards&^WildNWTOS
		return bitsOf(6)
	case of13.FieldIPProto, of13.FieldARPOp: // 1.0 has the low byte of the opcode only
		m.NWProto, m.Wildcards = uint8(v), m.Wildcards&^WildNWProto
		return v <= 0xff && bitsOf(8*f.Field.Size())
	case of13.FieldIPv4Src, of13.FieldARPSPA:
		n, ok := prefix(uint32(mask))
		m.NWSrc, m.Wildcards = uint32(v), m.Wildcards.WithNWSrcBits(n)
		return ok
	case of13.FieldIPv4Dst, of13.FieldARPTPA:
		n, ok := prefix(uint32(mask))
		m.NWDst, m.Wildcards = uint32(v), m.Wildcards.WithNWDstBits(n)
		return ok
	case of13.FieldTCPSrc, of13.FieldUDPSrc, of13.FieldICMPv4Type:
		m.TPSrc, m.Wildcards = uint16(v), m.Wildcards&^WildTPSrc
		return bitsOf(8 * f.Field.Size())
	case of13.FieldTCPDst, of13.FieldUDPDst, of13.FieldICMPv4Code:
		m.TPDst, m.Wildcards = uint16(v), m.Wildcards&^WildTPDst
		return bitsOf(8 * f.Field.Size())
	}
	return false
}

// setVLAN reports whether 1.0 can say it: no tag, or one VLAN id.
func (m *Match) setVLAN(v, mask uint16) bool {
	const all = of13.VLANPresent | 0xfff
	m.Wildcards &^= WildDLVLAN
	m.DLVLAN = v & 0xfff
	if v == of13.VLANNone {
		m.DLVLAN = VLANNone
	}
	return mask&all == all && (v == of13.VLANNone || v&of13.VLANPresent != 0)
}

// prefix returns how many bits mask has, and whether they are the high ones.
func prefix(mask uint32) (int, bool) {
	n := bits.LeadingZeros32(^mask)
	return n, mask == uint32(prefixMask(n))
}
