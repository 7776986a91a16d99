package of10

import (
	"math/bits"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// toV13 widens a port number; the reserved ones keep their meaning.
func (p Port) toV13() of13.Port {
	if p >= PortInPort {
		return of13.Port(p) | 0xffff0000
	}
	return of13.Port(p)
}

// portFromV13 narrows a port number, and reports whether 1.0 has it.
func portFromV13(p of13.Port) (Port, bool) {
	return Port(p), p <= of13.Port(PortMax) || p >= of13.PortInPort
}

// Link modes: bits 0 to 6 (10 Mb/s to 10 Gb/s) are the same in both versions, then 1.3 has
// four that 1.0 has not (faster, and other), then medium and negotiation.
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

// configBits are the bits of a port's configuration that both versions have, in one place.
const configBits = ConfigPortDown | ConfigNoRecv | ConfigNoFwd | ConfigNoPacketIn

func (p *PortDesc) toV13() of13.PortDesc {
	out := of13.PortDesc{Port: p.Port.toV13(), HwAddr: p.HWAddr, Name: p.NameString(), Config: p.Config & configBits,
		Curr: linkToV13(p.Current), Advertised: linkToV13(p.Advertised), Supported: linkToV13(p.Supported),
		Peer:      linkToV13(p.Peer),
		CurrSpeed: speed(p.Current), MaxSpeed: speed(p.Supported)}
	if p.State&StateLinkDown != 0 {
		out.State |= of13.PortStateLinkDown
	}
	if p.State&StateSTPMask == StateSTPBlock {
		out.State |= of13.PortStateBlocked
	}
	return out
}
