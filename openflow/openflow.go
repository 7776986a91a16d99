// Package openflow holds what every version of the OpenFlow wire protocol shares: the
// 8-byte header, the splitting of a byte stream into messages, and the typed error that
// every decoder returns. Versions are sub-packages (of10, of13, of14); Holdfast's own
// EXPERIMENTER messages are in experimenter. Nothing here, or below, does I/O.
package openflow

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Versions of the wire protocol, as they stand in a header (OpenFlow Switch
// Specification 1.3.5, section 7.1).
const (
	Version10 uint8 = 0x01
	Version13 uint8 = 0x04
	Version14 uint8 = 0x05
	Version15 uint8 = 0x06
)

// HeaderLen is the length of the header that starts every message, in bytes.
const HeaderLen = 8

// MaxMessageLen is the largest message: its length field has 16 bits.
const MaxMessageLen = 1<<16 - 1

// Message types that have the same number in every version.
const (
	TypeHello        uint8 = 0
	TypeError        uint8 = 1
	TypeEchoRequest  uint8 = 2
	TypeEchoReply    uint8 = 3
	TypeExperimenter uint8 = 4 // VENDOR in OpenFlow 1.0
)

// DatapathID names a switch. It prints as 16 hexadecimal digits, as ovs-vsctl shows it.
type DatapathID uint64

func (d DatapathID) String() string {
	var b [16]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdef"[d&0xf]
		d >>= 4
	}
	return string(b[:])
}

// ParseDatapathID reads what String returns. Leading zeros may be missing.
func ParseDatapathID(text string) (DatapathID, error) {
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("switch %q: use the datapath id in hexadecimal digits, as holdfast status prints it", text)
	}
	return DatapathID(id), nil
}

// Header starts every message.
type Header struct {
	Version uint8
	Type    uint8
	Length  uint16 // of the whole message, header included
	XID     uint32
}

// ParseHeader reads the header at the start of b. It fails if b is shorter than a header
// or if the length field is smaller than a header; it does not ask that the whole
// message be there.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, &Error{Message: "header", Offset: len(b), Kind: Truncated, Detail: "a header has 8 bytes"}
	}
	h := Header{b[0], b[1], binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:])}
	if h.Length < HeaderLen {
		return h, &Error{Version: h.Version, Type: h.Type, Message: "header", Offset: 2, Kind: BadLength,
			Detail: fmt.Sprintf("length %d is less than a header", h.Length)}
	}
	return h, nil
}

// AppendHeader appends a header with length 0; SetLength completes it.
func AppendHeader(dst []byte, version, typ uint8, xid uint32) []byte {
	return append(dst, version, typ, 0, 0, byte(xid>>24), byte(xid>>16), byte(xid>>8), byte(xid))
}

// SetLength writes len(msg) into the header of msg.
func SetLength(msg []byte) { binary.BigEndian.PutUint16(msg[2:], uint16(len(msg))) }

// XID returns the transaction id of a message that has a whole header.
func XID(msg []byte) uint32 { return binary.BigEndian.Uint32(msg[4:]) }

// SetXID overwrites the transaction id of a message that has a whole header.
func SetXID(msg []byte, xid uint32) { binary.BigEndian.PutUint32(msg[4:], xid) }

// Next splits the first message off buf. It returns a nil msg and all of buf when the
// first message is not complete yet, and an error when no message can start here.
// msg aliases buf.
func Next(buf []byte) (msg, rest []byte, err error) {
	if len(buf) < HeaderLen {
		return nil, buf, nil
	}
	h, err := ParseHeader(buf)
	if err != nil {
		return nil, buf, err
	}
	if len(buf) < int(h.Length) {
		return nil, buf, nil
	}
	return buf[:h.Length:h.Length], buf[h.Length:], nil
}

// Kind says what is wrong with a message.
type Kind uint8

// The kinds of decoding errors.
const (
	Truncated   Kind = iota + 1 // the message ends before a field does
	BadLength                   // a length field contradicts its surroundings
	BadValue                    // a field has a value that the specification forbids
	Unknown                     // a type or version that we do not know
	Unsupported                 // known, and not representable where it is needed
)

func (k Kind) String() string {
	return [...]string{"invalid kind", "truncated", "bad length", "bad value", "unknown", "unsupported"}[min(int(k), 5)]
}

// Error tells what a decoder, or a translation between versions, could not do, and where.
type Error struct {
	Version uint8  // of the message, 0 if not known
	Type    uint8  // of the message
	Message string // the name of the type, such as "PACKET_IN"
	Offset  int    // bytes from the start of the message
	Kind    Kind
	Detail  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("openflow: %s (version %d, type %d): %s at byte %d: %s",
		e.Message, e.Version, e.Type, e.Kind, e.Offset, e.Detail)
}
