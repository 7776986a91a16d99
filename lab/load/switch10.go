package load

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// What cbench does, in version 1.4.0 of its fakeswitch.c: it says HELLO with xid 1 at once,
// answers HELLO, ECHO_REQUEST (without the data), FEATURES_REQUEST, GET_CONFIG_REQUEST,
// BARRIER_REQUEST, the DESC statistics and, with an error, VENDOR, and ignores the rest. Packet-ins
// begin after the FEATURES_REPLY. Additions, strict modifications and packet-outs that are not LLDP
// count as answers, whatever their buffer. The buffer ids go from 1 to 99,999 and on from 0.
var dialect10 = dialect{
	hello:   message10(nil, openflow.TypeHello, 1, nil),
	control: control10,
	answers: answers10,
	anyID:   true,
	ids:     100_000,
}

func newSwitch10(id openflow.DatapathID, macs int, win *window) *fakeSwitch {
	in := packetIn10(0, sourcePort, packet(byte(id)))
	arp := packetIn10(of13.NoBuffer, destPort, gratuitousARP(byte(id)))
	openflow.SetXID(arp, 1)
	return &fakeSwitch{dialect: dialect10, id: id, macs: uint32(macs), win: win, xid: 2, number: 1,
		packetIn: in, xidAt: 4, bufferAt: 8, sourceAt: 18 + sourceAt, announce: arp}
}

// message10 appends a message of OpenFlow 1.0.
func message10(dst []byte, typ uint8, xid uint32, body []byte) []byte {
	n := len(dst)
	dst = append(openflow.AppendHeader(dst, openflow.Version10, typ, xid), body...)
	openflow.SetLength(dst[n:])
	return dst
}

func packetIn10(buffer uint32, port uint16, frame []byte) []byte {
	body := be.AppendUint16(be.AppendUint32(nil, buffer), packetLen)
	body = append(be.AppendUint16(body, port), 0, 0) // no entry matched
	return message10(nil, of13.TypePacketIn, 0, append(body, frame...))
}

func control10(s *fakeSwitch, dst, msg []byte) ([]byte, error) {
	xid := openflow.XID(msg)
	switch msg[1] {
	case openflow.TypeHello:
		return message10(dst, openflow.TypeHello, xid, nil), nil
	case openflow.TypeEchoRequest:
		return message10(dst, openflow.TypeEchoReply, xid, nil), nil
	case of13.TypeFeaturesRequest:
		return s.becomeReady(message10(dst, of13.TypeFeaturesReply, xid, features10(s.id))), nil
	case of13.TypeSetConfig:
		if len(msg) < 12 {
			return dst, short(msg, 12)
		}
		s.config = [2]uint16{be.Uint16(msg[8:]), be.Uint16(msg[10:])}
		return dst, nil
	case of13.TypeGetConfigRequest:
		s.forget()
		body := be.AppendUint16(be.AppendUint16(nil, s.config[0]), s.config[1])
		return message10(dst, of13.TypeGetConfigReply, xid, body), nil
	case openflow.TypeExperimenter:
		s.forget()
		return message10(dst, openflow.TypeError, xid, []byte{0, 1, 0, 3}), nil // BAD_REQUEST, BAD_VENDOR
	case of10.TypeBarrierRequest:
		return message10(dst, of10.TypeBarrierReply, xid, nil), nil
	case of10.TypeStatsRequest:
		if len(msg) < 12 {
			return dst, short(msg, 12)
		}
		if be.Uint16(msg[8:]) != uint16(of13.PartDesc) {
			return dst, nil
		}
		s.forget()
		return message10(dst, of10.TypeStatsReply, xid, append(make([]byte, 4), desc10...)), nil
	}
	return dst, nil
}

// forget makes room for new packet-ins: a controller that still sends FEATURES_REQUEST may have dropped the earlier
// ones. cbench does so too, since it would wait for ever.
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
	command := uint8(be.Uint16(msg[56:]))
	return be.Uint32(msg[64:]), command == of13.FlowAdd || command == of13.FlowModifyStrict, nil
}

func isLLDP(packet []byte) bool {
	const vlan, lldp = 0x8100, 0x88cc
	if len(packet) >= 18 && be.Uint16(packet[12:]) == vlan {
		packet = packet[4:]
	}
	return len(packet) >= 14 && be.Uint16(packet[12:]) == lldp
}

// desc10 is the body of the DESC statistics, which is the same in 1.3.
var desc10 = of13.Desc{Manufacturer: "Holdfast", Hardware: "none", Software: "load", Serial: "none",
	Datapath: "none"}.AppendTo(nil)

// features10 is the body of a FEATURES_REPLY: 256 buffers, 2 tables, 11 actions, and the four ports, copper of
// 10 Gb/s, that every fake switch has.
func features10(id openflow.DatapathID) []byte {
	body := be.AppendUint32(be.AppendUint64(nil, uint64(id)), 256)
	body = append(body, 2, 0, 0, 0)
	body = be.AppendUint32(be.AppendUint32(body, 0), 0x7ff)
	for i := range byte(portCount) {
		mac := portMAC(i + 1)
		body = append(be.AppendUint16(body, uint16(i+1)), mac[:]...)
		name := [16]byte{'v', 'e', 't', 'h', '1' + 2*i}
		body = append(append(body, name[:]...), make([]byte, 8)...) // configuration and state
		body = be.AppendUint32(body, 1<<6|1<<7)
		body = append(body, make([]byte, 12)...)
	}
	return body
}

const portCount = 4

func portMAC(port byte) [6]byte { return [6]byte{0x02, 0, 0, 0, 0xff, port} }
