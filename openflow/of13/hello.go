package of13

import (
	"math/bits"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Versions is a set of OpenFlow versions: bit n stands for wire version n.
type Versions uint32

// VersionsOf makes a set of wire versions, such as openflow.Version13.
func VersionsOf(versions ...uint8) Versions {
	var s Versions
	for _, v := range versions {
		s |= 1 << v
	}
	return s
}

// Highest returns the highest version of the set, and false for an empty set.
func (s Versions) Highest() (uint8, bool) {
	if s == 0 {
		return 0, false
	}
	return uint8(bits.Len32(uint32(s)) - 1), true
}

// Hello opens a connection (section 7.5.1). It may come in any version, and its body is
// ignored when that is older than 1.3.
type Hello struct {
	Version  uint8    // in the header: the highest that the sender supports
	Versions Versions // the version bitmap, 0 when there is none
}

const helloVersionBitmap = 1

// NewHello returns the HELLO of a side that supports the given versions.
func NewHello(s Versions) Hello {
	v, _ := s.Highest()
	return Hello{v, s}
}

// Type returns TypeHello.
func (*Hello) Type() uint8 { return TypeHello }

// Append appends the message, with a bitmap unless Versions is 0.
func (m *Hello) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = openflow.AppendHeader(dst, m.Version, TypeHello, xid)
	if m.Versions != 0 {
		dst = append(dst, 0, helloVersionBitmap, 0, 8)
		dst = put32(dst, uint32(m.Versions))
	}
	return end(dst, n)
}

// Decode reads a HELLO of any version. Elements other than the bitmap are skipped.
func (m *Hello) Decode(msg []byte) error {
	if err := openAnyVersion(msg, TypeHello, openflow.HeaderLen); err != nil {
		return err
	}
	*m = Hello{Version: msg[0]}
	if m.Version < openflow.Version13 {
		return nil
	}
	for off := openflow.HeaderLen; off < len(msg); {
		left := len(msg) - off
		if left < 4 {
			return fail(msg, len(msg), openflow.Truncated, "a hello element has at least 4 bytes, %d left", left)
		}
		n := int(u16(msg[off+2:]))
		if n < 4 || n > left {
			return fail(msg, off+2, openflow.BadLength, "hello element of %d bytes, %d left", n, left)
		}
		if u16(msg[off:]) == helloVersionBitmap && n >= 8 {
			m.Versions = Versions(u32(msg[off+4:]))
		}
		off += padded(n)
	}
	return nil
}

// Negotiate returns the version to use with the sender of m, for a side that supports own: the
// highest common one, or, when m has no bitmap, the lower of both sides' highest.
// It returns false when there is none; the answer is then HELLO_FAILED.
func (m *Hello) Negotiate(own Versions) (uint8, bool) {
	if m.Versions != 0 {
		return (m.Versions & own).Highest()
	}
	highest, ok := own.Highest()
	v := min(highest, m.Version)
	return v, ok && v < 32 && own&(1<<v) != 0
}
