// Package of14 is OpenFlow 1.4 and 1.5 as far as Holdfast needs them: translated to and from 1.3
// (OpenFlow Switch Specifications 1.4.0 and 1.5.1). Inside Holdfast every message is OpenFlow 1.3, so a
// switch that speaks only a later version is translated at the edge: ToV13 and FromV13. Most messages of 1.4
// differ from 1.3 in the version alone; the frequent ones are translated without allocation.
//
// It has no structs of its own: what is the same in both versions is read by of13, and the rest is moved
// from place to place. It does no I/O, and it knows nothing of sessions. What neither version forbids
// (unknown reasons, match fields that only one of them has) passes through.
package of14

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Message types that 1.3 does not have. The types 22 and 23, which ask for the configuration of queues, are
// in 1.3 only.
const (
	TypeRoleStatus       uint8 = 30
	TypeTableStatus      uint8 = 31
	TypeRequestForward   uint8 = 32
	TypeBundleControl    uint8 = 33
	TypeBundleAdd        uint8 = 34
	TypeControllerStatus uint8 = 35
)

// partQueueDesc is the multipart type that takes the place of the message QUEUE_GET_CONFIG.
const partQueueDesc of13.Part = 15

var laterNames = [...]string{"ROLE_STATUS", "TABLE_STATUS", "REQUESTFORWARD", "BUNDLE_CONTROL", "BUNDLE_ADD_MESSAGE",
	"CONTROLLER_STATUS"}

func typeName(msg []byte) string {
	if i := int(msg[1]) - int(TypeRoleStatus); msg[0] != of13.Version && i >= 0 && i < len(laterNames) {
		return laterNames[i]
	}
	return of13.TypeName(msg[1])
}

var be = binary.BigEndian

// bodyAt is where the body of a multipart message begins.
const bodyAt = 16

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
	case h.Version != openflow.Version14 && h.Version != openflow.Version15:
		return fail(msg, 0, openflow.Unknown, "version %d, OpenFlow 1.4 and 1.5 are %d and %d", h.Version,
			openflow.Version14, openflow.Version15)
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

// relabel appends msg with another version.
func relabel(dst, msg []byte, version uint8) []byte {
	n := len(dst)
	dst = append(dst, msg...)
	dst[n] = version
	return dst
}

// same is ToV13 for a message that is the same in both versions.
func same(dst, msg []byte) ([]byte, error) {
	return checked(relabel(dst, msg, of13.Version), len(dst), msg)
}

// checked completes the 1.3 message at dst[n:], which msg became, if it is sound; else dst ends at n again.
func checked(dst []byte, n int, msg []byte) ([]byte, error) {
	if len(dst)-n > openflow.MaxMessageLen {
		return dst[:n], unsupported(msg, 0, "it does not fit a message of 1.3")
	}
	openflow.SetLength(dst[n:])
	if err := decodes(dst[n:]); err != nil {
		return dst[:n], blame(err, msg)
	}
	return dst, nil
}

// decodes reports what is wrong with a 1.3 message. The frequent ones are read without allocation.
func decodes(msg []byte) error {
	switch msg[1] {
	case of13.TypePacketIn:
		var m of13.PacketIn
		return m.Decode(msg)
	case of13.TypeFlowRemoved:
		var m of13.FlowRemoved
		return m.Decode(msg)
	case openflow.TypeError:
		var m of13.Error
		return m.Decode(msg)
	case of13.TypeFlowMod:
		var m of13.FlowMod
		return m.Decode(msg)
	case of13.TypePacketOut:
		var m of13.PacketOut
		return m.Decode(msg)
	case of13.TypeBarrierReply:
		var m of13.BarrierReply
		return m.Decode(msg)
	}
	_, err := of13.Decode(msg)
	return err
}

// blame makes an error about a translation one about msg. What 1.3 does not know it cannot say.
func blame(err error, msg []byte) error {
	var e *openflow.Error
	if errors.As(err, &e) {
		e.Version, e.Type, e.Message, e.Offset = msg[0], msg[1], typeName(msg), min(e.Offset, len(msg))
		if e.Kind == openflow.Unknown {
			e.Kind = openflow.Unsupported
		}
	}
	return err
}

// padded rounds a length up to a multiple of 8.
func padded(n int) int { return (n + 7) &^ 7 }

var zeros [64]byte

// pad appends n zero bytes, n ≤ 64.
func pad(dst []byte, n int) []byte { return append(dst, zeros[:n]...) }

// sized returns how long the element at msg[off:end] is, whose 16 bits at lenAt say so. It has at least as
// many bytes, and ends within end.
func sized(msg []byte, off, end, lenAt, least int, what string) (int, error) {
	if end-off < least {
		return 0, fail(msg, end, openflow.Truncated, "%s has at least %d bytes, %d left", what, least, end-off)
	}
	n := int(be.Uint16(msg[off+lenAt:]))
	if n < least || n > end-off {
		return 0, fail(msg, off+lenAt, openflow.BadLength, "%s of %d bytes, %d left", what, n, end-off)
	}
	return n, nil
}

// matchAt reads the match at msg[off:end]: its fields, and where it ends with its padding.
func matchAt(msg []byte, off, end int) (of13.Match, int, error) {
	n, err := sized(msg, off, end, 2, 4, "a match")
	if err == nil && padded(n) > end-off {
		err = fail(msg, off+2, openflow.BadLength, "a match of %d bytes without its padding", n)
	}
	if err != nil {
		return nil, 0, err
	}
	return of13.Match(msg[off+4 : off+n]), off + padded(n), nil
}

// properties walks the properties in msg[off:end]. Each is a multiple of 8 bytes with its padding, which its
// length does not count.
func properties(msg []byte, off, end int, each func(typ uint16, p []byte)) error {
	for off < end {
		n, err := sized(msg, off, end, 2, 4, "a property")
		if err != nil {
			return err
		}
		each(be.Uint16(msg[off:]), msg[off:off+n])
		off += min(padded(n), end-off)
	}
	return nil
}
