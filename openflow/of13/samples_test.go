package of13

import (
	"bytes"
	"net/netip"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// sameBytes makes nil and empty parts equal.
var sameBytes = cmp.Options{cmpopts.EquateEmpty()}

var (
	macA   = MAC{2, 0, 0, 0, 0, 0x0a}
	macB   = MAC{2, 0, 0, 0, 0, 0x0b}
	exact4 = [4]byte{255, 255, 255, 255}
	frame  = []byte("\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x88\xb5hello, this is a frame that is padded " +
		"to 60 byte")
)

func everyAction() Actions {
	return Actions(nil).Output(1, 0).Output(PortController, MaxLenNoBuffer).CopyTTLOut().CopyTTLIn().
		PushMPLS(0x8847).SetUint(FieldMPLSLabel, 99).SetMPLSTTL(64).DecMPLSTTL().PopMPLS(0x0800).
		PushVLAN(0x8100).SetUint(FieldVLANVID, 0x1005).PopVLAN().SetQueue(7).Group(5).
		SetNwTTL(32).DecNwTTL().SetField(Exact(FieldEthDst, macB[:])).PushPBB(0x88e7).PopPBB()
}

// everyOVSAction has the actions that Open vSwitch supports.
func everyOVSAction() Actions {
	return Actions(nil).Output(1, 0).Output(PortController, 128).PushMPLS(0x8847).SetUint(FieldMPLSLabel,
		99).SetMPLSTTL(64).
		DecMPLSTTL().PopMPLS(0x0800).PushVLAN(0x8100).SetUint(FieldVLANVID, 0x1005).PopVLAN().SetQueue(7).Group(5).
		SetNwTTL(32).DecNwTTL().SetField(Exact(FieldEthDst, macB[:]))
}

func tcpMatch() Match {
	return Match(nil).WithInPort(3).WithEthDst(macA).WithEthType(0x0800).WithVLAN(5).WithIPProto(6).
		WithIPv4Src([4]byte{10, 1, 0, 0}, [4]byte{255, 255, 0, 0}).WithIPv4Dst([4]byte{10, 0, 0, 1}, exact4).
		WithUint(FieldTCPDst, 80)
}

func everyInstruction() Instructions {
	return Instructions(nil).Meter(1).Apply(Actions(nil).DecNwTTL().Output(2, 0)).Clear().
		Write(Actions(nil).Output(3, 0)).WriteMetadata(0x10, 0xff).Goto(4)
}

func samplePort(p Port) PortDesc {
	return PortDesc{Port: p, HwAddr: macA, Name: "eth1", State: PortStateLive, Curr: Port10GbFD | PortCopper,
		Advertised: Port1GbFD, Supported: Port10GbFD, Peer: Port1GbHD, CurrSpeed: 10_000_000, MaxSpeed: 20_000_000}
}

func sampleBuckets() Buckets {
	return Buckets(nil).
		With(Bucket{WatchPort: 1, WatchGroup: GroupAny, Actions: Actions(nil).Output(1, 0)}).
		With(Bucket{WatchPort: 2, WatchGroup: GroupAny,
			Actions: Actions(nil).SetField(Exact(FieldEthSrc, macB[:])).Output(2, 0)})
}

func sampleBands() Bands {
	return Bands(nil).With(Band{BandType: BandDrop, Rate: 1000, Burst: 100}).
		With(Band{BandType: BandDSCPRemark, Rate: 500, Burst: 50, PrecLevel: 1})
}

// samples has at least one message of every type and every part, by name.
func samples() map[string]Message {
	s := map[string]Message{
		"hello":              &Hello{openflow.Version13, VersionsOf(openflow.Version10, openflow.Version13)},
		"hello without":      &Hello{Version: openflow.Version10},
		"error":              &Error{ErrTypeBadMatch, BadMatchBadPrereq, frame},
		"error experimenter": &Error{ErrTypeExperimenter, 3, []byte{0, 0, 0, 1, 9, 9, 9, 9}},
		"echo request":       &EchoRequest{[]byte("are you there")},
		"echo reply":         &EchoReply{},
		"experimenter":       &Experimenter{0x4f4e4600, 2300, []byte{0, 0, 0, 2, 0, 0, 0, 0}},
		"features request":   &FeaturesRequest{},
		"features reply": &FeaturesReply{0x00aabbccddeeff01, 256, 254, 0,
			CapFlowStats | CapTableStats | CapGroupStats},
		"get config request": &GetConfigRequest{},
		"get config reply":   &GetConfigReply{FragNormal, 128},
		"set config":         &SetConfig{FragDrop, MaxLenNoBuffer},
		"packet in": &PacketIn{NoBuffer, uint16(len(frame)), PacketInAction, 2, 0x1122334455667788,
			Match(nil).WithInPort(3).WithMetadata(5, ^uint64(0)), frame},
		"packet in buffered":  &PacketIn{77, 1500, PacketInNoMatch, 0, NoCookie, Match(nil).WithInPort(3), frame[:20]},
		"packet out":          &PacketOut{NoBuffer, PortController, Actions(nil).Output(PortFlood, 0), frame},
		"packet out all":      &PacketOut{NoBuffer, 3, everyAction(), frame},
		"packet out ovs":      &PacketOut{NoBuffer, 3, everyOVSAction(), nil},
		"packet out buffered": &PacketOut{77, 3, Actions(nil).Output(PortTable, 0), nil},
		"flow add": &FlowMod{Cookie: 0xc00c1e, TableID: 1, IdleTimeout: 10, HardTimeout: 20, Priority: 100,
			BufferID: NoBuffer,
			OutPort:  PortAny, OutGroup: GroupAny, Flags: FlowSendFlowRem, Match: tcpMatch(),
			Instructions: everyInstruction()},
		"flow delete": &FlowMod{CookieMask: 0xff, TableID: TableAll, Command: FlowDelete, BufferID: NoBuffer,
			OutPort: 2, OutGroup: GroupAny},
		"flow removed": &FlowRemoved{0xc00c1e, 100, FlowRemovedHardTimeout, 1, 20, 5000, 10, 20, 1234, 56789,
			tcpMatch()},
		"port status": &PortStatus{PortModify, samplePort(4)},
		"port mod":    &PortMod{4, macA, PortConfigDown, PortConfigDown | PortConfigNoFwd, Port10GbFD},
		"table mod":   &TableMod{TableAll, 3},
		"group add":   &GroupMod{GroupAdd, GroupTypeFastFailover, 5, sampleBuckets()},
		"group select": &GroupMod{GroupModify, GroupTypeSelect, 6, Buckets(nil).
			With(Bucket{7, PortAny, GroupAny, Actions(nil).Output(1, 0)}).With(Bucket{3, PortAny, GroupAny,
			Actions(nil).Output(2, 0)})},
		"group indirect": &GroupMod{GroupAdd, GroupTypeIndirect, 7,
			Buckets(nil).With(Bucket{0, PortAny, GroupAny, everyAction()})},
		"group delete":    &GroupMod{GroupDelete, GroupTypeAll, GroupAll, nil},
		"meter add":       &MeterMod{MeterAdd, MeterKbps | MeterBurst, 3, sampleBands()},
		"meter delete":    &MeterMod{MeterDelete, 0, MeterAll, nil},
		"barrier request": &BarrierRequest{}, "barrier reply": &BarrierReply{},
		"queue config request": &QueueGetConfigRequest{2},
		"queue config reply": &QueueGetConfigReply{2, List[Queue](nil).
			With(Queue{1, 2, List[QueueProperty](nil).With(QueueProperty{Property: QueueMinRate,
				Rate: 100}).With(QueueProperty{Property: QueueMaxRate, Rate: 900})}).
			With(Queue{ID: 2, Port: 2})},
		"role request":      &RoleRequest{RoleMaster, 0x8000000000000001},
		"role reply":        &RoleReply{RoleSlave, 7},
		"get async request": &GetAsyncRequest{},
		"get async reply":   &GetAsyncReply{[2]uint32{3, 0}, [2]uint32{7, 7}, [2]uint32{15, 0}},
		"set async":         &SetAsync{[2]uint32{7, 1}, [2]uint32{7, 2}, [2]uint32{15, 4}},
	}
	for name, m := range matches() {
		s["match "+name] = &FlowMod{Priority: 1, BufferID: NoBuffer, OutPort: PortAny, OutGroup: GroupAny, Match: m}
	}
	addMultipart(s)
	return s
}

func addMultipart(s map[string]Message) {
	for p := range PartPortDesc + 1 {
		if parts[p].request(make([]byte, multipartLen)) == nil {
			s["request "+p.String()] = &MultipartRequest{Part: p}
		}
	}
	selection := FlowStatsRequest{TableAll, PortAny, GroupAny, 0xc0, 0xf0, tcpMatch()}.AppendTo(nil)
	s["request FLOW"] = &MultipartRequest{Part: PartFlow, Body: selection}
	s["request AGGREGATE"] = &MultipartRequest{Part: PartAggregate, Body: selection}
	for name, r := range map[string]MultipartRequest{
		"PORT_STATS": PortStatsRequest(4), "GROUP": GroupStatsRequest(5),
		"METER": MeterStatsRequest(3), "METER_CONFIG": MeterConfigRequest(MeterAll),
	} {
		s["request "+name] = &r
	}
	s["request QUEUE"] = &MultipartRequest{Part: PartQueue, Body: QueueStatsRequest{PortAny, QueueAll}.AppendTo(nil)}
	s["request EXPERIMENTER"] = &MultipartRequest{Part: PartExperimenter,
		Body: Experimenter{0x4f4e4600, 1, []byte("data")}.AppendTo(nil)}

	d := Duration{12, 345}
	for p, body := range map[Part][]byte{
		PartDesc: Desc{"Holdfast", "none", "vswitch", "1", "a test"}.AppendTo(nil),
		PartFlow: List[FlowStats](nil).With(FlowStats{1, d, 100, 10, 20, 1, 0xc00c1e, 12, 345, tcpMatch(),
			everyInstruction()}).With(FlowStats{TableID: 2}),
		PartAggregate: AggregateStats{12, 345, 2}.AppendTo(nil),
		PartTable:     List[TableStats](nil).With(TableStats{0, 1, 2, 3}).With(TableStats{1, 4, 5, 6}),
		PartPortStats: List[PortStats](nil).With(PortStats{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
			d}).With(PortStats{Port: PortLocal}),
		PartQueue: List[QueueStats](nil).With(QueueStats{1, 2, 3, 4, 5, d}),
		PartGroup: List[GroupStats](nil).With(GroupStats{5, 1, Counter{2, 3}, d,
			List[Counter](nil).With(Counter{1, 1}).With(Counter{1, 2})}).
			With(GroupStats{GroupID: 6}),
		PartGroupDesc: List[GroupDesc](nil).With(GroupDesc{GroupTypeFastFailover, 5,
			sampleBuckets()}).With(GroupDesc{GroupID: 6}),
		PartGroupFeatures: GroupFeatures{15, 7, [4]uint32{1, 2, 3, 4}, [4]uint32{5, 6, 7, 8}}.AppendTo(nil),
		PartMeter: List[MeterStatistics](nil).With(MeterStatistics{3, 1, Counter{2, 3}, d,
			List[Counter](nil).With(Counter{1, 2})}),
		PartMeterConfig:   List[MeterConfig](nil).With(MeterConfig{MeterKbps | MeterBurst, 3, sampleBands()}),
		PartMeterFeatures: MeterFeatures{100, 1 << BandDrop, 15, 8, 2}.AppendTo(nil),
		PartTableFeatures: List[TableFeatures](nil).With(sampleTableFeatures()),
		PartPortDesc:      List[PortDesc](nil).With(samplePort(1)).With(samplePort(PortLocal)),
		PartExperimenter:  Experimenter{0x4f4e4600, 1, []byte("data")}.AppendTo(nil),
	} {
		s["reply "+p.String()] = &MultipartReply{Part: p, Flags: FlagMore, Body: body}
	}
	s["request TABLE_FEATURES all"] = &MultipartRequest{Part: PartTableFeatures,
		Body: List[TableFeatures](nil).With(sampleTableFeatures())}
}

func sampleTableFeatures() TableFeatures {
	return TableFeatures{0, "classifier", ^uint64(0), 0xff, 3, 1000, List[TableProperty](nil).
		With(TypesProperty(TableInstructions, InstructionGotoTable, InstructionApplyActions)).
		With(TypesProperty(TableInstructionsMiss, InstructionApplyActions)).
		With(NextTablesProperty(TableNextTables, 1, 2, 3)).
		With(NextTablesProperty(TableNextTablesMiss)).
		With(TypesProperty(TableWriteActions, ActionOutput, ActionSetField)).
		With(TypesProperty(TableWriteActionsMiss, ActionOutput)).
		With(TypesProperty(TableApplyActions, ActionOutput, ActionGroup)).
		With(TypesProperty(TableApplyActionsMiss, ActionOutput)).
		With(FieldsProperty(TableMatch, true, FieldInPort, FieldEthDst, FieldIPv6Dst)).
		With(FieldsProperty(TableWildcards, false, FieldInPort)).
		With(FieldsProperty(TableWriteSetField, false, FieldEthDst)).
		With(FieldsProperty(TableWriteSetFieldMiss, false)).
		With(FieldsProperty(TableApplySetField, false, FieldEthDst, FieldEthSrc)).
		With(FieldsProperty(TableApplySetFieldMiss, false))}
}

// matches has every field at least once, in valid matches.
func matches() map[string]Match {
	ones := bytes.Repeat([]byte{255}, 16)
	ip6 := func(s string) [16]byte { return netip.MustParseAddr(s).As16() }
	nd := ip6("fe80::1")
	v4 := func() Match { return Match(nil).WithEthType(0x0800) }
	v6 := func() Match { return Match(nil).WithEthType(0x86dd) }
	return map[string]Match{
		"link": Match(nil).WithInPort(1).WithMetadata(0x1200, 0xff00).
			WithEthDstMasked(MAC{1}, MAC{1}).WithEthSrcMasked(macA,
			MAC{255, 255, 255, 255, 255, 0}).WithEthType(0x88b5).
			WithUintMasked(FieldVLANVID, uint64(VLANPresent), uint64(VLANPresent)).WithUint(FieldVLANPCP, 5).
			WithUintMasked(FieldTunnelID, 0x77, 0xff),
		"physical": Match(nil).WithInPort(1).WithUint(FieldInPhyPort, 2),
		"udp": v4().WithUint(FieldIPDSCP, 46).WithUint(FieldIPECN, 1).WithIPProto(17).
			WithIPv4Src([4]byte{192, 168, 0, 1}, exact4).WithIPv4Dst([4]byte{10}, [4]byte{255, 0, 0, 255}).
			WithUint(FieldUDPSrc, 68).WithUint(FieldUDPDst, 67),
		"sctp": v4().WithIPProto(132).WithUint(FieldSCTPSrc, 1).WithUint(FieldSCTPDst, 2),
		"icmp": v4().WithIPProto(1).WithUint(FieldICMPv4Type, 8).WithUint(FieldICMPv4Code, 0),
		"arp": Match(nil).WithEthType(0x0806).WithUint(FieldARPOp, 1).WithUint(FieldARPSPA, 0x0a000001).
			WithUintMasked(FieldARPTPA, 0x0a000000, 0xffffff00).With(FieldARPSHA, macA[:], nil).With(FieldARPTHA,
			macB[:], nil),
		"tcp6": v6().WithIPProto(6).WithUint(FieldTCPSrc, 80).WithUint(FieldTCPDst, 443).
			WithIPv6Src(ip6("2001:db8::"), ip6("ffff:ffff::")).WithIPv6Dst(ip6("2001:db8::1"), [16]byte(ones)).
			WithUintMasked(FieldIPv6FLabel, 0x12345, 0xfffff),
		"exthdr": v6().WithUintMasked(FieldIPv6ExtHdr, 0x41, 0x1ff),
		"nd": v6().WithIPProto(58).WithUint(FieldICMPv6Type, 135).WithUint(FieldICMPv6Code, 0).
			With(FieldIPv6NDTarget, nd[:], nil).With(FieldIPv6NDSLL, macA[:], nil),
		"na": v6().WithIPProto(58).WithUint(FieldICMPv6Type, 136).
			With(FieldIPv6NDTarget, nd[:], nil).With(FieldIPv6NDTLL, macB[:], nil),
		"mpls": Match(nil).WithEthType(0x8847).WithUint(FieldMPLSLabel, 0xfffff).WithUint(FieldMPLSTC,
			7).WithUint(FieldMPLSBOS, 1),
		"pbb": Match(nil).WithEthType(0x88e7).WithUintMasked(FieldPBBISID, 0x123400, 0xffff00),
	}
}
