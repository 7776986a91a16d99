package of13

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Version is the version byte of every message except HELLO.
const Version = openflow.Version13

// Message types (section 7.1).
const (
	TypeHello                 = openflow.TypeHello
	TypeError                 = openflow.TypeError
	TypeEchoRequest           = openflow.TypeEchoRequest
	TypeEchoReply             = openflow.TypeEchoReply
	TypeExperimenter          = openflow.TypeExperimenter
	TypeFeaturesRequest uint8 = iota
	TypeFeaturesReply
	TypeGetConfigRequest
	TypeGetConfigReply
	TypeSetConfig
	TypePacketIn
	TypeFlowRemoved
	TypePortStatus
	TypePacketOut
	TypeFlowMod
	TypeGroupMod
	TypePortMod
	TypeTableMod
	TypeMultipartRequest
	TypeMultipartReply
	TypeBarrierRequest
	TypeBarrierReply
	TypeQueueGetConfigRequest
	TypeQueueGetConfigReply
	TypeRoleRequest
	TypeRoleReply
	TypeGetAsyncRequest
	TypeGetAsyncReply
	TypeSetAsync
	TypeMeterMod
)

var typeNames = [...]string{
	"HELLO", "ERROR", "ECHO_REQUEST", "ECHO_REPLY", "EXPERIMENTER", "FEATURES_REQUEST", "FEATURES_REPLY",
	"GET_CONFIG_REQUEST", "GET_CONFIG_REPLY", "SET_CONFIG", "PACKET_IN", "FLOW_REMOVED", "PORT_STATUS",
	"PACKET_OUT", "FLOW_MOD", "GROUP_MOD", "PORT_MOD", "TABLE_MOD", "MULTIPART_REQUEST", "MULTIPART_REPLY",
	"BARRIER_REQUEST", "BARRIER_REPLY", "QUEUE_GET_CONFIG_REQUEST", "QUEUE_GET_CONFIG_REPLY",
	"ROLE_REQUEST", "ROLE_REPLY", "GET_ASYNC_REQUEST", "GET_ASYNC_REPLY", "SET_ASYNC", "METER_MOD",
}

// TypeName returns the specification's name of a message type, without its prefix.
func TypeName(t uint8) string { return nameOf(typeNames[:], uint32(t)) }

// nameOf returns names[v], or the number when it has no name.
func nameOf(names []string, v uint32) string {
	if v < uint32(len(names)) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

// Message is any message of OpenFlow 1.3. Pointers to the structs implement it.
type Message interface {
	// Type is the message type, one of the Type constants.
	Type() uint8
	// Append appends the whole message, header included, to dst.
	Append(dst []byte, xid uint32) []byte
	// Decode reads one whole message. On an error, which is an *openflow.Error, the
	// fields are undefined.
	Decode(msg []byte) error
}

var newMessage = [...]func() Message{
	TypeHello:                 func() Message { return new(Hello) },
	TypeError:                 func() Message { return new(Error) },
	TypeEchoRequest:           func() Message { return new(EchoRequest) },
	TypeEchoReply:             func() Message { return new(EchoReply) },
	TypeExperimenter:          func() Message { return new(Experimenter) },
	TypeFeaturesRequest:       func() Message { return new(FeaturesRequest) },
	TypeFeaturesReply:         func() Message { return new(FeaturesReply) },
	TypeGetConfigRequest:      func() Message { return new(GetConfigRequest) },
	TypeGetConfigReply:        func() Message { return new(GetConfigReply) },
	TypeSetConfig:             func() Message { return new(SetConfig) },
	TypePacketIn:              func() Message { return new(PacketIn) },
	TypeFlowRemoved:           func() Message { return new(FlowRemoved) },
	TypePortStatus:            func() Message { return new(PortStatus) },
	TypePacketOut:             func() Message { return new(PacketOut) },
	TypeFlowMod:               func() Message { return new(FlowMod) },
	TypeGroupMod:              func() Message { return new(GroupMod) },
	TypePortMod:               func() Message { return new(PortMod) },
	TypeTableMod:              func() Message { return new(TableMod) },
	TypeMultipartRequest:      func() Message { return new(MultipartRequest) },
	TypeMultipartReply:        func() Message { return new(MultipartReply) },
	TypeBarrierRequest:        func() Message { return new(BarrierRequest) },
	TypeBarrierReply:          func() Message { return new(BarrierReply) },
	TypeQueueGetConfigRequest: func() Message { return new(QueueGetConfigRequest) },
	TypeQueueGetConfigReply:   func() Message { return new(QueueGetConfigReply) },
	TypeRoleRequest:           func() Message { return new(RoleRequest) },
	TypeRoleReply:             func() Message { return new(RoleReply) },
	TypeGetAsyncRequest:       func() Message { return new(GetAsyncRequest) },
	TypeGetAsyncReply:         func() Message { return new(GetAsyncReply) },
	TypeSetAsync:              func() Message { return new(SetAsync) },
	TypeMeterMod:              func() Message { return new(MeterMod) },
}

// Decode reads any message. The result aliases msg. It allocates; where the type is known,
// the Decode method of that type does not.
func Decode(msg []byte) (Message, error) {
	if len(msg) < openflow.HeaderLen {
		return nil, fail(msg, len(msg), openflow.Truncated, "a header has 8 bytes")
	}
	if int(msg[1]) >= len(newMessage) {
		return nil, fail(msg, 1, openflow.Unknown, "no such message type in OpenFlow 1.3")
	}
	m := newMessage[msg[1]]()
	if err := m.Decode(msg); err != nil {
		return nil, err
	}
	return m, nil
}

// fail returns the error for msg.
func fail(msg []byte, offset int, kind openflow.Kind, format string, args ...any) error {
	e := &openflow.Error{Message: "message", Offset: offset, Kind: kind, Detail: fmt.Sprintf(format, args...)}
	if len(msg) > 1 {
		e.Version, e.Type, e.Message = msg[0], msg[1], TypeName(msg[1])
	}
	return e
}

// open checks that msg is one whole message of type t with at least the given length.
func open(msg []byte, t uint8, least int) error {
	if err := openAnyVersion(msg, t, least); err != nil {
		return err
	}
	if msg[0] != Version {
		return fail(msg, 0, openflow.Unknown, "version %d where OpenFlow 1.3 (4) is spoken", msg[0])
	}
	return nil
}

func openAnyVersion(msg []byte, t uint8, least int) error {
	switch {
	case len(msg) < openflow.HeaderLen:
		return fail(msg, len(msg), openflow.Truncated, "a header has 8 bytes")
	case msg[1] != t:
		return fail(msg, 1, openflow.BadValue, "%s (type %d) expected", TypeName(t), t)
	case int(u16(msg[2:])) != len(msg):
		return fail(msg, 2, openflow.BadLength, "length field says %d, message has %d bytes", u16(msg[2:]), len(msg))
	case len(msg) < least:
		return fail(msg, len(msg), openflow.Truncated, "at least %d bytes expected", least)
	}
	return nil
}

// openExact is open for messages of one size.
func openExact(msg []byte, t uint8, size int) error {
	if err := open(msg, t, size); err != nil {
		return err
	}
	if len(msg) != size {
		return fail(msg, size, openflow.BadLength, "%d bytes expected, %d found", size, len(msg))
	}
	return nil
}

// begin appends a header; end completes the message that begins at dst[n:].
func begin(dst []byte, t uint8, xid uint32) []byte {
	return openflow.AppendHeader(dst, Version, t, xid)
}

func end(dst []byte, n int) []byte {
	if len(dst)-n > openflow.MaxMessageLen {
		panic(fmt.Sprintf("of13: %s of %d bytes; a message has at most %d: split it",
			TypeName(dst[n+1]), len(dst)-n, openflow.MaxMessageLen))
	}
	openflow.SetLength(dst[n:])
	return dst
}

func u16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

func put16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
func put32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }
func put64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

var zeros [8]byte

// pad appends n zero bytes, n ≤ 8.
func pad(dst []byte, n int) []byte { return append(dst, zeros[:n]...) }

// padded rounds a length up to a multiple of 8.
func padded(n int) int { return (n + 7) &^ 7 }

// cString reads a string that ends at the first NUL or one byte before the end of b. What is not UTF-8 is one question
// mark, such as the rest of a character within which a switch has cut a name.
func cString(b []byte) string {
	b = b[:len(b)-1]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(bytes.ToValidUTF8(b, []byte{'?'}))
}

// putString appends s as a field of size bytes, cut so that a NUL ends it.
func putString(dst []byte, s string, size int) []byte {
	n := len(dst)
	dst = append(dst, s[:min(len(s), size-1)]...)
	for len(dst) < n+size {
		dst = append(dst, 0)
	}
	return dst
}
