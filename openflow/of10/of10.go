// Package of10 translates OpenFlow 1.0 to and from 1.3 (OpenFlow Switch Specification 1.0.0 with the errata of
// 1.0.1). Inside Holdfast every message is OpenFlow 1.3, so a switch that speaks only 1.0 is translated at the edge:
// ToV13, PortsToV13 and FromV13. The frequent messages are translated without allocation.
//
// The package is not a codec: it has no structs for the messages of 1.0, and nothing outside it needs one. It does
// no I/O and keeps no state of sessions; the session negotiates the version and pairs requests with replies.
// Queue configuration (types 20 and 21) is not translated; queue statistics are. Values that the specification
// leaves open (unknown reasons, reserved bits) pass through. Padding is ignored on input and zero on output.
package of10

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Message types whose number is not that of 1.3 (section 5.1). Types 0 to 14 are the same in both versions.
const (
	TypePortMod        uint8 = 15
	TypeStatsRequest   uint8 = 16
	TypeStatsReply     uint8 = 17
	TypeBarrierRequest uint8 = 18
	TypeBarrierReply   uint8 = 19
)

var laterNames = [...]string{"PORT_MOD", "STATS_REQUEST", "STATS_REPLY", "BARRIER_REQUEST", "BARRIER_REPLY",
	"QUEUE_GET_CONFIG_REQUEST", "QUEUE_GET_CONFIG_REPLY"}

func typeName(msg []byte) string {
	if i := int(msg[1]) - int(TypePortMod); msg[0] != of13.Version && i >= 0 {
		if i < len(laterNames) {
			return laterNames[i]
		}
		return fmt.Sprintf("type %d", msg[1])
	}
	return of13.TypeName(msg[1])
}

var be = binary.BigEndian

// fail makes the error for msg, which may be shorter than a header.
func fail(msg []byte, offset int, kind openflow.Kind, format string, args ...any) error {
	e := &openflow.Error{Message: "message", Offset: min(offset, len(msg)), Kind: kind,
		Detail: fmt.Sprintf(format, args...)}
	if len(msg) >= openflow.HeaderLen {
		e.Version, e.Type, e.Message = msg[0], msg[1], typeName(msg)
	}
	return e
}

func unsupported(msg []byte, offset int, format string, args ...any) error {
	return fail(msg, offset, openflow.Unsupported, format, args...)
}

// whole checks the header of a message from a switch.
func whole(msg []byte) error {
	h, err := openflow.ParseHeader(msg)
	switch {
	case err != nil:
		return err
	case h.Version != openflow.Version10:
		return fail(msg, 0, openflow.Unknown, "version %d, OpenFlow 1.0 is %d", h.Version, openflow.Version10)
	case int(h.Length) != len(msg):
		return fail(msg, 2, openflow.BadLength, "length %d in a message of %d bytes", h.Length, len(msg))
	}
	return nil
}

// atLeast checks that msg has size bytes.
func atLeast(msg []byte, size int) error {
	if len(msg) < size {
		return fail(msg, len(msg), openflow.Truncated, "at least %d bytes expected", size)
	}
	return nil
}

// exactly checks that msg has size bytes and no more.
func exactly(msg []byte, size int) error {
	if len(msg) > size {
		return fail(msg, size, openflow.BadLength, "%d bytes expected, %d found", size, len(msg))
	}
	return atLeast(msg, size)
}

// listFrom checks that msg from offset on is a list of entries of size bytes.
func listFrom(msg []byte, offset, size int) error {
	if err := atLeast(msg, offset); err != nil {
		return err
	}
	if rest := (len(msg) - offset) % size; rest != 0 {
		return fail(msg, len(msg)-rest, openflow.Truncated, "%d bytes of an entry of %d", rest, size)
	}
	return nil
}

// relabel appends msg, whose layout is the same in both versions, with another version and type. If err says that
// msg is not sound, it appends nothing.
func relabel(dst, msg []byte, version, typ uint8, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	n := len(dst)
	dst = append(dst, msg...)
	dst[n], dst[n+1] = version, typ
	return dst, nil
}

var zeros [64]byte

// pad appends n zero bytes, n ≤ 64.
func pad(dst []byte, n int) []byte { return append(dst, zeros[:n]...) }

// number reads b, of at most 8 bytes.
func number(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

// putNumber writes the low bits of v into b.
func putNumber(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte(v)
		v >>= 8
	}
}
