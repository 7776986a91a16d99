package of10

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const testXID = 7

var (
	macA = of13.MAC{2, 0, 0, 0, 0, 1}
	macB = of13.MAC{2, 0, 0, 0, 0, 2}
	data = []byte("packet")
)

// raw returns the bytes of values of fixed size and of byte slices.
func raw(values ...any) []byte {
	var b []byte
	for _, v := range values {
		var err error
		if b, err = binary.Append(b, be, v); err != nil {
			panic(err)
		}
	}
	return b
}

func message(typ uint8, body ...any) []byte {
	m := append(openflow.AppendHeader(nil, openflow.Version10, typ, testXID), raw(body...)...)
	openflow.SetLength(m)
	return m
}

func u8(v ...uint8) []byte { return v }

// text returns s in n bytes.
func text(s string, n int) []byte { return append([]byte(s), make([]byte, n-len(s))...) }

// matches returns a match of 1.0 with all fields wildcarded except exact, with the values that edit sets.
func matches(exact uint32, edit func(m match)) match {
	m := match(raw(wildAll&^exact, make([]byte, matchLen-4)))
	if edit != nil {
		edit(m)
	}
	return m
}

// matchTCP: in_port 3, dl_dst macA, TCP from 10.0.0.0/8 to 10.1.2.3 port 80.
var (
	matchTCP = matches(1|1<<3|wildEtherType|wildIPProto|1<<7|prefixBits<<8|prefixBits<<14, func(m match) {
		be.PutUint32(m, m.wildcards()|24<<8)
		m[5], m[ipProtoAt], m[28], m[39] = 3, protoTCP, 10, 80
		copy(m[12:], macA[:])
		be.PutUint16(m[etherTypeAt:], typeIPv4)
		copy(m[32:], u8(10, 1, 2, 3))
	})
	match13TCP = of13.Match(nil).WithInPort(3).WithEthDst(macA).WithEthType(0x0800).WithIPProto(6).
			WithIPv4Src([4]byte{10}, [4]byte{255}).WithUint(of13.FieldIPv4Dst, 0x0a010203).WithUint(of13.FieldTCPDst,
		80)
	matchAll = matches(0, nil)
)

const pyMatch = "p.OFPMatch(in_port=3, dl_dst=b'\\x02\\0\\0\\0\\0\\x01', dl_type=0x800, nw_proto=6, " +
	"nw_src='10.0.0.0', nw_src_mask=8, nw_dst='10.1.2.3', tp_dst=80)"

func action(typ uint16, values ...any) []byte {
	b := raw(values...)
	return append(raw(typ, uint16(4+len(b))), b...)
}

func output(port, maxLen uint16) []byte { return action(actionOutput, port, maxLen) }

func enqueue(port uint16, queue uint32) []byte {
	return action(actionEnqueue, port, make([]byte, 6), queue)
}

// toV13Case is one message of a switch, what ovs-ofctl and os-ken read in it, and the same message in 1.3.
type toV13Case struct {
	name  string
	msg   []byte
	ovs   []string // parts of what ovs-ofctl prints
	check string   // Python: true of m, the parsed message
	want  of13.Message
}

func port10(port uint16) []byte {
	return raw(port, macA[:], text("eth2", 16), uint32(1|1<<4), uint32(stateLinkDown|stateSTPBlock), uint32(1<<5|1<<7),
		uint32(0), uint32(1<<6|1<<11), uint32(0))
}

func port13(port of13.Port) of13.PortDesc {
	return of13.PortDesc{Port: port, HwAddr: macA, Name: "eth2", Config: of13.PortConfigDown,
		State: of13.PortStateLinkDown | of13.PortStateBlocked, Curr: of13.Port1GbFD | of13.PortCopper,
		Supported: of13.Port10GbFD | of13.PortPauseAsym, CurrSpeed: 1_000_000, MaxSpeed: 10_000_000}
}

func features10(ports ...[]byte) []byte {
	body := raw(uint64(0x42), uint32(256), u8(2, 0, 0, 0), uint32(1|1<<3|1<<7), uint32(0xfff))
	for _, p := range ports {
		body = append(body, p...)
	}
	return message(of13.TypeFeaturesReply, body)
}

func stats10(typ, flags uint16, body ...any) []byte {
	return message(TypeStatsReply, typ, flags, raw(body...))
}

func flowStats10(m match, priority uint16, actions ...any) []byte {
	a := raw(actions...)
	return raw(uint16(flowStatsLen+len(a)), u8(1, 0), []byte(m), uint32(5), uint32(1000), priority, uint16(30),
		uint16(4),
		make([]byte, 6), uint64(0xabc), uint64(11), uint64(1100), a)
}

func flowStats13(m of13.Match, priority uint16, a of13.Actions) of13.FlowStats {
	f := of13.FlowStats{Duration: of13.Duration{Sec: 5, Nsec: 1000}, Priority: priority, IdleTimeout: 30,
		HardTimeout: 4, Cookie: 0xabc, PacketCount: 11, ByteCount: 1100, Match: m}
	if a != nil {
		f.Instructions = f.Instructions.Apply(a)
	}
	return f
}

func reply13(part of13.Part, flags uint16, body []byte) *of13.MultipartReply {
	return &of13.MultipartReply{Part: part, Flags: flags, Body: body}
}

func toV13Cases() []toV13Case {
	none := of13.Duration{Sec: 1<<32 - 1, Nsec: 1<<32 - 1}
	return append([]toV13Case{
		{"echo request", message(2, data), []string{"OFPT_ECHO_REQUEST", "6 bytes of payload"}, "m.data == b'packet'",
			&of13.EchoRequest{Data: data}},
		{"echo reply", message(3, data), []string{"OFPT_ECHO_REPLY"}, "m.data == b'packet'",
			&of13.EchoReply{Data: data}},
		{"barrier reply", message(TypeBarrierReply), []string{"OFPT_BARRIER_REPLY"}, "m.msg_type == 19",
			&of13.BarrierReply{}},
		{"configuration", message(8, uint16(1), uint16(128)),
			[]string{"OFPT_GET_CONFIG_REPLY", "frags=drop", "miss_send_len=128"},
			"m.flags == 1 and m.miss_send_len == 128", &of13.GetConfigReply{Flags: of13.FragDrop, MissSendLen: 128}},
		{"vendor", message(4, uint32(0x2320), uint32(11), u8(1, 2, 3, 4)), nil, "m.vendor == 0x2320",
			&of13.Experimenter{ID: 0x2320, ExpType: 11, Data: []byte{1, 2, 3, 4}}},
		{"error", message(1, uint16(1), uint16(3), u8(1, 0, 0, 8, 0, 0, 0, 1)),
			[]string{"OFPT_ERROR", "OFPBRC_BAD_VENDOR"},
			"m.type == 1 and m.code == 3 and m.data == bytes([1,0,0,8,0,0,0,1])",
			&of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadExperimenter,
				Data: []byte{1, 0, 0, 8, 0, 0, 0, 1}}},
		{"features", features10(port10(2)),
			[]string{"OFPT_FEATURES_REPLY", "dpid:0000000000000042", "n_tables:2, n_buffers:256", "FLOW_STATS STP",
				"2(eth2): addr:02:00:00:00:00:01", "1GB-FD COPPER", "LINK_DOWN"},
			"m.datapath_id == 0x42 and m.n_buffers == 256 and m.n_tables == 2 and m.capabilities == 137 and " +
				"m.ports[2].name == b'eth2' and m.ports[2].curr == 0xa0",
			&of13.FeaturesReply{DatapathID: 0x42, NBuffers: 256, NTables: 1,
				Capabilities: of13.CapFlowStats | of13.CapPortBlocked}},
		{"packet-in", message(10, uint32(9), uint16(60), uint16(4), u8(1, 0), data),
			[]string{"OFPT_PACKET_IN", "total_len=60", "in_port=4", "via action", "buffer=0x00000009"},
			"m.buffer_id == 9 and m.total_len == 60 and m.in_port == 4 and m.reason == 1 and m.data == b'packet'",
			&of13.PacketIn{BufferID: 9, TotalLen: 60, Reason: of13.PacketInAction, Cookie: of13.NoCookie,
				Match: of13.Match(nil).WithInPort(4), Data: data}},
		{"packet-in of the local port", message(10, of13.NoBuffer, uint16(6), uint16(0xfffe), u8(0, 0), data),
			[]string{"in_port=LOCAL"}, "m.in_port == o.OFPP_LOCAL",
			&of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: 6, Cookie: of13.NoCookie,
				Match: of13.Match(nil).WithInPort(of13.PortLocal), Data: data}},
		{"flow removed", message(11, []byte(matchTCP), uint64(0xabc), uint16(9), u8(1, 0), uint32(5), uint32(4),
			uint16(10),
			uint16(0), uint64(6), uint64(600)),
			[]string{"OFPT_FLOW_REMOVED", "reason=hard", "nw_src=10.0.0.0/8", "duration5", "idle10", "pkts6",
				"bytes600"},
			"m.cookie == 0xabc and m.reason == 1 and m.packet_count == 6 and m.byte_count == 600 and " +
				"m.match.tp_dst == 80 and (m.match.wildcards >> 8) & 63 == 24",
			&of13.FlowRemoved{Cookie: 0xabc, Priority: 9, Reason: of13.FlowRemovedHardTimeout, DurationSec: 5,
				DurationNsec: 4, IdleTimeout: 10, PacketCount: 6, ByteCount: 600, Match: match13TCP}},
		{"port status", message(12, u8(1, 0, 0, 0, 0, 0, 0, 0), port10(2)),
			[]string{"OFPT_PORT_STATUS", "DEL", "2(eth2)"},
			"m.reason == 1 and m.desc.port_no == 2 and m.desc.config == 17",
			&of13.PortStatus{Reason: of13.PortDelete, Port: port13(2)}},
		{"description", stats10(0, 0, text("maker", 800), text("dp", 256)),
			[]string{"Manufacturer: maker", "DP Description: dp"},
			"m.body.mfr_desc == b'maker' and m.body.dp_desc == b'dp'",
			reply13(of13.PartDesc, 0, of13.Desc{Manufacturer: "maker", Datapath: "dp"}.AppendTo(nil))},
		{"aggregate", stats10(2, 0, uint64(5), uint64(500), uint32(2), uint32(0)),
			[]string{"packet_count=5 byte_count=500 flow_count=2"},
			"m.body[0].flow_count == 2 and m.body[0].byte_count == 500",
			reply13(of13.PartAggregate, 0,
				of13.AggregateStats{PacketCount: 5, ByteCount: 500, FlowCount: 2}.AppendTo(nil))},
		{"table counters", stats10(3, 0, u8(1, 0, 0, 0), text("main", 32), wildAll, uint32(100), uint32(3), uint64(9),
			uint64(8)), []string{"main", "active=3", "lookup=9", "matched=8"},
			"m.body[0].active_count == 3 and m.body[0].max_entries == 100",
			reply13(of13.PartTable, 0,
				of13.TableStats{TableID: 1, ActiveCount: 3, LookupCount: 9, MatchedCount: 8}.AppendTo(nil))},
		{"port counters", stats10(4, 1, uint16(2), make([]byte, 6), []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
			[]string{"rx pkts=1, bytes=3", "tx pkts=2, bytes=4", "crc=11", "coll=12"},
			"m.body[0].rx_crc_err == 11 and m.body[0].tx_bytes == 4",
			reply13(of13.PartPortStats, of13.FlagMore, of13.PortStats{Port: 2, RxPackets: 1, TxPackets: 2, RxBytes: 3,
				TxBytes: 4, RxDropped: 5, TxDropped: 6, RxErrors: 7, TxErrors: 8, RxFrameErrors: 9, RxOverErrors: 10,
				RxCRCErrors: 11, Collisions: 12, Duration: none}.AppendTo(nil))},
		{"queue counters", stats10(5, 0, uint16(0xfffe), uint16(0), uint32(1), uint64(100), uint64(10), uint64(3)),
			[]string{"queue 1: bytes=100, pkts=10, errors=3"},
			"m.body[0].queue_id == 1 and m.body[0].tx_bytes == 100",
			reply13(of13.PartQueue, 0, of13.QueueStats{Port: of13.PortLocal, Queue: 1, TxBytes: 100, TxPackets: 10,
				TxErrors: 3, Duration: none}.AppendTo(nil))},
	}, flowCases()...)
}

// flowCases are replies about flow entries, with each action.
func flowCases() []toV13Case {
	tagged := matches(wildVLAN, func(m match) { m[vlanAt+1] = 9 })
	return []toV13Case{
		{"flows", stats10(1, 0, flowStats10(matchTCP, 7, action(1, uint16(5), uint16(0)),
			action(10, uint16(81), uint16(0)), output(0xfffd, 64), enqueue(2, 1)), flowStats10(matchAll, 0)),
			[]string{"OFPST_FLOW reply", "table=1", "n_packets=11", "n_bytes=1100",
				"mod_vlan_vid:5,mod_tp_dst:81,CONTROLLER:64,enqueue:2:1"},
			"len(m.body) == 2 and m.body[1].packet_count == 11 and m.body[1].cookie == 0xabc and " +
				"m.body[0].actions[2].port == o.OFPP_CONTROLLER and m.body[0].duration_nsec == 1000",
			reply13(of13.PartFlow, 0, flowStats13(nil, 0, nil).AppendTo(flowStats13(match13TCP, 7,
				of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1005).SetUint(of13.FieldTCPDst, 81).
					Output(of13.PortController, 64).SetQueue(1).Output(2, 0)).AppendTo(nil)))},
		{"flow with the other actions", stats10(1, 0, flowStats10(tagged, 7, action(2, u8(3, 0, 0, 0)),
			action(3, uint32(0)), action(8, u8(0xb8, 0, 0, 0)), action(4, macB[:], make([]byte, 6)),
			action(5, macA[:], make([]byte, 6)), action(6, uint32(1)), action(7, uint32(2)))),
			[]string{"dl_vlan=9", "mod_vlan_pcp:3,strip_vlan,mod_nw_tos:184,mod_dl_src:02:00:00:00:00:02," +
				"mod_dl_dst:02:00:00:00:00:01,mod_nw_src:0.0.0.1,mod_nw_dst:0.0.0.2"},
			"[a.cls_action_type for a in m.body[0].actions] == [2, 3, 8, 4, 5, 6, 7]",
			reply13(of13.PartFlow, 0, flowStats13(of13.Match(nil).WithVLAN(9), 7,
				of13.Actions(nil).SetUint(of13.FieldVLANPCP, 3).PopVLAN().SetUint(of13.FieldIPDSCP, 46).
					SetField(of13.Exact(of13.FieldEthSrc, macB[:])).SetField(of13.Exact(of13.FieldEthDst, macA[:])).
					SetUint(of13.FieldIPv4Src, 1).SetUint(of13.FieldIPv4Dst, 2)).AppendTo(nil))},
	}
}

// fromV13Case is one message to a switch, the same message in 1.0, and the Python that builds it with os-ken.
type fromV13Case struct {
	name string
	in   of13.Message
	want []byte
	ovs  []string // parts of what ovs-ofctl prints
	py   string   // Python: the message, with p the parser, o the constants, d the datapath
}

func flowMod10(m match, cookie uint64, command, idle, hard, priority uint16, buffer uint32, out, flags uint16,
	actions ...any) []byte {
	return message(14, []byte(m), cookie, command, idle, hard, priority, buffer, out, flags, raw(actions...))
}

func statsRequest10(typ uint16, body ...any) []byte {
	return message(TypeStatsRequest, typ, uint16(0), raw(body...))
}

func fromV13Cases() []fromV13Case {
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	cases := []fromV13Case{
		{"packet-out with data", &of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Actions: flood,
			Data: data}, message(13, of13.NoBuffer, uint16(portNone), uint16(8), output(0xfffb, 0), data),
			[]string{"OFPT_PACKET_OUT", "FLOOD", "data_len=6"},
			"p.OFPPacketOut(d, 0xffffffff, o.OFPP_NONE, [p.OFPActionOutput(o.OFPP_FLOOD, 0)], b'packet')"},
		{"buffered packet-out", &of13.PacketOut{BufferID: 9, InPort: 4,
			Actions: of13.Actions(nil).SetField(of13.Exact(of13.FieldEthDst, macB[:])).Output(of13.PortController,
				128)},
			message(13, uint32(9), uint16(4), uint16(24), action(5, macB[:], make([]byte, 6)), output(0xfffd, 128)),
			[]string{"in_port=4", "mod_dl_dst:02:00:00:00:00:02,CONTROLLER:128", "buffer=0x00000009"},
			"p.OFPPacketOut(d, 9, 4, [p.OFPActionSetDlDst(b'\\x02\\0\\0\\0\\0\\x02'), " +
				"p.OFPActionOutput(o.OFPP_CONTROLLER, 128)])"},
		{"port-mod", &of13.PortMod{Port: of13.PortLocal, HwAddr: macA, Config: of13.PortConfigDown,
			Mask: of13.PortConfigDown, Advertise: of13.Port1GbFD | of13.PortAutoNeg},
			message(TypePortMod, uint16(0xfffe), macA[:], uint32(1), uint32(1), uint32(1<<5|1<<9), uint32(0)),
			[]string{"OFPT_PORT_MOD", "port: LOCAL", "addr:02:00:00:00:00:01", "PORT_DOWN"},
			"p.OFPPortMod(d, o.OFPP_LOCAL, '02:00:00:00:00:01', 1, 1, 0x220)"},
		{"echo request", &of13.EchoRequest{Data: data}, message(2, data), []string{"OFPT_ECHO_REQUEST"},
			"echo(p.OFPEchoRequest)"},
		{"echo reply", &of13.EchoReply{Data: data}, message(3, data), []string{"OFPT_ECHO_REPLY"},
			"echo(p.OFPEchoReply)"},
		{"barrier", &of13.BarrierRequest{}, message(TypeBarrierRequest), []string{"OFPT_BARRIER_REQUEST"},
			"p.OFPBarrierRequest(d)"},
		{"features", &of13.FeaturesRequest{}, message(5), []string{"OFPT_FEATURES_REQUEST"}, "p.OFPFeaturesRequest(d)"},
		{"get config", &of13.GetConfigRequest{}, message(7), []string{"OFPT_GET_CONFIG_REQUEST"},
			"p.OFPGetConfigRequest(d)"},
		{"set config", &of13.SetConfig{MissSendLen: 0xffff}, message(9, uint16(0), uint16(0xffff)),
			[]string{"OFPT_SET_CONFIG", "miss_send_len=65535"}, "p.OFPSetConfig(d, 0, 0xffff)"},
		{"experimenter", &of13.Experimenter{ID: 1, ExpType: 2, Data: data}, message(4, uint32(1), uint32(2), data), nil,
			""},
		{"port descriptions", &of13.MultipartRequest{Part: of13.PartPortDesc}, message(5), nil,
			"p.OFPFeaturesRequest(d)"},
		{"description", &of13.MultipartRequest{Part: of13.PartDesc}, statsRequest10(0), []string{"OFPST_DESC request"},
			"p.OFPDescStatsRequest(d, 0)"},
		{"table statistics", &of13.MultipartRequest{Part: of13.PartTable}, statsRequest10(3),
			[]string{"OFPST_TABLE request"}, "p.OFPTableStatsRequest(d, 0)"},
		{"port statistics", portStats13(), statsRequest10(4, uint16(portNone), make([]byte, 6)),
			[]string{"OFPST_PORT request", "port_no=ANY"}, "p.OFPPortStatsRequest(d, 0, o.OFPP_NONE)"},
		{"queue statistics", &of13.MultipartRequest{Part: of13.PartQueue,
			Body: of13.QueueStatsRequest{Port: of13.PortAny, Queue: of13.QueueAll}.AppendTo(nil)},
			statsRequest10(5, uint16(portAll), uint16(0), of13.QueueAll), []string{"OFPST_QUEUE request", "queue=ALL"},
			"p.OFPQueueStatsRequest(d, 0, o.OFPP_ALL, 0xffffffff)"},
		{"flow statistics", &of13.MultipartRequest{Part: of13.PartFlow,
			Body: of13.FlowStatsRequest{OutPort: of13.PortAny, OutGroup: of13.GroupAny,
				Match: match13TCP}.AppendTo(nil)},
			statsRequest10(1, []byte(matchTCP), u8(0xff, 0), uint16(portNone)),
			[]string{"OFPST_FLOW request", "tp_dst=80"},
			"p.OFPFlowStatsRequest(d, 0, " + pyMatch + ", 0xff, o.OFPP_NONE)"},
		{"aggregate", &of13.MultipartRequest{Part: of13.PartAggregate,
			Body: of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: 2, OutGroup: of13.GroupAny}.AppendTo(nil)},
			statsRequest10(2, []byte(matchAll), u8(0xff, 0), uint16(2)),
			[]string{"OFPST_AGGREGATE request", "out_port=2"},
			"p.OFPAggregateStatsRequest(d, 0, p.OFPMatch(), 0xff, 2)"},
	}
	return append(cases, flowModCases()...)
}

func flowModCases() []fromV13Case {
	noTag := matches(wildVLAN, func(m match) { be.PutUint16(m[vlanAt:], vlanNone) })
	arp := matches(wildEtherType|wildIPProto|prefixBits<<14, func(m match) {
		be.PutUint32(m, m.wildcards()|24<<14)
		be.PutUint16(m[etherTypeAt:], typeARP)
		m[ipProtoAt], m[32] = 2, 10
	})
	return []fromV13Case{
		{"the learning switch's flow-mod", learningFlow(),
			flowMod10(matches(1|1<<2|1<<3, func(m match) {
				m[5] = 1
				copy(m[6:], macB[:])
				copy(m[12:], macA[:])
			}), 5, 0, 10, 20, 100, 7, portNone, 1, output(2, 0)),
			[]string{"ADD", "priority=100,in_port=1,dl_src=02:00:00:00:00:02,dl_dst=02:00:00:00:00:01", "cookie:0x5",
				"idle:10", "hard:20", "send_flow_rem", "actions=output:2"},
			"p.OFPFlowMod(d, p.OFPMatch(in_port=1, dl_src=b'\\x02\\0\\0\\0\\0\\x02', " +
				"dl_dst=b'\\x02\\0\\0\\0\\0\\x01'), " +
				"5, 0, 10, 20, 100, 7, o.OFPP_NONE, 1, [p.OFPActionOutput(2, 0)])"},
		{"TCP, transport ports and a queue", &of13.FlowMod{BufferID: of13.NoBuffer, Priority: 99, Match: match13TCP,
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).SetUint(of13.FieldIPv4Src, 0x01020304).
				SetUint(of13.FieldTCPDst, 8080).SetQueue(7).Output(2, 0))},
			flowMod10(matchTCP, 0, 0, 0, 0, 99, of13.NoBuffer, portNone, 0, action(6, uint32(0x01020304)),
				action(10, uint16(8080), uint16(0)), enqueue(2, 7)),
			[]string{"priority=99,tcp,in_port=3,dl_dst=02:00:00:00:00:01,nw_src=10.0.0.0/8,nw_dst=10.1.2.3,tp_dst=80",
				"mod_nw_src:1.2.3.4", "mod_tp_dst:8080", "enqueue:2:7"},
			"p.OFPFlowMod(d, " + pyMatch + ", 0, 0, 0, 0, 99, 0xffffffff, o.OFPP_NONE, 0, " +
				"[p.OFPActionSetNwSrc('1.2.3.4'), p.OFPActionSetTpDst(8080), p.OFPActionEnqueue(2, 7)])"},
		{"other fields set", &of13.FlowMod{BufferID: of13.NoBuffer, Instructions: of13.Instructions(nil).Apply(
			of13.Actions(nil).SetUint(of13.FieldIPDSCP, 46).SetField(of13.Exact(of13.FieldEthSrc, macA[:])).
				SetUint(of13.FieldIPv4Dst, 1).SetUint(of13.FieldUDPSrc, 2).Experimenter(3, data))},
			flowMod10(matchAll, 0, 0, 0, 0, 0, of13.NoBuffer, portNone, 0, action(8, u8(0xb8, 0, 0, 0)),
				action(4, macA[:], make([]byte, 6)), action(7, uint32(1)), action(9, uint16(2), uint16(0)),
				action(actionVendor, uint32(3), data, uint16(0))), nil,
			"p.OFPFlowMod(d, p.OFPMatch(), 0, 0, 0, 0, 0, 0xffffffff, o.OFPP_NONE, 0, [p.OFPActionSetNwTos(0xb8), " +
				"p.OFPActionSetDlSrc(b'\\x02\\0\\0\\0\\0\\x01'), p.OFPActionSetNwDst('0.0.0.1'), " +
				"p.OFPActionSetTpSrc(2), vendor(3, b'packet\\0\\0')])"},
		{"drop by clear_actions", &of13.FlowMod{BufferID: of13.NoBuffer, Instructions: of13.Instructions(nil).Clear()},
			flowMod10(matchAll, 0, 0, 0, 0, 0, of13.NoBuffer, portNone, 0), []string{"actions=drop"},
			"p.OFPFlowMod(d, p.OFPMatch(), 0, 0, 0, 0, 0, 0xffffffff, o.OFPP_NONE, 0, [])"},
		{"delete from all tables", &of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, OutPort: 3,
			OutGroup: of13.GroupAny, BufferID: of13.NoBuffer},
			flowMod10(matchAll, 0, 3, 0, 0, 0, of13.NoBuffer, 3, 0), []string{"DEL", "out_port:3"},
			"p.OFPFlowMod(d, p.OFPMatch(), 0, 3, 0, 0, 0, 0xffffffff, 3, 0, [])"},
		{"VLANs and queues", &of13.FlowMod{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithNoVLAN(),
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID,
				0x1005).SetUint(of13.FieldVLANPCP, 3).SetQueue(8).Output(2, 0).PopVLAN())},
			flowMod10(noTag, 0, 0, 0, 0, 0, of13.NoBuffer, portNone, 0, action(1, uint16(5), uint16(0)),
				action(2, u8(3, 0, 0, 0)), enqueue(2, 8), action(3, uint32(0))),
			[]string{"mod_vlan_vid:5,mod_vlan_pcp:3,enqueue:2:8,strip_vlan"},
			"p.OFPFlowMod(d, p.OFPMatch(dl_vlan=0xffff), 0, 0, 0, 0, 0, 0xffffffff, o.OFPP_NONE, 0, " +
				"[p.OFPActionVlanVid(5), p.OFPActionVlanPcp(3), p.OFPActionEnqueue(2, 8), p.OFPActionStripVlan()])"},
		{"ARP", &of13.FlowMod{BufferID: of13.NoBuffer,
			Match: of13.Match(nil).WithEthType(0x0806).WithUint(of13.FieldARPOp,
				2).WithUintMasked(of13.FieldARPTPA, 0x0a000000, 0xff000000)},
			flowMod10(arp, 0, 0, 0, 0, 0, of13.NoBuffer, portNone, 0), []string{"arp,arp_tpa=10.0.0.0/8,arp_op=2"},
			"p.OFPFlowMod(d, p.OFPMatch(dl_type=0x806, nw_proto=2, nw_dst='10.0.0.0', nw_dst_mask=8), 0, 0, 0, 0, 0, " +
				"0xffffffff, o.OFPP_NONE, 0, [])"},
	}
}

func learningFlow() *of13.FlowMod {
	return &of13.FlowMod{Cookie: 5, Command: of13.FlowAdd, IdleTimeout: 10, HardTimeout: 20, Priority: 100, BufferID: 7,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Flags:        of13.FlowSendFlowRem | of13.FlowResetCounts | of13.FlowNoPktCounts,
		Match:        of13.Match(nil).WithInPort(1).WithEthDst(macA).WithEthSrc(macB),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))}
}

func portStats13() *of13.MultipartRequest {
	m := of13.PortStatsRequest(of13.PortAny)
	return &m
}
