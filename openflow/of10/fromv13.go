package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// FromV13 appends the 1.0 form of msg, one whole 1.3 message to a switch, with the same xid. What 1.0 cannot say
// (another table than 0, groups, meters, most match fields, roles, …) is an *openflow.Error of kind Unsupported
// that names it; dst is then returned as it was. Hints that only save a switch work are dropped: flags against
// counting.
//
// A request for PORT_DESC becomes a FEATURES_REQUEST; its answer is for PortsToV13.
func FromV13(dst, msg []byte) ([]byte, error) {
	h, err := openflow.ParseHeader(msg)
	if err != nil {
		return dst, err
	}
	if h.Version != openflow.Version13 {
		return dst, fail(msg, 0, openflow.Unknown, "version %d, OpenFlow 1.3 is %d", h.Version, openflow.Version13)
	}
	n := len(dst)
	switch h.Type {
	case of13.TypeFlowMod:
		dst, err = flowModFromV13(dst, msg)
	case of13.TypePacketOut:
		dst, err = packetOutFromV13(dst, msg)
	case of13.TypePortMod:
		dst, err = portModFromV13(dst, msg)
	case of13.TypeMultipartRequest:
		dst, err = requestFromV13(dst, msg)
	case of13.TypeBarrierRequest:
		return relabel(dst, msg, openflow.Version10, TypeBarrierRequest, new(of13.BarrierRequest).Decode(msg))
	case of13.TypeEchoRequest, of13.TypeEchoReply, of13.TypeFeaturesRequest, of13.TypeGetConfigRequest,
		of13.TypeSetConfig, of13.TypeExperimenter:
		_, err := of13.Decode(msg)
		return relabel(dst, msg, openflow.Version10, h.Type, err)
	default:
		return dst, unsupported(msg, 1, "%s", of13.TypeName(h.Type))
	}
	if err == nil && len(dst)-n > openflow.MaxMessageLen {
		err = unsupported(msg, 0, "a message of this size")
	}
	if err != nil {
		return dst[:n], err
	}
	openflow.SetLength(dst[n:])
	return dst, nil
}

// Offsets in 1.3 messages.
const (
	flowModMatchAt   = 48
	packetOutListAt  = 24
	multipartBodyAt  = 16
	statsMatchAt     = multipartBodyAt + 32
	matchFieldsAfter = 4 // the header of a match
)

// begin appends the header of a message of 1.0 that msg becomes.
func begin(dst []byte, typ uint8, msg []byte) []byte {
	return openflow.AppendHeader(dst, openflow.Version10, typ, openflow.XID(msg))
}

// wide is the error for a port, at offset in msg, whose number 1.0 does not have.
func wide(msg []byte, offset int, port of13.Port) error {
	return unsupported(msg, offset, "port %v: port numbers have 16 bits", port)
}

func flowModFromV13(dst, msg []byte) ([]byte, error) {
	const sameFlags = of13.FlowSendFlowRem | of13.FlowCheckOverlap
	var in of13.FlowMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	deletes := in.Command >= of13.FlowDelete
	switch {
	case in.Command > of13.FlowDeleteStrict:
		return dst, fail(msg, 25, openflow.BadValue, "flow-mod command %d", in.Command)
	case in.TableID != 0 && !(deletes && in.TableID == of13.TableAll):
		return dst, unsupported(msg, 24, "table %d", in.TableID)
	case in.Command != of13.FlowAdd && in.CookieMask != 0:
		return dst, unsupported(msg, 16, "cookie mask %#x", in.CookieMask)
	case (in.Command == of13.FlowModify || in.Command == of13.FlowModifyStrict) && in.Flags&of13.FlowResetCounts != 0:
		return dst, unsupported(msg, 44, "reset_counts in a modification") // an addition resets them anyway
	}
	out, err := uint16(portNone), error(nil)
	if deletes {
		if out, err = outFromV13(in.OutPort, in.OutGroup, msg, 36); err != nil {
			return dst, err
		}
	}
	dst = begin(dst, of13.TypeFlowMod, msg)
	n := len(dst)
	if dst, err = matchFromV13(dst, in.Match, msg, flowModMatchAt+matchFieldsAfter); err != nil {
		return dst, err
	}
	tagged := match(dst[n:]).tagged()
	dst = be.AppendUint64(dst, in.Cookie)
	dst = be.AppendUint16(be.AppendUint16(dst, uint16(in.Command)), in.IdleTimeout)
	dst = be.AppendUint16(be.AppendUint16(dst, in.HardTimeout), in.Priority)
	dst = be.AppendUint32(dst, in.BufferID)
	dst = be.AppendUint16(be.AppendUint16(dst, out), in.Flags&sameFlags)
	if deletes {
		return dst, nil
	}
	return instructionsFromV13(dst, in.Instructions, tagged, msg, flowModMatchAt+(matchFieldsAfter+len(in.Match)+7)&^7)
}

// outFromV13 reads the restriction of a deletion or of statistics, which is at offset in msg.
func outFromV13(port of13.Port, group uint32, msg []byte, offset int) (uint16, error) {
	if group != of13.GroupAny {
		return 0, unsupported(msg, offset+4, "group %d", group)
	}
	p, ok := portFromV13(port)
	if !ok {
		return 0, wide(msg, offset, port)
	}
	return p, nil
}

func packetOutFromV13(dst, msg []byte) ([]byte, error) {
	const fixed = 16
	var in of13.PacketOut
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	port, ok := portFromV13(in.InPort)
	switch {
	case in.InPort == of13.PortController: // "no port" in 1.3
		port = portNone
	case !ok:
		return dst, wide(msg, 12, in.InPort)
	}
	n := len(dst)
	dst = be.AppendUint32(begin(dst, of13.TypePacketOut, msg), in.BufferID)
	dst = pad(be.AppendUint16(dst, port), 2)
	tagged := len(in.Data) >= 14 && be.Uint16(in.Data[12:]) == etherTypeVLAN
	dst, err := actionsFromV13(dst, in.Actions, tagged, msg, packetOutListAt)
	if err != nil {
		return dst, err
	}
	be.PutUint16(dst[n+14:], uint16(len(dst)-n-fixed))
	return append(dst, in.Data...), nil
}

func portModFromV13(dst, msg []byte) ([]byte, error) {
	var in of13.PortMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	port, ok := portFromV13(in.Port)
	advertise, known := linkFromV13(in.Advertise)
	switch {
	case !ok:
		return dst, wide(msg, 8, in.Port)
	case in.Mask&^configBits != 0:
		return dst, unsupported(msg, 28, "port configuration bits %#x", in.Mask&^configBits)
	case !known:
		return dst, unsupported(msg, 32, "advertised link modes %#x", in.Advertise)
	}
	dst = be.AppendUint16(begin(dst, TypePortMod, msg), port)
	dst = be.AppendUint32(append(dst, in.HwAddr[:]...), in.Config&configBits)
	return pad(be.AppendUint32(be.AppendUint32(dst, in.Mask), advertise), 4), nil
}

func requestFromV13(dst, msg []byte) ([]byte, error) {
	var in of13.MultipartRequest
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	if in.Part == of13.PartPortDesc {
		return begin(dst, of13.TypeFeaturesRequest, msg), nil
	}
	dst = be.AppendUint16(begin(dst, TypeStatsRequest, msg), uint16(in.Part)) // the numbers that both have are the same
	dst = pad(dst, 2)
	switch in.Part {
	case of13.PartDesc, of13.PartTable:
		return dst, nil
	case of13.PartFlow, of13.PartAggregate:
		r, _ := in.Flow()
		return flowRequestFromV13(dst, &r, msg)
	case of13.PartPortStats:
		p, _ := in.Port()
		port, ok := portFromV13(p)
		if !ok {
			return dst, wide(msg, multipartBodyAt, p)
		}
		return pad(be.AppendUint16(dst, port), 6), nil
	case of13.PartQueue:
		q, _ := in.Queue()
		port, ok := portFromV13(q.Port)
		switch {
		case !ok:
			return dst, wide(msg, multipartBodyAt, q.Port)
		case port == portNone: // 1.3 has ANY where 1.0 has ALL
			port = portAll
		}
		return be.AppendUint32(pad(be.AppendUint16(dst, port), 2), q.Queue), nil
	}
	return dst, unsupported(msg, 8, "multipart %v", in.Part)
}

// flowRequestFromV13 asks for all tables where 1.3 asks for 0, as all are one in ToV13.
func flowRequestFromV13(dst []byte, r *of13.FlowStatsRequest, msg []byte) ([]byte, error) {
	const allTables = 0xff
	switch {
	case r.TableID != 0 && r.TableID != of13.TableAll:
		return dst, unsupported(msg, multipartBodyAt, "table %d", r.TableID)
	case r.CookieMask != 0:
		return dst, unsupported(msg, multipartBodyAt+24, "cookie mask %#x", r.CookieMask)
	}
	out, err := outFromV13(r.OutPort, r.OutGroup, msg, multipartBodyAt+4)
	if err != nil {
		return dst, err
	}
	if dst, err = matchFromV13(dst, r.Match, msg, statsMatchAt+matchFieldsAfter); err != nil {
		return dst, err
	}
	return be.AppendUint16(append(dst, allTables, 0), out), nil
}
