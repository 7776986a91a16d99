package of14

import "github.com/holdfast-sdn/holdfast/openflow/of13"

// toV13Case is one message of a later version, what os-ken must read in it, and the same message in 1.3.
type toV13Case struct {
	name  string
	msg   []byte
	check string // Python: true of m, the parsed message; empty if os-ken cannot read it
	want  of13.Message
}

func reply(version uint8, part uint16, body ...any) []byte {
	return message(version, of13.TypeMultipartReply, part, uint16(0), uint32(0), raw(body...))
}

// flow15 is a flow entry of 1.5.
func flow15(m of13.Match, instructions ...[]byte) []byte {
	b := raw(uint16(0), uint16(0), u8(2, 0), uint16(100), uint16(10), uint16(20), uint16(1), uint16(5), uint64(0xc0),
		match(m),
		oxs(oxsField(oxsDuration, uint64(12<<32|345)), oxsField(1, uint64(0)), oxsField(oxsPacketCount, uint64(11)),
			oxsField(oxsByteCount, uint64(1100))))
	for _, in := range instructions {
		b = append(b, in...)
	}
	be.PutUint16(b, uint16(len(b)))
	return b
}

func bucket15(id uint32, a of13.Actions, properties ...[]byte) []byte {
	b := raw(uint16(0), uint16(len(a)), id, []byte(a))
	for _, p := range properties {
		b = append(b, p...)
	}
	be.PutUint16(b, uint16(len(b)))
	return b
}

func group15(typ uint8, id uint32, buckets ...[]byte) []byte {
	var b []byte
	for _, x := range buckets {
		b = append(b, x...)
	}
	return element(0, uint16(0), u8(typ, 0), id, uint16(len(b)), make([]byte, 6), b)
}

func queueDesc14(queue uint32) []byte {
	return element(8, uint32(2), queue, uint16(0), make([]byte, 6),
		element(2, uint16(1), uint16(0), uint16(100), uint16(0)),
		element(2, uint16(2), uint16(0), uint16(900), uint16(0)))
}

func toV13Cases() []toV13Case {
	frame := []byte("some packet")
	data := []byte("the refused message")
	list := asyncCases()
	for _, v := range []uint8{v14, v15} {
		list = append(list, []toV13Case{
			{"echo reply", message(v, 3, data), "m.data == b'the refused message'", &of13.EchoReply{Data: data}},
			{"barrier reply", message(v, 21), "m.msg_type == 21", &of13.BarrierReply{}},
			{"experimenter", message(v, 4, uint32(0x2320), uint32(11), data), "m.experimenter == 0x2320",
				&of13.Experimenter{ID: 0x2320, ExpType: 11, Data: data}},
			{"features", message(v, 6, uint64(9), uint32(256), u8(254, 0, 0, 0), uint32(0x5f), uint32(0)),
				"m.datapath_id == 9 and m.n_tables == 254 and m.capabilities == 0x5f",
				&of13.FeaturesReply{DatapathID: 9, NBuffers: 256, NTables: 254, Capabilities: 0x5f}},
			{"configuration", message(v, 8, uint16(1), uint16(128)), "m.flags == 1 and m.miss_send_len == 128",
				&of13.GetConfigReply{Flags: 1, MissSendLen: 128}},
			{"error", message(v, 1, uint16(5), uint16(1), data), "m.type == 5 and m.code == 1",
				&of13.Error{ErrType: of13.ErrTypeFlowModFailed, Code: of13.FlowModFailedTableFull, Data: data}},
			{"packet-in", message(v, 10, uint32(77), uint16(60), u8(5, 2), uint64(0xc0),
				match(of13.Match(nil).WithInPort(3)), uint16(0), frame),
				"m.reason == o.OFPR_PACKET_OUT and m.table_id == 2 and m.match['in_port'] == 3 and m.data == " +
					"b'some packet'",
				&of13.PacketIn{BufferID: 77, TotalLen: 60, Reason: of13.PacketInAction, TableID: 2, Cookie: 0xc0,
					Match: of13.Match(nil).WithInPort(3), Data: frame}},
			{"port status", message(v, 12, u8(2, 0, 0, 0, 0, 0, 0, 0), port14(4)),
				"m.reason == 2 and m.desc.port_no == 4 and m.desc.properties[1].curr == 0x840 and m.desc.name == " +
					"b'eth1'",
				&of13.PortStatus{Reason: of13.PortModify, Port: port13(4)}},
			{"role status", message(v, 30, uint32(3), u8(0, 0, 0, 0), uint64(8)),
				"m.role == 3 and m.generation_id == 8",
				&of13.Experimenter{ID: of13.OnfID, ExpType: 1911, Data: raw(uint32(3), uint32(0), uint64(8))}},
			{"bundle reply", message(v, 33, uint32(7), uint16(5), uint16(3)),
				"m.bundle_id == 7 and m.type == o.OFPBCT_COMMIT_REPLY and m.flags == 3",
				&of13.Experimenter{ID: of13.OnfID, ExpType: of13.OnfBundleControl,
					Data: raw(uint32(7), uint16(5), uint16(3))}},
			{"bundle error", message(v, 1, uint16(17), uint16(13), data),
				"m.type == o.OFPET_BUNDLE_FAILED and m.code == o.OFPBFC_MSG_FAILED",
				&of13.Error{ErrType: of13.ErrTypeExperimenter, Code: of13.BundleMsgFailed,
					Data: raw(of13.OnfID, data)}},
			{"ports", reply(v, 13, port14(1), port14(2)),
				"len(m.body) == 2 and m.body[1].port_no == 2 and m.body[1].properties[1].max_speed == 20000000",
				&of13.MultipartReply{Part: of13.PartPortDesc, Body: port13(2).AppendTo(port13(1).AppendTo(nil))}},
			{"port counters", reply(v, 4, portStats14(1, true), portStats14(2, false)),
				"m.body[0].port_no == 1 and m.body[0].duration_nsec == 6 and m.body[0].tx_errors == 17 and " +
					"m.body[0].properties[0].collisions == 21",
				&of13.MultipartReply{Part: of13.PartPortStats,
					Body: portStats13(2, false).AppendTo(portStats13(1, true).AppendTo(nil))}},
			{"queue counters", reply(v, 5, element(0, uint16(0), make([]byte, 6), uint32(1), uint32(2), uint64(3),
				uint64(4), uint64(5), uint32(6), uint32(7))),
				"m.body[0].port_no == 1 and m.body[0].queue_id == 2 and m.body[0].tx_errors == 5 and " +
					"m.body[0].duration_nsec == 7",
				&of13.MultipartReply{Part: of13.PartQueue, Body: of13.QueueStats{Port: 1, Queue: 2, TxBytes: 3,
					TxPackets: 4, TxErrors: 5, Duration: of13.Duration{Sec: 6, Nsec: 7}}.AppendTo(nil)}},
			{"queues", reply(v, 15, queueDesc14(1), queueDesc14(2)),
				"m.body[1].port_no == 2 and m.body[1].queue_id == 2 and m.body[1].properties[1].rate == 900",
				&of13.QueueGetConfigReply{Port: 2, Queues: of13.List[of13.Queue](nil).With(queue13(1)).With(
					queue13(2))}},
			{"table counters", reply(v, 3, u8(1, 0, 0, 0), uint32(2), uint64(3), uint64(4)),
				"m.body[0].table_id == 1 and m.body[0].matched_count == 4",
				&of13.MultipartReply{Part: of13.PartTable, Body: of13.TableStats{TableID: 1, ActiveCount: 2,
					LookupCount: 3, MatchedCount: 4}.AppendTo(nil)}},
			{"description", reply(v, 0, of13.Desc{Manufacturer: "maker", Datapath: "dp"}.AppendTo(nil)),
				"m.body.mfr_desc == b'maker'",
				&of13.MultipartReply{Part: of13.PartDesc, Body: of13.Desc{Manufacturer: "maker",
					Datapath: "dp"}.AppendTo(nil)}},
			{"group counters", reply(v, 6, groupStats().AppendTo(nil)),
				"m.body[0].ref_count == 1 and m.body[0].bucket_stats[1].byte_count == 2",
				&of13.MultipartReply{Part: of13.PartGroup, Body: groupStats().AppendTo(nil)}},
			{"experimenter's part", reply(v, 0xffff, uint32(1), uint32(2), frame), "",
				&of13.MultipartReply{Part: of13.PartExperimenter, Body: raw(uint32(1), uint32(2), frame)}},
		}...)
	}
	return append(append(list, cases14()...), cases15()...)
}

// asyncCases: reasons that 1.3 does not have are omitted.
func asyncCases() []toV13Case {
	var list []toV13Case
	for _, v := range []uint8{v14, v15} {
		var props []byte
		for typ, mask := range []uint32{0x38, 0x3f, 7, 3, 0x30, 0x3f, 1, 1} {
			props = append(props, raw(uint16(typ), uint16(8), mask)...)
		}
		list = append(list, toV13Case{"asynchronous messages", message(v, 27, props),
			"m.properties[1].mask == 0x3f and m.properties[4].type == 4",
			&of13.GetAsyncReply{PacketIn: [2]uint32{7, 0}, PortStatus: [2]uint32{3, 7},
				FlowRemoved: [2]uint32{0xf, 0}}})
	}
	return list
}

func cases14() []toV13Case {
	instructions := of13.Instructions(nil).Meter(1).Apply(of13.Actions(nil).Output(2, 0)).Goto(4)
	flow := of13.FlowStats{TableID: 2, Duration: of13.Duration{Sec: 12, Nsec: 345}, Priority: 100, IdleTimeout: 10,
		HardTimeout: 20, Flags: 1, Cookie: 0xc0,
		PacketCount: 11, ByteCount: 1100, Match: matchTCP, Instructions: instructions}
	group := of13.GroupDesc{GroupType: of13.GroupTypeSelect, GroupID: 5,
		Buckets: of13.Buckets(nil).With(of13.Bucket{Weight: 7, WatchPort: of13.PortAny, WatchGroup: of13.GroupAny})}
	removed := of13.FlowRemoved{Cookie: 0xc0, Priority: 9, Reason: of13.FlowRemovedDelete, TableID: 1, DurationSec: 5,
		IdleTimeout: 10, HardTimeout: 20, PacketCount: 6, ByteCount: 600, Match: matchTCP}
	return []toV13Case{
		{"role reply", message(v14, 25, uint32(2), uint32(0), uint64(8)), "m.role == 2 and m.generation_id == 8",
			&of13.RoleReply{Role: of13.RoleMaster, GenerationID: 8}},
		{"flow removed", message(v14, 11, uint64(0xc0), uint16(9), u8(removedMeterDelete, 1), uint32(5), uint32(0),
			uint16(10), uint16(20), uint64(6), uint64(600), match(matchTCP)),
			"m.reason == o.OFPRR_METER_DELETE and m.byte_count == 600 and m.match['tcp_dst'] == 80", &removed},
		{"flows", reply(v14, 1, flow.AppendTo(nil)), "m.body[0].packet_count == 11 and " +
			"m.body[0].instructions[0].meter_id == 1",
			&of13.MultipartReply{Part: of13.PartFlow, Body: flow.AppendTo(nil)}},
		{"aggregate", reply(v14, 2, of13.AggregateStats{PacketCount: 1, ByteCount: 2, FlowCount: 3}.AppendTo(nil)),
			"m.body.flow_count == 3",
			&of13.MultipartReply{Part: of13.PartAggregate,
				Body: of13.AggregateStats{PacketCount: 1, ByteCount: 2, FlowCount: 3}.AppendTo(nil)}},
		{"groups", reply(v14, 7, group.AppendTo(nil)), "m.body[0].buckets[0].weight == 7",
			&of13.MultipartReply{Part: of13.PartGroupDesc, Body: group.AppendTo(nil)}},
		{"meter features", reply(v14, 11, of13.MeterFeatures{MaxMeter: 100, MaxBands: 8}.AppendTo(nil)),
			"m.body[0].max_meter == 100",
			&of13.MultipartReply{Part: of13.PartMeterFeatures,
				Body: of13.MeterFeatures{MaxMeter: 100, MaxBands: 8}.AppendTo(nil)}},
	}
}

func cases15() []toV13Case {
	apply := func(actions ...any) []byte { return element(2, uint16(4), uint16(0), uint32(0), raw(actions...)) }
	out := []byte(of13.Actions(nil).Output(2, 0))
	flow := of13.FlowStats{TableID: 2, Duration: of13.Duration{Sec: 12, Nsec: 345}, Priority: 100, IdleTimeout: 10,
		HardTimeout: 20, Flags: 1, Cookie: 0xc0,
		PacketCount: 11, ByteCount: 1100, Match: matchTCP,
		Instructions: of13.Instructions(nil).Meter(1).Apply(of13.Actions(nil).Output(2, 0)).Goto(4)}
	onlyMeter := flow
	onlyMeter.Match, onlyMeter.Instructions = nil, of13.Instructions(nil).Meter(6)
	watch := of13.GroupDesc{GroupType: of13.GroupTypeFastFailover, GroupID: 5, Buckets: of13.Buckets(nil).
		With(of13.Bucket{WatchPort: 1, WatchGroup: of13.GroupAny, Actions: of13.Actions(nil).Output(2, 0)}).
		With(of13.Bucket{Weight: 3, WatchPort: of13.PortAny, WatchGroup: 6})}
	weighed := of13.GroupDesc{GroupType: of13.GroupTypeSelect, GroupID: 5,
		Buckets: of13.Buckets(nil).With(of13.Bucket{Weight: 3, WatchPort: of13.PortAny, WatchGroup: of13.GroupAny}).
			With(of13.Bucket{Weight: 1, WatchPort: of13.PortAny, WatchGroup: of13.GroupAny})}
	removed := of13.FlowRemoved{Cookie: 0xc0, Priority: 9, Reason: of13.FlowRemovedIdleTimeout, TableID: 1,
		DurationSec: 5, DurationNsec: 6, IdleTimeout: 10, HardTimeout: 20, PacketCount: 7, ByteCount: 800,
		Match: matchTCP}
	tables := of13.TableFeatures{TableID: 1, Name: "one", MaxEntries: 1000,
		Properties: of13.List[of13.TableProperty](nil).
			With(of13.NextTablesProperty(of13.TableNextTables, 2, 3)).With(of13.FieldsProperty(of13.TableMatch, true,
			of13.FieldEthDst))}
	tables15 := element(0, tables.AppendTo(nil), uint16(22), uint16(8), uint32(0x80005804))
	copy(tables15[3:], u8(1, 0, 0, 0, 3))
	return []toV13Case{
		{"role reply", message(v15, 25, uint32(2), uint16(9), uint16(0), uint64(8)),
			"m.role == 2 and m.short_id == 9 and m.generation_id == 8",
			&of13.RoleReply{Role: of13.RoleMaster, GenerationID: 8}},
		{"flow removed", message(v15, 11, u8(1, 0), uint16(9), uint16(10), uint16(20), uint64(0xc0), match(matchTCP),
			oxs(oxsField(oxsDuration, uint64(5<<32|6)), oxsField(oxsPacketCount, uint64(7)),
				oxsField(oxsByteCount, uint64(800)))),
			"m.table_id == 1 and m.reason == 0 and m.match['tcp_dst'] == 80", &removed},
		{"flows", reply(v15, 1, flow15(matchTCP, apply(uint16(29), uint16(8), uint32(1), out),
			of13.Instructions(nil).Goto(4)), flow15(nil, apply(uint16(29), uint16(8), uint32(6)))),
			"m.body[0].priority == 100 and m.body[0].cookie == 0xc0 and " +
				"m.body[0].instructions[0].actions[0].meter_id == 1 and len(m.body) == 2",
			&of13.MultipartReply{Part: of13.PartFlow, Body: onlyMeter.AppendTo(flow.AppendTo(nil))}},
		{"aggregate", reply(v15, 2, oxs(oxsField(oxsFlowCount, uint32(3)), oxsField(oxsPacketCount, uint64(1)),
			oxsField(oxsByteCount, uint64(2)))), "m.type == 2",
			&of13.MultipartReply{Part: of13.PartAggregate,
				Body: of13.AggregateStats{PacketCount: 1, ByteCount: 2, FlowCount: 3}.AppendTo(nil)}},
		{"groups", reply(v15, 7, group15(3, 5,
			bucket15(0, of13.Actions(nil).Output(2, 0), raw(bucketWatchPort, uint16(8), uint32(1))),
			bucket15(9, nil, raw(bucketWatchGroup, uint16(8), uint32(6)),
				raw(bucketWeight, uint16(8), uint16(3), uint16(0))))),
			"",
			&of13.MultipartReply{Part: of13.PartGroupDesc, Body: watch.AppendTo(nil)}},
		{"group", reply(v15, 7, group15(1, 5, bucket15(9, nil, raw(bucketWeight, uint16(8), uint16(3), uint16(0))),
			bucket15(10, nil))), // one without a weight
			"", // os-ken does not read a bucket without properties
			&of13.MultipartReply{Part: of13.PartGroupDesc, Body: weighed.AppendTo(nil)}},
		{"meter features", reply(v15, 11, of13.MeterFeatures{MaxMeter: 100, MaxBands: 8}.AppendTo(nil), uint32(3),
			uint32(0)), "m.body[0].max_meter == 100",
			&of13.MultipartReply{Part: of13.PartMeterFeatures,
				Body: of13.MeterFeatures{MaxMeter: 100, MaxBands: 8}.AppendTo(nil)}},
		{"table features", reply(v15, 12, tables15), "",
			&of13.MultipartReply{Part: of13.PartTableFeatures, Body: tables.AppendTo(nil)}},
	}
}

func portStats14(port uint32, ethernet bool) []byte {
	b := raw(uint16(0), uint16(0), port, uint32(5), uint32(6), uint64(10), uint64(11), uint64(12), uint64(13),
		uint64(14), uint64(15), uint64(16), uint64(17))
	if ethernet {
		b = append(b, element(2, uint16(0), uint16(0), uint32(0), uint64(18), uint64(19), uint64(20), uint64(21))...)
	}
	be.PutUint16(b, uint16(len(b)))
	return b
}

func portStats13(port of13.Port, ethernet bool) of13.PortStats {
	s := of13.PortStats{Port: port, RxPackets: 10, TxPackets: 11, RxBytes: 12, TxBytes: 13, RxDropped: 14,
		TxDropped: 15, RxErrors: 16, TxErrors: 17,
		RxFrameErrors: 1<<64 - 1, RxOverErrors: 1<<64 - 1, RxCRCErrors: 1<<64 - 1, Collisions: 1<<64 - 1,
		Duration: of13.Duration{Sec: 5, Nsec: 6}}
	if ethernet {
		s.RxFrameErrors, s.RxOverErrors, s.RxCRCErrors, s.Collisions = 18, 19, 20, 21
	}
	return s
}

func queue13(id uint32) of13.Queue {
	return of13.Queue{ID: id, Port: 2, Properties: of13.List[of13.QueueProperty](nil).
		With(of13.QueueProperty{Property: of13.QueueMinRate,
			Rate: 100}).With(of13.QueueProperty{Property: of13.QueueMaxRate, Rate: 900})}
}

func groupStats() of13.GroupStats {
	return of13.GroupStats{GroupID: 5, RefCount: 1, Total: of13.Counter{Packets: 2, Bytes: 3},
		Duration: of13.Duration{Sec: 1, Nsec: 2},
		Buckets: of13.List[of13.Counter](nil).With(of13.Counter{Packets: 1, Bytes: 1}).With(of13.Counter{Packets: 1,
			Bytes: 2})}
}
