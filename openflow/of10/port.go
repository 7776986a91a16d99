package of10

import (
	"bytes"
	"math/bits"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Port numbers (section 5.2.1).
const (
	portMax    = 0xff00 // the highest physical port
	portInPort = 0xfff8 // the first of the reserved ports, which have the same low 16 bits in 1.3
	portAll    = 0xfffc
	portNone   = 0xffff
)

// portToV13 widens a port number; the reserved ones keep their meaning.
func portToV13(p uint16) of13.Port {
	if p >= portInPort {
		return of13.Port(p) | 0xffff0000
	}
	return of13.Port(p)
}

// portFromV13 narrows a port number, and reports whether 1.0 has it.
func portFromV13(p of13.Port) (uint16, bool) {
	return uint16(p), p <= portMax || p >= of13.PortInPort
}

// Link modes: bits 0 to 6 (10 Mb/s to 10 Gb/s) are the same in both versions. Then 1.3 has four that 1.0 does not
// have (faster, and other). Medium and negotiation follow.
const (
	modeBits   = 1<<7 - 1
	mediumBits = 1<<5 - 1
	mediumAt10 = 7
	mediumAt13 = 11
)

func linkToV13(f uint32) uint32 {
	return f&modeBits | f>>mediumAt10&mediumBits<<mediumAt13
}

// linkFromV13 also reports whether 1.0 has all of f.
func linkFromV13(f uint32) (uint32, bool) {
	out := f&modeBits | f>>mediumAt13&mediumBits<<mediumAt10
	return out, linkToV13(out) == f
}

// speed returns the fastest of the link modes f, in kbit/s, or 0.
func speed(f uint32) uint32 {
	kbps := [...]uint32{0, 10_000, 10_000, 100_000, 100_000, 1_000_000, 1_000_000, 10_000_000}
	return kbps[bits.Len32(f&modeBits)]
}

// configBits are the bits of a port's configuration that both versions have, in the same place.
const configBits = of13.PortConfigDown | of13.PortConfigNoRecv | of13.PortConfigNoFwd | of13.PortConfigNoPacketIn

// Bits of a port's state. Bits 8 and 9 are a number, the state of the spanning tree.
const (
	stateLinkDown uint32 = 1 << 0
	stateSTP      uint32 = 3 << 8
	stateSTPBlock uint32 = 3 << 8
)

const portLen = 48

// portDescToV13 reads the description of a port from the first 48 bytes of b.
func portDescToV13(b []byte) of13.PortDesc {
	name, _, _ := bytes.Cut(b[8:24], []byte{0})
	u32 := func(at int) uint32 { return be.Uint32(b[at:]) }
	current, supported := u32(32), u32(40)
	out := of13.PortDesc{Port: portToV13(be.Uint16(b)), HwAddr: of13.MAC(b[2:]), Name: string(name),
		Config: u32(24) & configBits, Curr: linkToV13(current), Advertised: linkToV13(u32(36)),
		Supported: linkToV13(supported), Peer: linkToV13(u32(44)),
		CurrSpeed: speed(current), MaxSpeed: speed(supported)}
	if u32(28)&stateLinkDown != 0 {
		out.State |= of13.PortStateLinkDown
	}
	if u32(28)&stateSTP == stateSTPBlock {
		out.State |= of13.PortStateBlocked
	}
	return out
}
