package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ToV13 appends the 1.3 form of msg, one whole 1.0 message from a switch, with the same
// xid. A switch of 1.0 looks like one of 1.3 with one flow table, 0. Long statistics become
// more than one MULTIPART_REPLY, because their entries grow. What has no 1.3 form (HELLO,
// vendor statistics, actions whose 1.3 form depends on what they meet) is an
// *openflow.Error of kind Unsupported; dst is then returned as it was.
//
// The ports of a FEATURES_REPLY are not in the result: see PortsToV13. The Data of an ERROR
// stays the start of the 1.0 message that the switch refused.
func ToV13(dst, msg []byte) ([]byte, error) {
	h, err := openflow.ParseHeader(msg)
	if err != nil {
		return dst, err
	}
	switch h.Type {
	case TypePacketIn:
		return packetInToV13(dst, msg)
	case TypeFlowRemoved:
		return flowRemovedToV13(dst, msg)
	case TypePortStatus:
		var m PortStatus
		if err := m.Decode(msg); err != nil {
			return dst, err
		}
		return (&of13.PortStatus{Reason: m.Reason, Port: m.Port.toV13()}).Append(dst, h.XID), nil
	case TypeStatsReply:
		return statsReplyToV13(dst, msg)
	case TypeFeaturesReply:
		return featuresReplyToV13(dst, msg)
	case TypeError:
		return errorToV13(dst, msg)
	case TypeEchoRequest, TypeEchoReply:
		return relabel(dst, msg, openflow.Version13, h.Type, check(msg, h.Type, openflow.HeaderLen))
	case TypeGetConfigReply:
		return relabel(dst, msg, openflow.Version13, of13.TypeGetConfigReply, checkSize(msg, h.Type, configLen))
	case TypeBarrierReply:
		return relabel(dst, msg, openflow.Version13, of13.TypeBarrierReply, checkSize(msg, h.Type, openflow.HeaderLen))
	case TypeVendor:
		err := check(msg, h.Type, 12)
		if err == nil && len(msg) < 16 { // 1.3 demands a type after the id, where most vendors have one
			err = unsupported(msg, 12, "VENDOR without a type after the id")
		}
		return relabel(dst, msg, openflow.Version13, of13.TypeExperimenter, err)
	}
	if err := check(msg, h.Type, openflow.HeaderLen); err != nil {
		return dst, err
	}
	return dst, unsupported(msg, 1, "%s from a switch", TypeName(h.Type))
}

// PortsToV13 appends the ports of msg, one whole 1.0 FEATURES_REPLY, as 1.3 PORT_DESC
// replies with the same xid: one, or more if they do not fit, of which all but the last
// have of13.FlagMore.
func PortsToV13(dst, msg []byte) ([]byte, error) {
	var m FeaturesReply
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	w := newReply(dst, of13.PartPortDesc, openflow.XID(msg))
	for p := range m.Ports.All() {
		w.add(p.toV13().AppendTo(w.dst))
	}
	return w.finish(0), nil
}

// relabel appends msg, whose layout is the same in both versions, with another version and
// type, unless err says that msg is not what it should be.
func relabel(dst, msg []byte, version, typ uint8, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	n := len(dst)
	dst = append(dst, msg...)
	dst[n], dst[n+1] = version, typ
	return dst, nil
}

func unsupported(msg []byte, offset int, format string, args ...any) error {
	return fail(msg, offset, openflow.Unsupported, format, args...)
}

// packetInGrowth is how much longer a PACKET_IN is in 1.3.
const packetInGrowth = 24

func packetInToV13(dst, msg []byte) ([]byte, error) {
	var m PacketIn
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	if len(msg)+packetInGrowth > openflow.MaxMessageLen {
		return dst, unsupported(msg, packetInLen, "a packet of %d bytes does not fit a message", len(m.Data))
	}
	var fields [8]byte
	out := of13.PacketIn{BufferID: m.BufferID, TotalLen: m.TotalLen, Reason: m.Reason, Cookie: of13.NoCookie,
		Match: of13.Match(fields[:0]).WithInPort(m.InPort.toV13()), Data: m.Data}
	return out.Append(dst, openflow.XID(msg)), nil
}

// matchRoom is enough for the fields of any 1.0 match, in bytes of OXM.
const matchRoom = 128

func flowRemovedToV13(dst, msg []byte) ([]byte, error) {
	var m FlowRemoved
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	var fields [matchRoom]byte
	out := of13.FlowRemoved{Cookie: m.Cookie, Priority: m.Priority, Reason: m.Reason,
		DurationSec: m.DurationSec, DurationNsec: m.DurationNsec, IdleTimeout: m.IdleTimeout,
		PacketCount: m.Packets, ByteCount: m.Bytes, Match: m.Match.toV13(fields[:0])}
	return out.Append(dst, openflow.XID(msg)), nil
}

func featuresReplyToV13(dst, msg []byte) ([]byte, error) {
	var m FeaturesReply
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	const same = CapFlowStats | CapTableStats | CapPortStats | CapIPReasm | CapQueueStats
	out := of13.FeaturesReply{DatapathID: m.DatapathID, NBuffers: m.NBuffers, Capabilities: m.Capabilities & same,
		NTables: 1} // 1.0 commands cannot name a table, so its tables are as one
	if m.Capabilities&CapSTP != 0 {
		out.Capabilities |= of13.CapPortBlocked
	}
	return out.Append(dst, openflow.XID(msg)), nil
}

// errorTypes gives the 1.3 type of each 1.0 error type.
var errorTypes = [...]uint16{
	ErrHelloFailed:   of13.ErrTypeHelloFailed,
	ErrBadRequest:    of13.ErrTypeBadRequest,
	ErrBadAction:     of13.ErrTypeBadAction,
	ErrFlowModFailed: of13.ErrTypeFlowModFailed,
	ErrPortModFailed: of13.ErrTypePortModFailed,
	ErrQueueOpFailed: of13.ErrTypeQueueOpFailed,
}

// flowModCodes gives the 1.3 code of each 1.0 code of ErrFlowModFailed; those of the other
// types are the same.
var flowModCodes = [...]uint16{of13.FlowModFailedTableFull, of13.FlowModFailedOverlap, of13.FlowModFailedEPerm,
	of13.FlowModFailedBadTimeout, of13.FlowModFailedBadCommand, of13.FlowModFailedUnknown}

func errorToV13(dst, msg []byte) ([]byte, error) {
	var m Error
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	if int(m.ErrType) >= len(errorTypes) {
		return dst, unsupported(msg, 8, "error of type %d", m.ErrType)
	}
	code := m.Code
	if m.ErrType == ErrFlowModFailed {
		code = of13.FlowModFailedUnknown
		if int(m.Code) < len(flowModCodes) {
			code = flowModCodes[m.Code]
		}
	}
	return (&of13.Error{ErrType: errorTypes[m.ErrType], Code: code, Data: m.Data}).Append(dst, openflow.XID(msg)), nil
}
