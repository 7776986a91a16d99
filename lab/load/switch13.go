package load

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A 1.3 switch sends HELLO at once, and answers requests as a switch without flows, groups and meters would. An answer
// is an added flow or a packet-out that names an outstanding buffer.
var dialect13 = dialect{
	hello:   hello13(),
	control: control13,
	answers: answers13,
	ids:     1 << 31, // far from NoBuffer
}

func hello13() []byte {
	m := of13.NewHello(of13.VersionsOf(openflow.Version13))
	return m.Append(nil, 1)
}

func newSwitch13(id openflow.DatapathID, macs int, win *window) *fakeSwitch {
	in := of13.PacketIn{TotalLen: packetLen, Cookie: of13.NoCookie, Match: of13.Match(nil).WithInPort(sourcePort),
		Data: packet(byte(id))}
	arp := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: packetLen, Cookie: of13.NoCookie,
		Match: of13.Match(nil).WithInPort(destPort), Data: gratuitousARP(byte(id))}
	return &fakeSwitch{dialect: dialect13, id: id, macs: uint32(macs), win: win, xid: 2, number: 1,
		role:     of13.RoleReply{Role: of13.RoleEqual},
		packetIn: in.Append(nil, 0), xidAt: 4, bufferAt: 8, portAt: 32, sourceAt: 42 + sourceAt,
		announce: arp.Append(nil, 1)}
}

func control13(s *fakeSwitch, dst, msg []byte) ([]byte, error) {
	xid := openflow.XID(msg)
	switch msg[1] {
	case of13.TypeEchoRequest:
		return (&of13.EchoReply{Data: msg[openflow.HeaderLen:]}).Append(dst, xid), nil
	case of13.TypeFeaturesRequest:
		const capabilities = of13.CapFlowStats | of13.CapTableStats | of13.CapPortStats
		features := of13.FeaturesReply{DatapathID: s.id, NBuffers: 256, NTables: 1, Capabilities: capabilities}
		if dst = features.Append(dst, xid); s.afterPorts {
			return dst, nil
		}
		return s.becomeReady(dst), nil
	case of13.TypeSetConfig:
		var m of13.SetConfig
		err := m.Decode(msg)
		s.config = [2]uint16{m.Flags, m.MissSendLen}
		return dst, err
	case of13.TypeGetConfigRequest:
		return (&of13.GetConfigReply{Flags: s.config[0], MissSendLen: s.config[1]}).Append(dst, xid), nil
	case of13.TypeBarrierRequest:
		return (&of13.BarrierReply{}).Append(dst, xid), nil
	case of13.TypeRoleRequest:
		var m of13.RoleRequest
		if err := m.Decode(msg); err != nil {
			return dst, err
		}
		if m.Role != of13.RoleNoChange {
			s.role = of13.RoleReply(m)
		}
		return s.role.Append(dst, xid), nil
	case of13.TypeMultipartRequest:
		return s.multipart13(dst, msg)
	}
	return dst, nil
}

func (s *fakeSwitch) multipart13(dst, msg []byte) ([]byte, error) {
	var m of13.MultipartRequest
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	reply := of13.MultipartReply{Part: m.Part}
	switch m.Part { // those that are not a list, which may be empty
	case of13.PartPortDesc:
		reply.Body = ports13()
		return s.becomeReady(reply.Append(dst, openflow.XID(msg))), nil
	case of13.PartPortStats:
		if s.taps.PortStats != nil {
			reply.Body = s.taps.PortStats()
		}
	case of13.PartDesc:
		reply.Body = of13.Desc{Manufacturer: "Holdfast", Hardware: "none", Software: "load", Serial: "none",
			Datapath: "none"}.AppendTo(nil)
	case of13.PartAggregate:
		reply.Body = of13.AggregateStats{}.AppendTo(nil)
	case of13.PartGroupFeatures:
		reply.Body = of13.GroupFeatures{}.AppendTo(nil)
	case of13.PartMeterFeatures:
		reply.Body = of13.MeterFeatures{}.AppendTo(nil)
	case of13.PartExperimenter:
		refused := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadExperimenter, Data: msg}
		return refused.Append(dst, openflow.XID(msg)), nil
	}
	return reply.Append(dst, openflow.XID(msg)), nil
}

func answers13(msg []byte) (id uint32, ok bool, err error) {
	if msg[1] == typePacketOut {
		if len(msg) < 24 {
			return 0, false, short(msg, 24)
		}
		id = be.Uint32(msg[8:])
		return id, id != of13.NoBuffer, nil
	}
	if len(msg) < 56 {
		return 0, false, short(msg, 56)
	}
	id = be.Uint32(msg[32:])
	return id, msg[25] == of13.FlowAdd && id != of13.NoBuffer, nil
}

func ports13() []byte {
	var list of13.List[of13.PortDesc]
	for i := range byte(portCount) {
		list = list.With(of13.PortDesc{Port: of13.Port(i + 1), HwAddr: portMAC(i + 1),
			Name:  "veth" + string('1'+2*rune(i)),
			State: of13.PortStateLive, Curr: of13.Port10GbFD | of13.PortCopper, CurrSpeed: 10_000_000,
			MaxSpeed: 10_000_000})
	}
	return list
}
