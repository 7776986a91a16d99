package load

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
)

// What cbench does, in version 1.4.0 of its fakeswitch.c: it says HELLO with xid 1 at once,
// answers HELLO, ECHO_REQUEST (without the data), FEATURES_REQUEST, GET_CONFIG_REQUEST,
// BARRIER_REQUEST, the DESC statistics and, with an error, VENDOR, and ignores the rest. Packet-ins
// begin after the FEATURES_REPLY. Additions, strict modifications and packet-outs that are not LLDP
// count as answers, whatever their buffer. The buffer ids go from 1 to 99,999 and on from 0.
var dialect10 = dialect{
	hello:   (&of10.Hello{}).Append(nil, 1),
	control: control10,
	answers: answers10,
	anyID:   true,
	ids:     100_000,
}

func newSwitch10(id openflow.DatapathID, macs int, win *window) *fakeSwitch {
	in := of10.PacketIn{TotalLen: packetLen, InPort: sourcePort, Data: packet(byte(id))}
	arp := of10.PacketIn{BufferID: of10.NoBuffer, TotalLen: packetLen, InPort: destPort, Data: gratuitousARP(byte(id))}
	return &fakeSwitch{dialect: dialect10, id: id, macs: uint32(macs), win: win, xid: 2, number: 1,
		packetIn: in.Append(nil, 0), xidAt: 4, bufferAt: 8, sourceAt: 18 + sourceAt, announce: arp.Append(nil, 1)}
}

func control10(s *fakeSwitch, dst, msg []byte) ([]byte, error) {
	xid := openflow.XID(msg)
	switch msg[1] {
	case of10.TypeHello:
		return (&of10.Hello{}).Append(dst, xid), nil
	case of10.TypeEchoRequest:
		return (&of10.EchoReply{}).Append(dst, xid), nil
	case of10.TypeFeaturesRequest:
		features := of10.FeaturesReply{DatapathID: s.id, NBuffers: 256, NTables: 2, Actions: 0x7ff, Ports: ports10()}
		return s.becomeReady(features.Append(dst, xid)), nil
	case of10.TypeSetConfig:
		var m of10.SetConfig
		err := m.Decode(msg)
		s.config = [2]uint16{m.Flags, m.MissSendLen}
		return dst, err
	case of10.TypeGetConfigRequest:
		s.forget()
		return (&of10.GetConfigReply{Flags: s.config[0], MissSendLen: s.config[1]}).Append(dst, xid), nil
	case of10.TypeVendor:
		s.forget()
		return (&of10.Error{ErrType: of10.ErrBadRequest, Code: of10.CodeBadVendor}).Append(dst, xid), nil
	case of10.TypeBarrierRequest:
		return (&of10.BarrierReply{}).Append(dst, xid), nil
	case of10.TypeStatsRequest:
		var m of10.StatsRequest
		if err := m.Decode(msg); err != nil || m.StatsType != of10.StatsDesc {
			return dst, err
		}
		s.forget()
		return (&of10.StatsReply{Body: desc10.Append(nil)}).Append(dst, xid), nil
	}
	return dst, nil
}

// forget makes room for new packet-ins: a controller that still asks what the switch is may have
// thrown away the earlier ones. cbench does so too, since it would wait for ever.
func (s *fakeSwitch) forget() {
	if s.win != nil {
		for s.win.open > 0 {
			s.win.answerOldest()
			s.counts.Lost++
		}
	}
}

func answers10(msg []byte) (id uint32, ok bool, err error) {
	if msg[1] == typePacketOut {
		if len(msg) < 16 {
			return 0, false, short(msg, 16)
		}
		return be.Uint32(msg[8:]), !isLLDP(msg[min(16+int(be.Uint16(msg[14:])), len(msg)):]), nil
	}
	if len(msg) < 72 {
		return 0, false, short(msg, 72)
	}
	command := be.Uint16(msg[56:])
	return be.Uint32(msg[64:]), command == of10.FlowAdd || command == of10.FlowModifyStrict, nil
}

func isLLDP(packet []byte) bool {
	const vlan, lldp = 0x8100, 0x88cc
	if len(packet) >= 18 && be.Uint16(packet[12:]) == vlan {
		packet = packet[4:]
	}
	return len(packet) >= 14 && be.Uint16(packet[12:]) == lldp
}

var desc10 = of10.Desc{Manufacturer: [256]byte{'H', 'o', 'l', 'd', 'f', 'a', 's', 't'},
	Hardware: [256]byte{'n', 'o', 'n', 'e'},
	Software: [256]byte{'l', 'o', 'a', 'd'}, Serial: [32]byte{'n', 'o', 'n', 'e'},
	Datapath: [256]byte{'n', 'o', 'n', 'e'}}

// ports10 returns the four ports, copper of 10 Gb/s, that every fake switch has.
func ports10() of10.Ports {
	var list of10.Ports
	for i := range byte(portCount) {
		p := of10.PortDesc{Port: of10.Port(i + 1), HWAddr: portMAC(i + 1),
			Name: [16]byte{'v', 'e', 't', 'h', '1' + 2*i}, Current: 1<<6 | 1<<7}
		list = list.With(p)
	}
	return list
}

const portCount = 4

func portMAC(port byte) [6]byte { return [6]byte{0x02, 0, 0, 0, 0xff, port} }
