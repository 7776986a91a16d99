package of13

import (
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Match contains the OXM fields of a match as wire bytes, without the header and the padding of struct
// ofp_match (section 7.2.3). The zero value matches every packet.
type Match []byte

const matchTypeOXM = 1

// All iterates over the fields in the order in which they are encoded.
func (m Match) All() iter.Seq[OXM] {
	return func(yield func(OXM) bool) {
		for b := m; len(b) >= 4; {
			o, n := parseOXM(b)
			if !yield(o) {
				return
			}
			b = b[n:]
		}
	}
}

// Get finds a field of the class OpenFlow basic.
func (m Match) Get(f Field) (OXM, bool) {
	for len(m) >= 4 {
		n := 4 + int(m[3])
		if Field(m[2]>>1) == f && u16(m) == ClassBasic {
			o, _ := parseOXM(m)
			return o, true
		}
		m = m[n:]
	}
	return OXM{}, false
}

// InPort returns the ingress port, which every packet-in has.
func (m Match) InPort() (Port, bool) {
	if len(m) >= 8 && u32(m) == inPortFirst {
		return Port(u32(m[4:])), true
	}
	o, ok := m.Get(FieldInPort)
	return Port(o.Uint64()), ok
}

// inPortFirst is how a match begins that has the ingress port first, as those of all switches do.
const inPortFirst = uint32(ClassBasic)<<16 | uint32(FieldInPort)<<9 | 4

// String lists the fields, such as in_port=1,eth_type=0x800; "any" when there are none.
func (m Match) String() string {
	if len(m) == 0 {
		return "any"
	}
	var parts []string
	for o := range m.All() {
		parts = append(parts, o.String())
	}
	return strings.Join(parts, ",")
}

// With appends a field of the class OpenFlow basic. A nil mask is an exact match, as is a mask of
// ones; a mask of zeros leaves the match as it is. Bits of value outside mask count as 0. It panics
// when value or mask does not have the field's size.
func (m Match) With(f Field, value, mask []byte) Match {
	if len(value) != f.Size() || (mask != nil && len(mask) != len(value)) {
		panic(fmt.Sprintf("of13: %v has %d bytes, got a value of %d and a mask of %d", f, f.Size(), len(value),
			len(mask)))
	}
	switch {
	case mask == nil || all(mask, 0xff):
		return append(append(m, byte(ClassBasic>>8), byte(ClassBasic&0xff), byte(f)<<1, byte(len(value))), value...)
	case all(mask, 0):
		return m
	}
	n := len(m) + 4
	m = OXM{Class: ClassBasic, Field: f, HasMask: true, Value: value, Mask: mask}.append(m)
	for i, b := range mask {
		m[n+i] &= b
	}
	return m
}

func all(b []byte, v byte) bool {
	for _, c := range b {
		if c != v {
			return false
		}
	}
	return true
}

// WithOXM appends a field of any class.
func (m Match) WithOXM(o OXM) Match { return o.append(m) }

// WithUint appends a field of up to 8 bytes with the low bits of v.
func (m Match) WithUint(f Field, v uint64) Match {
	var b [8]byte
	return m.With(f, uintBytes(&b, f, v), nil)
}

// WithUintMasked is WithUint with a mask. The packet must agree in the bits that are 1 in mask.
func (m Match) WithUintMasked(f Field, v, mask uint64) Match {
	var b, c [8]byte
	return m.With(f, uintBytes(&b, f, v), uintBytes(&c, f, mask))
}

// uintBytes writes v as a value of f into b and returns the part that it fills.
func uintBytes(b *[8]byte, f Field, v uint64) []byte {
	n := min(f.Size(), 8)
	for i := range n {
		b[i] = byte(v >> (8 * (n - 1 - i)))
	}
	return b[:n]
}

// WithInPort appends the ingress port.
func (m Match) WithInPort(p Port) Match { return m.WithUint(FieldInPort, uint64(p)) }

// WithMetadata appends the metadata of an earlier table.
func (m Match) WithMetadata(v, mask uint64) Match { return m.WithUintMasked(FieldMetadata, v, mask) }

// WithEthDst appends the Ethernet destination.
func (m Match) WithEthDst(a MAC) Match { return m.With(FieldEthDst, a[:], nil) }

// WithEthDstMasked appends the Ethernet destination with a mask.
func (m Match) WithEthDstMasked(a, mask MAC) Match { return m.With(FieldEthDst, a[:], mask[:]) }

// WithEthSrc appends the Ethernet source.
func (m Match) WithEthSrc(a MAC) Match { return m.With(FieldEthSrc, a[:], nil) }

// WithEthSrcMasked appends the Ethernet source with a mask.
func (m Match) WithEthSrcMasked(a, mask MAC) Match { return m.With(FieldEthSrc, a[:], mask[:]) }

// WithEthType appends the Ethernet type, which must precede fields of IP, ARP and MPLS.
func (m Match) WithEthType(t uint16) Match { return m.WithUint(FieldEthType, uint64(t)) }

// WithVLAN appends a VLAN id, 0 to 4095, of a tagged frame.
func (m Match) WithVLAN(vid uint16) Match {
	return m.WithUint(FieldVLANVID, uint64(vid|VLANPresent))
}

// WithNoVLAN appends the condition that the frame has no tag.
func (m Match) WithNoVLAN() Match { return m.WithUint(FieldVLANVID, uint64(VLANNone)) }

// WithIPProto appends the IP protocol, which must precede fields of TCP, UDP, SCTP and ICMP.
func (m Match) WithIPProto(p uint8) Match { return m.WithUint(FieldIPProto, uint64(p)) }

// WithIPv4Src appends the IPv4 source; a mask of ones is an exact match.
func (m Match) WithIPv4Src(a, mask [4]byte) Match { return m.With(FieldIPv4Src, a[:], mask[:]) }

// WithIPv4Dst appends the IPv4 destination; a mask of ones is an exact match.
func (m Match) WithIPv4Dst(a, mask [4]byte) Match { return m.With(FieldIPv4Dst, a[:], mask[:]) }

// WithIPv6Src appends the IPv6 source; a mask of ones is an exact match.
func (m Match) WithIPv6Src(a, mask [16]byte) Match { return m.With(FieldIPv6Src, a[:], mask[:]) }

// WithIPv6Dst appends the IPv6 destination; a mask of ones is an exact match.
func (m Match) WithIPv6Dst(a, mask [16]byte) Match { return m.With(FieldIPv6Dst, a[:], mask[:]) }

// append appends struct ofp_match: header, fields, padding.
func (m Match) append(dst []byte) []byte {
	n := 4 + len(m)
	dst = append(dst, 0, matchTypeOXM, byte(n>>8), byte(n))
	dst = append(dst, m...)
	return pad(dst, padded(n)-n)
}

// checkMatch checks the struct ofp_match at msg[off:], which must not go beyond limit, and
// returns its fields and the offset after its padding.
func checkMatch(msg []byte, off, limit int) (Match, int, error) {
	if limit-off < 8 {
		return nil, 0, fail(msg, limit, openflow.Truncated, "a match has at least 8 bytes, %d left", limit-off)
	}
	if t := u16(msg[off:]); t != matchTypeOXM {
		return nil, 0, fail(msg, off, openflow.Unknown, "match type %d, only OXM (1) is known", t)
	}
	n := int(u16(msg[off+2:]))
	if n < 4 || padded(n) > limit-off {
		return nil, 0, fail(msg, off+2, openflow.BadLength, "match of %d bytes, %d left", n, limit-off)
	}
	for p := off + 4; p < off+n; {
		size, err := checkOXM(msg, p, off+n)
		if err != nil {
			return nil, 0, err
		}
		p += size
	}
	return Match(msg[off+4 : off+n : off+n]), off + padded(n), nil
}

// checkOXM checks the TLV at msg[off:limit] and returns its length. Basic fields that we know
// must have the length of their type; others must only be complete.
func checkOXM(msg []byte, off, limit int) (int, error) {
	if limit-off < 4 {
		return 0, fail(msg, limit, openflow.Truncated, "a match field has at least 4 bytes, %d left", limit-off)
	}
	class, f, masked, n := u16(msg[off:]), Field(msg[off+2]>>1), int(msg[off+2]&1), int(msg[off+3])
	if n > limit-off-4 {
		return 0, fail(msg, off+3, openflow.BadLength, "%v of %d bytes, %d left", f, n, limit-off-4)
	}
	switch {
	case class == ClassBasic && f < numFields:
		if want := int(fields[f].bytes) << masked; n != want {
			return 0, fail(msg, off+3, openflow.BadLength, "%v of %d bytes, not %d", f, n, want)
		}
	case class == ClassExperimenter && n < 4:
		return 0, fail(msg, off+3, openflow.BadLength, "experimenter field of %d bytes", n)
	case masked == 1 && n%2 != 0:
		return 0, fail(msg, off+3, openflow.BadLength, "value and mask of %d bytes together", n)
	}
	return 4 + n, nil
}
