package cells

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// Key names a cell of a table, or a field within a cell. It is comparable, and represents the usual keys of a network
// without allocating: A and B for numbers (a datapath id and a port, an Ethernet address), S for text. Unused parts are
// zero.
type Key struct {
	A uint64 `json:"a,omitzero"`
	B uint64 `json:"b,omitzero"`
	S string `json:"s,omitzero"`
}

// String is for messages to operators.
func (k Key) String() string {
	switch {
	case k.S != "":
		return k.S
	case k.B != 0:
		return fmt.Sprintf("%x/%d", k.A, k.B)
	}
	return fmt.Sprintf("%x", k.A)
}

// Compare orders keys by A, then B, then S.
func (k Key) Compare(o Key) int {
	if k.A != o.A {
		return cmp.Compare(k.A, o.A)
	}
	return cmp.Or(cmp.Compare(k.B, o.B), strings.Compare(k.S, o.S))
}

// Append encodes the key: A and B as varints, and S after its length.
func (k Key) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, k.A)
	dst = binary.AppendUvarint(dst, k.B)
	return append(binary.AppendUvarint(dst, uint64(len(k.S))), k.S...)
}

// rest is a key without A. Most keys are one number, and have the rest {}.
type rest struct {
	b uint64
	s string
}
