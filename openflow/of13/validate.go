package of13

// prerequisite: a field must be preceded by another one, with one of two values; 0 twice means
// any value. The prerequisites of the other field were checked when it was read.
type prerequisite struct {
	field Field
	one   uint64
	other uint64
}

const (
	typeIPv4   = 0x0800
	typeARP    = 0x0806
	typeIPv6   = 0x86dd
	typeMPLS   = 0x8847
	typeMPLSmc = 0x8848
	typePBB    = 0x88e7
	typeVLAN   = 0x8100
	typeQinQ   = 0x88a8
)

var (
	needsIP     = &prerequisite{FieldEthType, typeIPv4, typeIPv6}
	needsIPv4   = &prerequisite{FieldEthType, typeIPv4, typeIPv4}
	needsIPv6   = &prerequisite{FieldEthType, typeIPv6, typeIPv6}
	needsARP    = &prerequisite{FieldEthType, typeARP, typeARP}
	needsMPLS   = &prerequisite{FieldEthType, typeMPLS, typeMPLSmc}
	needsPBB    = &prerequisite{FieldEthType, typePBB, typePBB}
	needsTCP    = &prerequisite{FieldIPProto, 6, 6}
	needsUDP    = &prerequisite{FieldIPProto, 17, 17}
	needsSCTP   = &prerequisite{FieldIPProto, 132, 132}
	needsICMPv4 = &prerequisite{FieldIPProto, 1, 1}
	needsICMPv6 = &prerequisite{FieldIPProto, 58, 58}
	needsND     = &prerequisite{FieldICMPv6Type, 135, 136}
)

// prerequisites follows the table of section 7.2.3.7. Allows handles FieldVLANPCP separately.
var prerequisites = [numFields]*prerequisite{
	FieldInPhyPort: {FieldInPort, 0, 0},
	FieldIPDSCP:    needsIP, FieldIPECN: needsIP, FieldIPProto: needsIP,
	FieldIPv4Src: needsIPv4, FieldIPv4Dst: needsIPv4,
	FieldTCPSrc: needsTCP, FieldTCPDst: needsTCP,
	FieldUDPSrc: needsUDP, FieldUDPDst: needsUDP,
	FieldSCTPSrc: needsSCTP, FieldSCTPDst: needsSCTP,
	FieldICMPv4Type: needsICMPv4, FieldICMPv4Code: needsICMPv4,
	FieldARPOp: needsARP, FieldARPSPA: needsARP, FieldARPTPA: needsARP, FieldARPSHA: needsARP, FieldARPTHA: needsARP,
	FieldIPv6Src: needsIPv6, FieldIPv6Dst: needsIPv6, FieldIPv6FLabel: needsIPv6, FieldIPv6ExtHdr: needsIPv6,
	FieldICMPv6Type: needsICMPv6, FieldICMPv6Code: needsICMPv6,
	FieldIPv6NDTarget: needsND, FieldIPv6NDSLL: {FieldICMPv6Type, 135, 135},
	FieldIPv6NDTLL: {FieldICMPv6Type, 136, 136},
	FieldMPLSLabel: needsMPLS, FieldMPLSTC: needsMPLS, FieldMPLSBOS: needsMPLS,
	FieldPBBISID: needsPBB,
}

// Allows reports whether m has the prerequisites of f (section 7.2.3.6), so that f may follow in
// the match, or be set by an action of the entry.
func (m Match) Allows(f Field) bool {
	if f >= numFields {
		return false
	}
	if f == FieldVLANPCP {
		o, ok := m.Get(FieldVLANVID)
		return ok && o.Uint64()&uint64(VLANPresent) != 0
	}
	p := prerequisites[f]
	if p == nil {
		return true
	}
	o, ok := m.Get(p.field)
	v := o.Uint64()
	return ok && (v == p.one || v == p.other || p.one == 0)
}

// Validate checks a decoded match as a switch does: it returns a *Error of ErrTypeBadMatch if a field is unknown,
// repeated, wrongly masked, out of range, or not preceded by its prerequisites; otherwise nil.
func (m Match) Validate() error {
	var seen uint64
	for off := 0; off < len(m); {
		o, n := parseOXM(m[off:])
		if code, bad := m[:off].refuses(o, seen); bad {
			return &Error{ErrType: ErrTypeBadMatch, Code: code}
		}
		seen |= 1 << o.Field
		off += n
	}
	return nil
}

// refuses reports whether a switch refuses o after the fields of m, and the code; seen has a bit for each of these.
func (m Match) refuses(o OXM, seen uint64) (code uint16, bad bool) {
	switch {
	case o.Class != ClassBasic || o.Field >= numFields:
		return BadMatchBadField, true
	case seen&(1<<o.Field) != 0:
		return BadMatchDupField, true
	case o.HasMask && !o.Field.Maskable():
		return BadMatchBadMask, true
	case o.HasMask && !covers(o.Mask, o.Value):
		return BadMatchBadWildcards, true
	case !inRange(o):
		return BadMatchBadValue, true
	case !m.Allows(o.Field):
		return BadMatchBadPrereq, true
	}
	return 0, false
}

// covers reports whether every bit of value is in mask.
func covers(mask, value []byte) bool {
	for i := range value {
		if value[i]&^mask[i] != 0 {
			return false
		}
	}
	return true
}

// inRange reports whether the value fits the bits of the field.
func inRange(o OXM) bool {
	bits := fields[o.Field].bits
	if bits < 64 && o.Uint64()>>bits != 0 {
		return false
	}
	// A VLAN id without the bit for "has a tag" is not valid.
	return o.Field != FieldVLANVID || o.HasMask || o.Uint64() == 0 || o.Uint64()&uint64(VLANPresent) != 0
}

// Validate checks decoded actions as a switch does, without its ports, queues, groups and packets: it returns a *Error
// of ErrTypeBadAction, or nil.
func (a Actions) Validate() error {
	for x := range a.All() {
		code, bad := uint16(0), false
		switch x.Type {
		case ActionOutput:
			p := x.Port
			code, bad = BadActionBadOutPort, p == 0 || p > PortMax && p < PortInPort || p == PortAny
		case ActionPushVLAN:
			code, bad = BadActionBadArgument, x.EtherType != typeVLAN && x.EtherType != typeQinQ
		case ActionPushMPLS:
			code, bad = BadActionBadArgument, x.EtherType != typeMPLS && x.EtherType != typeMPLSmc
		case ActionPushPBB:
			code, bad = BadActionBadArgument, x.EtherType != typePBB
		case ActionSetField:
			code, bad = x.OXM.refusesSet()
		}
		if bad {
			return &Error{ErrType: ErrTypeBadAction, Code: code}
		}
	}
	return nil
}

// ValidateFor is Validate for the actions of a flow entry with match m: a field that is set must also have its
// prerequisites in m, as far as earlier actions leave m true.
func (a Actions) ValidateFor(m Match) error {
	if err := a.Validate(); err != nil {
		return err
	}
	tagged := false
	for x := range a.All() {
		switch x.Type {
		case ActionPushMPLS, ActionPopMPLS, ActionPushPBB, ActionPopPBB:
			return nil // the match does not describe the packet any more
		case ActionPushVLAN:
			tagged = true
		case ActionSetField:
			if f := x.OXM.Field; !m.Allows(f) && (!tagged || f != FieldVLANPCP) {
				return &Error{ErrType: ErrTypeBadAction, Code: BadActionMatchInconsistent}
			}
		}
	}
	return nil
}

// refusesSet reports whether a switch refuses to set a field to a value, and the code.
func (o OXM) refusesSet() (code uint16, bad bool) {
	switch {
	case o.Class != ClassBasic || o.Field >= numFields || o.Field <= FieldMetadata:
		return BadActionBadSetType, true
	case o.HasMask || !inRange(o):
		return BadActionBadSetArgument, true
	}
	return 0, false
}
