// Package of10 is OpenFlow 1.0 on the wire (OpenFlow Switch Specification 1.0.0, with the
// errata of 1.0.1): what old switches and load generators speak. Encoders append to the
// caller's slice; decoders check every length, alias their input and do not allocate for
// structs that stand on the stack. Inside Holdfast every message is OpenFlow 1.3, so the
// package also translates at the edge: ToV13, PortsToV13 and FromV13.
//
// It does no I/O, and it knows nothing of sessions: version negotiation and the pairing of
// requests with replies are for the caller. The configuration of queues (types 20 and 21) is
// left out; their statistics are here. Values that the specification leaves open
// (unknown reasons, reserved bits) pass through; padding is ignored on the way in and
// zero on the way out. Append panics when a message would exceed openflow.MaxMessageLen,
// which is an error of the program.
package of10

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Message types (section 5.1).
const (
	TypeHello            = openflow.TypeHello
	TypeError            = openflow.TypeError
	TypeEchoRequest      = openflow.TypeEchoRequest
	TypeEchoReply        = openflow.TypeEchoReply
	TypeVendor           = openflow.TypeExperimenter
	TypeFeaturesRequest  = uint8(5)
	TypeFeaturesReply    = uint8(6)
	TypeGetConfigRequest = uint8(7)
	TypeGetConfigReply   = uint8(8)
	TypeSetConfig        = uint8(9)
	TypePacketIn         = uint8(10)
	TypeFlowRemoved      = uint8(11)
	TypePortStatus       = uint8(12)
	TypePacketOut        = uint8(13)
	TypeFlowMod          = uint8(14)
	TypePortMod          = uint8(15)
	TypeStatsRequest     = uint8(16)
	TypeStatsReply       = uint8(17)
	TypeBarrierRequest   = uint8(18)
	TypeBarrierReply     = uint8(19)
)

// NoBuffer is the buffer id of a packet that the switch did not keep.
const NoBuffer uint32 = 0xffffffff

var typeNames = [...]string{"HELLO", "ERROR", "ECHO_REQUEST", "ECHO_REPLY", "VENDOR", "FEATURES_REQUEST",
	"FEATURES_REPLY",
	"GET_CONFIG_REQUEST", "GET_CONFIG_REPLY", "SET_CONFIG", "PACKET_IN", "FLOW_REMOVED", "PORT_STATUS", "PACKET_OUT",
	"FLOW_MOD", "PORT_MOD", "STATS_REQUEST", "STATS_REPLY", "BARRIER_REQUEST", "BARRIER_REPLY",
	"QUEUE_GET_CONFIG_REQUEST", "QUEUE_GET_CONFIG_REPLY"}

// TypeName returns the specification's name of a message type, without OFPT_.
func TypeName(t uint8) string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("TYPE_%d", t)
}

// Message is any message of this package, behind a pointer.
type Message interface {
	// Type returns the message type, one of the Type constants.
	Type() uint8
	// Append appends the whole message, header included, to dst.
	Append(dst []byte, xid uint32) []byte
	// Decode reads one whole message; slices in the result alias msg. The error is an
	// *openflow.Error and leaves the struct in an unspecified state.
	Decode(msg []byte) error
}

// New returns an empty message of type t, or nil if this package does not know the type.
func New(t uint8) Message {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeError:
		return &Error{}
	case TypeEchoRequest:
		return &EchoRequest{}
	case TypeEchoReply:
		return &EchoReply{}
	case TypeVendor:
		return &Vendor{}
	case TypeFeaturesRequest:
		return &FeaturesRequest{}
	case TypeFeaturesReply:
		return &FeaturesReply{}
	case TypeGetConfigRequest:
		return &GetConfigRequest{}
	case TypeGetConfigReply:
		return &GetConfigReply{}
	case TypeSetConfig:
		return &SetConfig{}
	case TypePacketIn:
		return &PacketIn{}
	case TypeFlowRemoved:
		return &FlowRemoved{}
	case TypePortStatus:
		return &PortStatus{}
	case TypePacketOut:
		return &PacketOut{}
	case TypeFlowMod:
		return &FlowMod{}
	case TypePortMod:
		return &PortMod{}
	case TypeStatsRequest:
		return &StatsRequest{}
	case TypeStatsReply:
		return &StatsReply{}
	case TypeBarrierRequest:
		return &BarrierRequest{}
	case TypeBarrierReply:
		return &BarrierReply{}
	}
	return nil
}

// Decode reads any message, into a struct of its own. The Decode methods of the structs
// are the way without allocation.
func Decode(msg []byte) (Message, error) {
	h, err := openflow.ParseHeader(msg)
	if err != nil {
		return nil, err
	}
	m := New(h.Type)
	if m == nil {
		return nil, fail(msg, 1, openflow.Unknown, "no such message type in OpenFlow 1.0, or one that is not "+
			"implemented")
	}
	return m, m.Decode(msg)
}

var be = binary.BigEndian

// fail makes the error for msg, which may be shorter than a header.
func fail(msg []byte, offset int, kind openflow.Kind, format string, args ...any) error {
	e := &openflow.Error{Message: "message", Offset: offset, Kind: kind, Detail: fmt.Sprintf(format, args...)}
	if len(msg) >= openflow.HeaderLen {
		e.Version, e.Type, e.Message = msg[0], msg[1], TypeName(msg[1])
		if msg[0] == openflow.Version13 { // of a translation
			e.Message = of13.TypeName(msg[1])
		}
	}
	return e
}

// check reports whether msg is one whole 1.0 message of type t with at least size bytes.
func check(msg []byte, t uint8, size int) error {
	h, err := openflow.ParseHeader(msg)
	switch {
	case err != nil:
		return err
	case h.Version != openflow.Version10:
		return fail(msg, 0, openflow.Unknown, "version %d, OpenFlow 1.0 is %d", h.Version, openflow.Version10)
	case h.Type != t:
		return fail(msg, 1, openflow.BadValue, "type %d is not %s", h.Type, TypeName(t))
	case int(h.Length) != len(msg):
		return fail(msg, 2, openflow.BadLength, "length %d in a message of %d bytes", h.Length, len(msg))
	case len(msg) < size:
		return fail(msg, len(msg), openflow.Truncated, "at least %d bytes expected", size)
	}
	return nil
}

// checkSize is check for messages that have one size only.
func checkSize(msg []byte, t uint8, size int) error {
	if err := check(msg, t, size); err != nil {
		return err
	}
	if len(msg) > size {
		return fail(msg, size, openflow.BadLength, "%d bytes expected, %d found", size, len(msg))
	}
	return nil
}

func begin(dst []byte, t uint8, xid uint32) []byte {
	return openflow.AppendHeader(dst, openflow.Version10, t, xid)
}

// end completes the message that starts at dst[start].
func end(dst []byte, start int) []byte {
	if n := len(dst) - start; n > openflow.MaxMessageLen {
		panic(fmt.Sprintf("of10: %s of %d bytes, a message has at most %d", TypeName(dst[start+1]), n,
			openflow.MaxMessageLen))
	}
	openflow.SetLength(dst[start:])
	return dst
}

// Port is a port number (section 5.2.1).
type Port uint16

// Reserved ports.
const (
	PortMax        Port = 0xff00 // the highest physical port
	PortInPort     Port = 0xfff8
	PortTable      Port = 0xfff9
	PortNormal     Port = 0xfffa
	PortFlood      Port = 0xfffb
	PortAll        Port = 0xfffc
	PortController Port = 0xfffd
	PortLocal      Port = 0xfffe
	PortNone       Port = 0xffff
)

func (p Port) String() string {
	if p >= PortInPort {
		return [...]string{"IN_PORT", "TABLE", "NORMAL", "FLOOD", "ALL", "CONTROLLER", "LOCAL", "NONE"}[p-PortInPort]
	}
	return fmt.Sprintf("%d", uint16(p))
}
