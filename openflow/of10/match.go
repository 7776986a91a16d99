package of10

// MatchLen is the size of a match on the wire.
const MatchLen = 40

// Wildcards says which fields of a Match count: a set bit means that the field does not
// (section 5.2.3). NWSrc and NWDst have counters of 6 bits: how many low bits do not count.
type Wildcards uint32

// The bits of Wildcards.
const (
	WildInPort    Wildcards = 1 << 0
	WildDLVLAN    Wildcards = 1 << 1
	WildDLSrc     Wildcards = 1 << 2
	WildDLDst     Wildcards = 1 << 3
	WildDLType    Wildcards = 1 << 4
	WildNWProto   Wildcards = 1 << 5
	WildTPSrc     Wildcards = 1 << 6
	WildTPDst     Wildcards = 1 << 7
	WildDLVLANPCP Wildcards = 1 << 20
	WildNWTOS     Wildcards = 1 << 21
	WildAll       Wildcards = 1<<22 - 1

	nwSrcShift = 8
	nwDstShift = 14
	nwBits     = 0x3f
)

// NWSrcBits returns how many high bits of NWSrc count, 0 to 32.
func (w Wildcards) NWSrcBits() int { return 32 - min(int(w>>nwSrcShift)&nwBits, 32) }

// NWDstBits returns how many high bits of NWDst count, 0 to 32.
func (w Wildcards) NWDstBits() int { return 32 - min(int(w>>nwDstShift)&nwBits, 32) }

// WithNWSrcBits returns w with bits, 0 to 32, high bits of NWSrc counting.
func (w Wildcards) WithNWSrcBits(bits int) Wildcards {
	return w&^(nwBits<<nwSrcShift) | Wildcards(32-bits)<<nwSrcShift
}

// WithNWDstBits returns w with bits, 0 to 32, high bits of NWDst counting.
func (w Wildcards) WithNWDstBits(bits int) Wildcards {
	return w&^(nwBits<<nwDstShift) | Wildcards(32-bits)<<nwDstShift
}

// VLANNone is the DLVLAN of frames without a tag.
const VLANNone uint16 = 0xffff

// Values of DLType and NWProto on which the meaning of later fields depends.
const (
	dlTypeIPv4  = 0x0800
	dlTypeARP   = 0x0806
	nwProtoICMP = 1
	nwProtoTCP  = 6
	nwProtoUDP  = 17
)

// Match is the fixed match of 1.0. For ARP (DLType 0x0806) NWSrc and NWDst are the protocol
// addresses and NWProto the low byte of the opcode; for ICMP TPSrc and TPDst are type and code.
type Match struct {
	Wildcards    Wildcards
	InPort       Port
	DLSrc, DLDst [6]byte
	DLVLAN       uint16
	DLVLANPCP    uint8
	DLType       uint16
	NWTOS        uint8 // the DSCP in the high 6 bits
	NWProto      uint8
	NWSrc, NWDst uint32
	TPSrc, TPDst uint16
}

// Append appends the 40 bytes of the match.
func (m *Match) Append(dst []byte) []byte {
	dst = be.AppendUint32(dst, uint32(m.Wildcards))
	dst = be.AppendUint16(dst, uint16(m.InPort))
	dst = append(append(dst, m.DLSrc[:]...), m.DLDst[:]...)
	dst = be.AppendUint16(dst, m.DLVLAN)
	dst = append(dst, m.DLVLANPCP, 0)
	dst = be.AppendUint16(dst, m.DLType)
	dst = append(dst, m.NWTOS, m.NWProto, 0, 0)
	dst = be.AppendUint32(dst, m.NWSrc)
	dst = be.AppendUint32(dst, m.NWDst)
	dst = be.AppendUint16(dst, m.TPSrc)
	return be.AppendUint16(dst, m.TPDst)
}

// parse reads the match from the first 40 bytes of b, which must be there.
func (m *Match) parse(b []byte) {
	_ = b[MatchLen-1]
	*m = Match{
		Wildcards: Wildcards(be.Uint32(b)),
		InPort:    Port(be.Uint16(b[4:])),
		DLSrc:     [6]byte(b[6:]),
		DLDst:     [6]byte(b[12:]),
		DLVLAN:    be.Uint16(b[18:]),
		DLVLANPCP: b[20],
		DLType:    be.Uint16(b[22:]),
		NWTOS:     b[24],
		NWProto:   b[25],
		NWSrc:     be.Uint32(b[28:]),
		NWDst:     be.Uint32(b[32:]),
		TPSrc:     be.Uint16(b[36:]),
		TPDst:     be.Uint16(b[38:]),
	}
}
