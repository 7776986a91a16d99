package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// FromV13 appends the 1.0 form of msg, one whole 1.3 message to a switch, with the same xid.
// What 1.0 cannot say (another table than 0, groups, meters, most match fields, roles, …) is
// an *openflow.Error of kind Unsupported that names it; dst is then returned as it was.
// Hints that only save a switch work are dropped: flags against counting.
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
	switch h.Type {
	case of13.TypeFlowMod:
		return flowModFromV13(dst, msg)
	case of13.TypePacketOut:
		return packetOutFromV13(dst, msg)
	case of13.TypePortMod:
		return portModFromV13(dst, msg)
	case of13.TypeMultipartRequest:
		return requestFromV13(dst, msg)
	case of13.TypeEchoRequest:
		return relabel(dst, msg, openflow.Version10, TypeEchoRequest, new(of13.EchoRequest).Decode(msg))
	case of13.TypeEchoReply:
		return relabel(dst, msg, openflow.Version10, TypeEchoReply, new(of13.EchoReply).Decode(msg))
	case of13.TypeBarrierRequest:
		return relabel(dst, msg, openflow.Version10, TypeBarrierRequest, new(of13.BarrierRequest).Decode(msg))
	case of13.TypeFeaturesRequest:
		return relabel(dst, msg, openflow.Version10, TypeFeaturesRequest, new(of13.FeaturesRequest).Decode(msg))
	case of13.TypeGetConfigRequest:
		return relabel(dst, msg, openflow.Version10, TypeGetConfigRequest, new(of13.GetConfigRequest).Decode(msg))
	case of13.TypeSetConfig:
		return relabel(dst, msg, openflow.Version10, TypeSetConfig, new(of13.SetConfig).Decode(msg))
	case of13.TypeExperimenter:
		return relabel(dst, msg, openflow.Version10, TypeVendor, new(of13.Experimenter).Decode(msg))
	}
	return dst, unsupported(msg, 1, "%s", of13.TypeName(h.Type))
}

// Offsets in 1.3 messages.
const (
	flowModMatchAt   = 48
	packetOutListAt  = 24
	multipartBodyAt  = 16
	statsMatchAt     = multipartBodyAt + 32
	matchFieldsAfter = 4 // the header of a match
)

func flowModFromV13(dst, msg []byte) ([]byte, error) {
	var in of13.FlowMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	out := FlowMod{Cookie: in.Cookie, Command: uint16(in.Command), IdleTimeout: in.IdleTimeout,
		HardTimeout: in.HardTimeout,
		Priority:    in.Priority, BufferID: in.BufferID, OutPort: PortNone,
		Flags: in.Flags & (FlagSendFlowRem | FlagCheckOverlap)}
	deletes := in.Command >= of13.FlowDelete
	switch {
	case out.Command > FlowDeleteStrict:
		return dst, fail(msg, 25, openflow.BadValue, "flow-mod command %d", in.Command)
	case in.TableID != 0 && !(deletes && in.TableID == of13.TableAll):
		return dst, unsupported(msg, 24, "table %d", in.TableID)
	case in.Command != of13.FlowAdd && in.CookieMask != 0:
		return dst, unsupported(msg, 16, "cookie mask %#x", in.CookieMask)
	case (in.Command == of13.FlowModify || in.Command == of13.FlowModifyStrict) && in.Flags&of13.FlowResetCounts != 0:
		return dst, unsupported(msg, 44, "reset_counts in a modification") // an addition resets them anyway
	}
	var err error
	if deletes {
		if out.OutPort, err = outFromV13(in.OutPort, in.OutGroup, msg, 36); err != nil {
			return dst, err
		}
	}
	if out.Match, err = matchFromV13(in.Match, msg, flowModMatchAt+matchFieldsAfter); err != nil {
		return dst, err
	}
	n := len(dst)
	long := out.Append(dst, openflow.XID(msg))
	if !deletes {
		if long, err = instructionsFromV13(long, in.Instructions, msg,
			matchEnd(flowModMatchAt, len(in.Match))); err != nil {
			return dst, err
		}
	}
	if len(long)-n > openflow.MaxMessageLen { // the fixed part of 1.0 is longer by 8 bytes
		return dst, unsupported(msg, flowModMatchAt, "a flow-mod of this size")
	}
	return end(long, n), nil
}

// outFromV13 reads the restriction of a deletion or of statistics, which is at offset in msg.
func outFromV13(port of13.Port, group uint32, msg []byte, offset int) (Port, error) {
	if group != of13.GroupAny {
		return 0, unsupported(msg, offset+4, "group %d", group)
	}
	p, ok := portFromV13(port)
	if !ok {
		return 0, unsupported(msg, offset, "port %v: port numbers have 16 bits", port)
	}
	return p, nil
}

func packetOutFromV13(dst, msg []byte) ([]byte, error) {
	var in of13.PacketOut
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	port, ok := portFromV13(in.InPort)
	switch {
	case in.InPort == of13.PortController: // "no port" in 1.3
		port = PortNone
	case !ok:
		return dst, unsupported(msg, 12, "port %v: port numbers have 16 bits", in.InPort)
	}
	n := len(dst)
	long := (&PacketOut{BufferID: in.BufferID, InPort: port}).Append(dst, openflow.XID(msg))
	long, err := actionsFromV13(long, in.Actions, msg, packetOutListAt)
	if err != nil {
		return dst, err
	}
	be.PutUint16(long[n+14:], uint16(len(long)-n-packetOutLen))
	return end(append(long, in.Data...), n), nil
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
		return dst, unsupported(msg, 8, "port %v: port numbers have 16 bits", in.Port)
	case in.Mask&^configBits != 0:
		return dst, unsupported(msg, 28, "port configuration bits %#x", in.Mask&^configBits)
	case !known:
		return dst, unsupported(msg, 32, "advertised link modes %#x", in.Advertise)
	}
	out := PortMod{Port: port, HWAddr: in.HwAddr, Config: in.Config & configBits, Mask: in.Mask, Advertise: advertise}
	return out.Append(dst, openflow.XID(msg)), nil
}

func requestFromV13(dst, msg []byte) ([]byte, error) {
	var in of13.MultipartRequest
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	xid := openflow.XID(msg)
	var body [flowStatsRequestLen]byte
	out := StatsRequest{StatsType: StatsType(in.Part), Body: body[:0]} // the numbers that both have are the same
	switch in.Part {
	case of13.PartDesc, of13.PartTable:
	case of13.PartPortDesc:
		return new(FeaturesRequest).Append(dst, xid), nil
	case of13.PartFlow, of13.PartAggregate:
		r, err := flowRequestFromV13(&in, msg)
		if err != nil {
			return dst, err
		}
		out.Body = r.Append(out.Body)
	case of13.PartPortStats:
		p, _ := in.Port()
		port, ok := portFromV13(p)
		if !ok {
			return dst, unsupported(msg, multipartBodyAt, "port %v: port numbers have 16 bits", p)
		}
		out.Body = PortStatsRequest{port}.Append(out.Body)
	case of13.PartQueue:
		q, _ := in.Queue()
		port, ok := portFromV13(q.Port)
		switch {
		case !ok:
			return dst, unsupported(msg, multipartBodyAt, "port %v: port numbers have 16 bits", q.Port)
		case port == PortNone: // 1.3 has ANY where 1.0 has ALL
			port = PortAll
		}
		out.Body = QueueStatsRequest{port, q.Queue}.Append(out.Body)
	default:
		return dst, unsupported(msg, 8, "multipart %v", in.Part)
	}
	return out.Append(dst, xid), nil
}

// flowRequestFromV13 asks for all tables where 1.3 asks for 0, as all are one in ToV13.
func flowRequestFromV13(in *of13.MultipartRequest, msg []byte) (FlowStatsRequest, error) {
	r, _ := in.Flow()
	out := FlowStatsRequest{TableID: AllTables}
	switch {
	case r.TableID != 0 && r.TableID != of13.TableAll:
		return out, unsupported(msg, multipartBodyAt, "table %d", r.TableID)
	case r.CookieMask != 0:
		return out, unsupported(msg, multipartBodyAt+24, "cookie mask %#x", r.CookieMask)
	}
	var err error
	if out.OutPort, err = outFromV13(r.OutPort, r.OutGroup, msg, multipartBodyAt+4); err != nil {
		return out, err
	}
	out.Match, err = matchFromV13(r.Match, msg, statsMatchAt+matchFieldsAfter)
	return out, err
}
