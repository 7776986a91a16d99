package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ToV13 appends the 1.3 form of msg, one whole message of OpenFlow 1.4 or 1.5 from a switch, with the same
// xid. Statistics whose entries grow may become more than one MULTIPART_REPLY. Errors and reasons that 1.3
// does not have become the nearest that it has. What has no 1.3 form (HELLO, TABLE_STATUS, the action
// COPY_FIELD in an entry, …) is an *openflow.Error of kind Unsupported; dst is then returned as it was.
//
// Two messages have a 1.3 form by extensions of the ONF: those about bundles (see of13.BundleControl), and
// ROLE_STATUS. The Data of an ERROR stays the start of the message that the switch refused, in its version.
func ToV13(dst, msg []byte) ([]byte, error) {
	if err := whole(msg); err != nil {
		return dst, err
	}
	switch msg[1] {
	case of13.TypePacketIn:
		return packetInToV13(dst, msg)
	case of13.TypeFlowRemoved:
		return flowRemovedToV13(dst, msg)
	case of13.TypePortStatus:
		return portStatusToV13(dst, msg)
	case openflow.TypeError:
		return errorToV13(dst, msg)
	case of13.TypeMultipartReply:
		return replyToV13(dst, msg)
	case openflow.TypeEchoRequest, openflow.TypeEchoReply, openflow.TypeExperimenter, of13.TypeFeaturesReply,
		of13.TypeGetConfigReply, of13.TypeBarrierReply:
		return same(dst, msg)
	case of13.TypeRoleReply:
		n := len(dst)
		dst, err := same(dst, msg)
		if err == nil {
			clear(dst[n+12 : n+16]) // short_id of 1.5
		}
		return dst, err
	case of13.TypeGetAsyncReply:
		return asyncToV13(dst, msg)
	case TypeRoleStatus:
		return roleStatusToV13(dst, msg)
	case TypeBundleControl:
		return bundleControlToV13(dst, msg)
	}
	return dst, unsupported(msg, 1, "%s from a switch", typeName(msg))
}

// packetInToV13: 1.3 has one reason where there are four for what an action sent.
func packetInToV13(dst, msg []byte) ([]byte, error) {
	const reasonAt, lastReason = 14, 5
	n := len(dst)
	dst, err := same(dst, msg)
	if err == nil && dst[n+reasonAt] > of13.PacketInInvalidTTL && dst[n+reasonAt] <= lastReason {
		dst[n+reasonAt] = of13.PacketInAction
	}
	return dst, err
}

// Reasons of a FLOW_REMOVED that 1.3 does not have: a meter was deleted, and eviction.
const (
	removedMeterDelete uint8 = 4
	removedEviction    uint8 = 5
)

func flowRemovedToV13(dst, msg []byte) ([]byte, error) {
	const reasonAt = 18 // in 1.3
	n := len(dst)
	var err error
	if msg[0] == openflow.Version15 {
		dst, err = flowRemoved15ToV13(dst, msg)
	} else {
		dst, err = same(dst, msg)
	}
	if err == nil && (dst[n+reasonAt] == removedMeterDelete || dst[n+reasonAt] == removedEviction) {
		dst[n+reasonAt] = of13.FlowRemovedDelete
	}
	return dst, err
}

func flowRemoved15ToV13(dst, msg []byte) ([]byte, error) {
	const fixed = 24 // up to the match
	if err := atLeast(msg, fixed); err != nil {
		return dst, err
	}
	match, off, err := matchAt(msg, fixed, len(msg))
	if err != nil {
		return dst, err
	}
	s, off, err := statsAt(msg, off, len(msg))
	switch {
	case err != nil:
		return dst, err
	case off != len(msg):
		return dst, fail(msg, off, openflow.BadLength, "%d bytes after the statistics", len(msg)-off)
	case len(msg)-fixed+flowRemovedFixed > openflow.MaxMessageLen:
		return dst, unsupported(msg, fixed, "a match of this size")
	}
	m := of13.FlowRemoved{TableID: msg[8], Reason: msg[9], Priority: be.Uint16(msg[10:]),
		IdleTimeout: be.Uint16(msg[12:]),
		HardTimeout: be.Uint16(msg[14:]), Cookie: be.Uint64(msg[16:]), DurationSec: s.duration.Sec,
		DurationNsec: s.duration.Nsec,
		PacketCount:  s.packets, ByteCount: s.bytes, Match: match}
	return checked(m.Append(dst, openflow.XID(msg)), len(dst), msg)
}

// flowRemovedFixed is the length of a FLOW_REMOVED of 1.3 up to the match.
const flowRemovedFixed = 48

// onfRoleStatus is the type of ONF extension 191, which is ROLE_STATUS for OpenFlow 1.3.
const onfRoleStatus uint32 = 1911

func roleStatusToV13(dst, msg []byte) ([]byte, error) {
	const size = 24
	if err := atLeast(msg, size); err != nil {
		return dst, err
	}
	m := of13.Experimenter{ID: of13.OnfID, ExpType: onfRoleStatus, Data: msg[8:size]}
	return m.Append(dst, openflow.XID(msg)), nil
}

// reasonBits are the bits of one mask of Async, and what they stand for in later versions.
type reasonBits struct {
	known       uint32 // bits that 1.3 has
	means, also uint32 // who wants `means` in 1.3 wants `also` in addition
}

// asyncBits is in the order of the properties of SET_ASYNC and of the masks of of13.Async.
var asyncBits = [3]reasonBits{
	{1<<3 - 1, 1 << of13.PacketInAction, 7 << 3}, // output in an action set, a group, a packet-out
	{1<<3 - 1, 0, 0},
	{1<<4 - 1, 1 << of13.FlowRemovedDelete, 1<<removedMeterDelete | 1<<removedEviction},
}

// asyncToV13 reads the properties: 0 to 5 are the masks of 1.3, of a slave and then of a master.
func asyncToV13(dst, msg []byte) ([]byte, error) {
	var m of13.GetAsyncReply
	masks := [3]*[2]uint32{&m.PacketIn, &m.PortStatus, &m.FlowRemoved}
	err := properties(msg, openflow.HeaderLen, len(msg), func(typ uint16, p []byte) {
		if typ < 6 && len(p) == 8 {
			masks[typ/2][1-typ%2] = be.Uint32(p[4:]) & asyncBits[typ/2].known
		}
	})
	if err != nil {
		return dst, err
	}
	return m.Append(dst, openflow.XID(msg)), nil
}

func asyncFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	var in of13.SetAsync
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = openflow.AppendHeader(dst, version, of13.TypeSetAsync, openflow.XID(msg))
	masks := [3][2]uint32{in.PacketIn, in.PortStatus, in.FlowRemoved}
	for typ := range uint16(6) {
		mask, bits := masks[typ/2][1-typ%2]&asyncBits[typ/2].known, asyncBits[typ/2]
		if mask&bits.means != 0 {
			mask |= bits.also
		}
		dst = be.AppendUint32(be.AppendUint16(be.AppendUint16(dst, typ), 8), mask)
	}
	openflow.SetLength(dst[n:])
	return dst, nil
}
