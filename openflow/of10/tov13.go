package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ToV13 appends the 1.3 form of msg, one whole 1.0 message from a switch, with the same xid. A switch of 1.0 looks
// like one of 1.3 with one flow table, 0. Long statistics become more than one MULTIPART_REPLY, because their
// entries grow. What has no 1.3 form (HELLO, vendor statistics, actions whose 1.3 form depends on what they meet)
// is an *openflow.Error of kind Unsupported; dst is then returned as it was.
//
// The ports of a FEATURES_REPLY are not in the result: see PortsToV13. The Data of an ERROR stays the start of the
// 1.0 message that the switch refused.
func ToV13(dst, msg []byte) ([]byte, error) {
	if err := whole(msg); err != nil {
		return dst, err
	}
	switch typ := msg[1]; typ {
	case of13.TypePacketIn:
		return packetInToV13(dst, msg)
	case of13.TypeFlowRemoved:
		return flowRemovedToV13(dst, msg)
	case of13.TypePortStatus:
		return portStatusToV13(dst, msg)
	case TypeStatsReply:
		return statsReplyToV13(dst, msg)
	case of13.TypeFeaturesReply:
		return featuresReplyToV13(dst, msg)
	case openflow.TypeError:
		return errorToV13(dst, msg)
	case openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return relabel(dst, msg, openflow.Version13, typ, nil)
	case of13.TypeGetConfigReply:
		return relabel(dst, msg, openflow.Version13, typ, exactly(msg, 12))
	case TypeBarrierReply:
		return relabel(dst, msg, openflow.Version13, of13.TypeBarrierReply, exactly(msg, openflow.HeaderLen))
	case openflow.TypeExperimenter:
		err := atLeast(msg, 12)
		if err == nil && len(msg) < 16 { // 1.3 demands a type after the id, where most vendors have one
			err = unsupported(msg, 12, "VENDOR without a type after the id")
		}
		return relabel(dst, msg, openflow.Version13, typ, err)
	}
	return dst, unsupported(msg, 1, "%s from a switch", typeName(msg))
}

func packetInToV13(dst, msg []byte) ([]byte, error) {
	const fixed, growth = 18, 24
	if err := atLeast(msg, fixed); err != nil {
		return dst, err
	}
	if len(msg)+growth > openflow.MaxMessageLen {
		return dst, unsupported(msg, fixed, "a packet of %d bytes does not fit a message", len(msg)-fixed)
	}
	var oxm [8]byte
	out := of13.PacketIn{BufferID: be.Uint32(msg[8:]), TotalLen: be.Uint16(msg[12:]), Reason: msg[16],
		Cookie: of13.NoCookie, Match: of13.Match(oxm[:0]).WithInPort(portToV13(be.Uint16(msg[14:]))),
		Data: msg[fixed:]}
	return out.Append(dst, openflow.XID(msg)), nil
}

// matchRoom is enough for the fields of any 1.0 match, in bytes of OXM.
const matchRoom = 128

func flowRemovedToV13(dst, msg []byte) ([]byte, error) {
	if err := exactly(msg, 88); err != nil {
		return dst, err
	}
	var oxm [matchRoom]byte
	out := of13.FlowRemoved{Cookie: be.Uint64(msg[48:]), Priority: be.Uint16(msg[56:]), Reason: msg[58],
		DurationSec: be.Uint32(msg[60:]), DurationNsec: be.Uint32(msg[64:]), IdleTimeout: be.Uint16(msg[68:]),
		PacketCount: be.Uint64(msg[72:]), ByteCount: be.Uint64(msg[80:]), Match: match(msg[8:48]).toV13(oxm[:0])}
	return out.Append(dst, openflow.XID(msg)), nil
}

func portStatusToV13(dst, msg []byte) ([]byte, error) {
	if err := exactly(msg, 16+portLen); err != nil {
		return dst, err
	}
	out := of13.PortStatus{Reason: msg[8], Port: portDescToV13(msg[16:])}
	return out.Append(dst, openflow.XID(msg)), nil
}

// featuresLen is the length of a FEATURES_REPLY without its ports.
const featuresLen = 32

func featuresReplyToV13(dst, msg []byte) ([]byte, error) {
	const same = of13.CapFlowStats | of13.CapTableStats | of13.CapPortStats | of13.CapIPReasm | of13.CapQueueStats
	const spanningTree = 1 << 3
	if err := listFrom(msg, featuresLen, portLen); err != nil {
		return dst, err
	}
	capabilities := be.Uint32(msg[24:])
	out := of13.FeaturesReply{DatapathID: openflow.DatapathID(be.Uint64(msg[8:])), NBuffers: be.Uint32(msg[16:]),
		Capabilities: capabilities & same,
		NTables:      1} // 1.0 commands cannot name a table, so its tables are as one
	if capabilities&spanningTree != 0 {
		out.Capabilities |= of13.CapPortBlocked
	}
	return out.Append(dst, openflow.XID(msg)), nil
}

// PortsToV13 appends the ports of msg, one whole 1.0 FEATURES_REPLY, as 1.3 PORT_DESC replies with the same xid:
// one, or more if they do not fit, of which all but the last have of13.FlagMore.
func PortsToV13(dst, msg []byte) ([]byte, error) {
	err := whole(msg)
	switch {
	case err != nil:
		return dst, err
	case msg[1] != of13.TypeFeaturesReply:
		return dst, fail(msg, 1, openflow.BadValue, "type %d is not FEATURES_REPLY", msg[1])
	}
	if err := listFrom(msg, featuresLen, portLen); err != nil {
		return dst, err
	}
	return entriesToV13(dst, msg, of13.PartPortDesc, 0, msg[featuresLen:], portLen, func(dst, b []byte) []byte {
		return portDescToV13(b).AppendTo(dst)
	}), nil
}

// errorTypes gives the 1.3 type of each 1.0 error type (section 5.4.4).
var errorTypes = [...]uint16{of13.ErrTypeHelloFailed, of13.ErrTypeBadRequest, of13.ErrTypeBadAction,
	of13.ErrTypeFlowModFailed, of13.ErrTypePortModFailed, of13.ErrTypeQueueOpFailed}

// flowModCodes gives the 1.3 code of each 1.0 code of FLOW_MOD_FAILED; those of the other types are the same.
var flowModCodes = [...]uint16{of13.FlowModFailedTableFull, of13.FlowModFailedOverlap, of13.FlowModFailedEPerm,
	of13.FlowModFailedBadTimeout, of13.FlowModFailedBadCommand, of13.FlowModFailedUnknown}

func errorToV13(dst, msg []byte) ([]byte, error) {
	if err := atLeast(msg, 12); err != nil {
		return dst, err
	}
	typ, code := be.Uint16(msg[8:]), be.Uint16(msg[10:])
	if int(typ) >= len(errorTypes) {
		return dst, unsupported(msg, 8, "error of type %d", typ)
	}
	if typ = errorTypes[typ]; typ == of13.ErrTypeFlowModFailed {
		code = flowModCodes[min(int(code), len(flowModCodes)-1)]
	}
	return (&of13.Error{ErrType: typ, Code: code, Data: msg[12:]}).Append(dst, openflow.XID(msg)), nil
}
