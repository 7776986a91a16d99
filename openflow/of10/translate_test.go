package of10

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const testXID = 0x01020304

var (
	macA = of13.MAC{2, 0, 0, 0, 0, 1}
	macB = of13.MAC{2, 0, 0, 0, 0, 2}
)

// split decodes the 1.3 messages in b, all of which must have testXID.
func split(t interface{ Fatalf(string, ...any) }, b []byte) []of13.Message {
	var out []of13.Message
	for len(b) > 0 {
		msg, rest, err := openflow.Next(b)
		if err != nil || msg == nil {
			t.Fatalf("not whole messages: %v, %d bytes left", err, len(rest))
		}
		m, err := of13.Decode(msg)
		if err != nil {
			t.Fatalf("%x: %v", msg, err)
		}
		if openflow.XID(msg) != testXID {
			t.Fatalf("xid %#x", openflow.XID(msg))
		}
		out, b = append(out, m), rest
	}
	return out
}

func toV13(t *testing.T, m Message) []of13.Message {
	t.Helper()
	prefix := []byte("before")
	out, err := ToV13(slices.Clone(prefix), m.Append(nil, testXID))
	if err != nil {
		t.Fatalf("%s: %v", TypeName(m.Type()), err)
	}
	rest, ok := bytes.CutPrefix(out, prefix)
	if !ok {
		t.Fatalf("%s: ToV13 changed what was there", TypeName(m.Type()))
	}
	return split(t, rest)
}

func fromV13(t *testing.T, m of13.Message) Message {
	t.Helper()
	prefix := []byte("before")
	out, err := FromV13(slices.Clone(prefix), m.Append(nil, testXID))
	if err != nil {
		t.Fatalf("%s: %v", of13.TypeName(m.Type()), err)
	}
	rest, ok := bytes.CutPrefix(out, prefix)
	if !ok || openflow.XID(rest) != testXID {
		t.Fatalf("%s: %x", of13.TypeName(m.Type()), out)
	}
	got, err := Decode(rest)
	if err != nil {
		t.Fatalf("%s: %v", of13.TypeName(m.Type()), err)
	}
	return got
}

func TestToV13(t *testing.T) {
	data := []byte("packet")
	port := PortDesc{Port: PortLocal, HWAddr: macA, Name: [16]byte{'b', 'r', '0'},
		Config: ConfigPortDown | ConfigNoFlood,
		State:  StateLinkDown | StateSTPBlock, Current: 1<<5 | 1<<7, Supported: 1<<6 | 1<<11}
	port13 := of13.PortDesc{Port: of13.PortLocal, HwAddr: macA, Name: "br0", Config: of13.PortConfigDown,
		State: of13.PortStateLinkDown | of13.PortStateBlocked, Curr: of13.Port1GbFD | of13.PortCopper,
		Supported: of13.Port10GbFD | of13.PortPauseAsym,
		CurrSpeed: 1_000_000, MaxSpeed: 10_000_000}
	for _, c := range []struct {
		in   Message
		want of13.Message
	}{
		{&PacketIn{BufferID: 7, TotalLen: 100, InPort: 3, Reason: ReasonAction, Data: data},
			&of13.PacketIn{BufferID: 7, TotalLen: 100, Reason: of13.PacketInAction, Cookie: of13.NoCookie,
				Match: of13.Match(nil).WithInPort(3), Data: data}},
		{&PacketIn{BufferID: NoBuffer, InPort: PortLocal, Data: data},
			&of13.PacketIn{BufferID: of13.NoBuffer, Cookie: of13.NoCookie,
				Match: of13.Match(nil).WithInPort(of13.PortLocal), Data: data}},
		{&FlowRemoved{Match: oracleMatch, Cookie: 1, Priority: 2, Reason: RemovedDelete, DurationSec: 3,
			DurationNsec: 4, IdleTimeout: 5, Packets: 6, Bytes: 7},
			&of13.FlowRemoved{Cookie: 1, Priority: 2, Reason: of13.FlowRemovedDelete, DurationSec: 3, DurationNsec: 4,
				IdleTimeout: 5, PacketCount: 6, ByteCount: 7,
				Match: of13.Match(nil).WithInPort(3).WithEthDst(oracleMAC).WithEthType(0x0800).WithIPProto(6).
					WithIPv4Src([4]byte{10}, [4]byte{255}).WithUint(of13.FieldIPv4Dst,
					0x0a010203).WithUint(of13.FieldTCPDst, 80)}},
		{&PortStatus{PortModified, port}, &of13.PortStatus{Reason: of13.PortModify, Port: port13}},
		{&FeaturesReply{DatapathID: 9, NBuffers: 256, NTables: 2, Capabilities: CapFlowStats | CapSTP | CapARPMatchIP,
			Ports: Ports(nil).With(port)},
			&of13.FeaturesReply{DatapathID: 9, NBuffers: 256, NTables: 1,
				Capabilities: of13.CapFlowStats | of13.CapPortBlocked}},
		{&Error{ErrBadAction, 4, data}, &of13.Error{ErrType: of13.ErrTypeBadAction, Code: of13.BadActionBadOutPort,
			Data: data}},
		{&Error{ErrFlowModFailed, 0, data}, &of13.Error{ErrType: of13.ErrTypeFlowModFailed,
			Code: of13.FlowModFailedTableFull, Data: data}},
		{&Error{ErrFlowModFailed, 5, data}, &of13.Error{ErrType: of13.ErrTypeFlowModFailed,
			Code: of13.FlowModFailedUnknown, Data: data}},
		{&Error{ErrPortModFailed, 1, data}, &of13.Error{ErrType: of13.ErrTypePortModFailed,
			Code: of13.PortModFailedBadHwAddr, Data: data}},
		{&Error{ErrQueueOpFailed, 2, data}, &of13.Error{ErrType: of13.ErrTypeQueueOpFailed,
			Code: of13.QueueOpFailedEPerm, Data: data}},
		{&EchoRequest{data}, &of13.EchoRequest{Data: data}},
		{&EchoReply{data}, &of13.EchoReply{Data: data}},
		{&BarrierReply{}, &of13.BarrierReply{}},
		{&GetConfigReply{1, 128}, &of13.GetConfigReply{Flags: of13.FragDrop, MissSendLen: 128}},
		{&Vendor{0x2320, []byte{0, 0, 0, 11, 1, 2, 3, 4}},
			&of13.Experimenter{ID: 0x2320, ExpType: 11, Data: []byte{1, 2, 3, 4}}},
	} {
		if d := cmp.Diff([]of13.Message{c.want}, toV13(t, c.in), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", TypeName(c.in.Type()), d)
		}
	}
	out, err := PortsToV13(nil, (&FeaturesReply{Ports: Ports(nil).With(port)}).Append(nil, testXID))
	if err != nil {
		t.Fatal(err)
	}
	want := &of13.MultipartReply{Part: of13.PartPortDesc, Body: port13.AppendTo(nil)}
	if d := cmp.Diff([]of13.Message{want}, split(t, out)); d != "" {
		t.Error(d)
	}
}

func TestStatsToV13(t *testing.T) {
	flow := FlowStats{TableID: 2, Match: oracleMatch, DurationSec: 1, DurationNsec: 2, Priority: 3, IdleTimeout: 4,
		HardTimeout: 5,
		Cookie:      6, Packets: 7, Bytes: 8, Actions: Actions(nil).SetVLANVID(9).SetTPDst(81).Output(PortController,
			64).Enqueue(2, 1)}
	flow13 := of13.FlowStats{Duration: of13.Duration{Sec: 1, Nsec: 2}, Priority: 3, IdleTimeout: 4, HardTimeout: 5,
		Cookie: 6, PacketCount: 7, ByteCount: 8,
		Match: flow.Match.toV13(nil), Instructions: of13.Instructions(nil).Apply(
			of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1009).
				SetUint(of13.FieldTCPDst, 81).Output(of13.PortController, 64).SetQueue(1).Output(2, 0))}
	drop := FlowStats{Match: Match{Wildcards: WildAll}}
	port := PortStats{Port: 4, RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4, RxDropped: 5, TxDropped: 6,
		RxErrors: 7, TxErrors: 8, RxFrameErr: 9, RxOverErr: 10, RxCRCErr: 11, Collisions: 12}
	port13 := of13.PortStats{Port: 4, RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4, RxDropped: 5, TxDropped: 6,
		RxErrors: 7, TxErrors: 8, RxFrameErrors: 9, RxOverErrors: 10, RxCRCErrors: 11, Collisions: 12,
		Duration: noDuration}
	table := TableStats{TableID: 1, MaxEntries: 9, Active: 2, Lookup: 3, Matched: 4}
	queue := QueueStats{PortLocal, 1, 2, 3, 4}
	var desc Desc
	copy(desc.Software[:], "old")
	for _, c := range []struct {
		in   *StatsReply
		want *of13.MultipartReply
	}{
		{statsReply(StatsDesc, desc.Append(nil)), &of13.MultipartReply{Part: of13.PartDesc,
			Body: of13.Desc{Software: "old"}.AppendTo(nil)}},
		{statsReply(StatsFlow, drop.Append(flow.Append(nil))),
			&of13.MultipartReply{Part: of13.PartFlow, Body: of13.FlowStats{}.AppendTo(flow13.AppendTo(nil))}},
		{statsReply(StatsAggregate, Aggregate{1, 2, 3}.Append(nil)),
			&of13.MultipartReply{Part: of13.PartAggregate,
				Body: of13.AggregateStats{PacketCount: 1, ByteCount: 2, FlowCount: 3}.AppendTo(nil)}},
		{statsReply(StatsTable, table.Append(nil)), &of13.MultipartReply{Part: of13.PartTable,
			Body: of13.TableStats{TableID: 1, ActiveCount: 2, LookupCount: 3, MatchedCount: 4}.AppendTo(nil)}},
		{&StatsReply{StatsPort, FlagReplyMore, port.Append(nil)},
			&of13.MultipartReply{Part: of13.PartPortStats, Flags: of13.FlagMore, Body: port13.AppendTo(nil)}},
		{statsReply(StatsQueue, queue.Append(nil)), &of13.MultipartReply{Part: of13.PartQueue,
			Body: of13.QueueStats{Port: of13.PortLocal, Queue: 1, TxBytes: 2, TxPackets: 3, TxErrors: 4,
				Duration: noDuration}.AppendTo(nil)}},
	} {
		if d := cmp.Diff([]of13.Message{c.want}, toV13(t, c.in)); d != "" {
			t.Errorf("%v: %s", c.in.StatsType, d)
		}
	}
}

// Entries grow in 1.3, so a full 1.0 message needs more than one.
func TestLongRepliesAreSplit(t *testing.T) {
	var features FeaturesReply
	var flows StatsReply
	for i := range 1300 {
		features.Ports = features.Ports.With(PortDesc{Port: Port(i + 1)})
	}
	flows.StatsType = StatsFlow
	for i := range 600 {
		f := FlowStats{Match: oracleMatch, Priority: uint16(i), Actions: Actions(nil).Output(1, 0)}
		flows.Body = f.Append(flows.Body)
	}
	out, err := PortsToV13(nil, features.Append(nil, testXID))
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for i, m := range split(t, out) {
		reply := m.(*of13.MultipartReply)
		if more := reply.Flags == of13.FlagMore; more != (i == 0) {
			t.Errorf("message %d: flags %d", i, reply.Flags)
		}
		for p := range reply.PortDescs().All() {
			if p.Port != of13.Port(next) {
				t.Fatalf("port %v after %d", p.Port, next-1)
			}
			next++
		}
	}
	if next != 1301 {
		t.Errorf("%d ports", next-1)
	}
	next = 0
	for _, m := range toV13(t, &flows) {
		for f := range m.(*of13.MultipartReply).Flows().All() {
			if int(f.Priority) != next {
				t.Fatalf("flow %d after %d", f.Priority, next-1)
			}
			next++
		}
	}
	if next != 600 {
		t.Errorf("%d flows", next)
	}
}

func TestFromV13(t *testing.T) {
	data := []byte("packet")
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	all := Match{Wildcards: WildAll}
	for _, c := range []struct {
		name string
		in   of13.Message
		want Message
	}{
		{"packet-out with data", &of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Actions: flood,
			Data: data},
			&PacketOut{NoBuffer, PortNone, Actions(nil).Output(PortFlood, 0), data}},
		{"buffered packet-out", &of13.PacketOut{BufferID: 9, InPort: 4,
			Actions: of13.Actions(nil).SetField(of13.Exact(of13.FieldEthDst, macB[:])).Output(of13.PortController,
				0xffff)},
			&PacketOut{9, 4, Actions(nil).SetDLDst(macB).Output(PortController, 0xffff), nil}},
		{"the learning switch's flow-mod", &of13.FlowMod{Cookie: 5, Command: of13.FlowAdd, IdleTimeout: 10,
			HardTimeout: 20, Priority: 100, BufferID: 7,
			Flags:        of13.FlowSendFlowRem | of13.FlowResetCounts | of13.FlowNoPktCounts,
			Match:        of13.Match(nil).WithInPort(1).WithEthDst(macB),
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))},
			&FlowMod{Match: Match{Wildcards: WildAll &^ (WildInPort | WildDLDst), InPort: 1, DLDst: macB}, Cookie: 5,
				Command: FlowAdd, IdleTimeout: 10, HardTimeout: 20,
				Priority: 100, BufferID: 7, OutPort: PortNone, Flags: FlagSendFlowRem,
				Actions: Actions(nil).Output(2, 0)}},
		{"drop by clear_actions", &of13.FlowMod{BufferID: NoBuffer, Instructions: of13.Instructions(nil).Clear()},
			&FlowMod{Match: all, BufferID: NoBuffer, OutPort: PortNone}},
		{"delete from all tables", &of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, OutPort: 3,
			OutGroup: of13.GroupAny, BufferID: NoBuffer},
			&FlowMod{Match: all, Command: FlowDelete, BufferID: NoBuffer, OutPort: 3}},
		{"VLANs and queues", &of13.FlowMod{BufferID: NoBuffer, Match: of13.Match(nil).WithNoVLAN(),
			Instructions: of13.Instructions(nil).Apply(
				of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1005).SetUint(of13.FieldVLANPCP,
					3).SetQueue(8).Output(2, 0).PopVLAN())},
			&FlowMod{Match: Match{Wildcards: WildAll &^ WildDLVLAN, DLVLAN: VLANNone}, BufferID: NoBuffer,
				OutPort: PortNone,
				Actions: Actions(nil).SetVLANVID(5).SetVLANPCP(3).Enqueue(2, 8).StripVLAN()}},
		{"ARP", &of13.FlowMod{BufferID: NoBuffer, Match: of13.Match(nil).WithEthType(0x0806).WithUint(of13.FieldARPOp,
			2).WithUintMasked(of13.FieldARPTPA, 0x0a000000, 0xff000000)},
			&FlowMod{Match: Match{Wildcards: (WildAll &^ (WildDLType | WildNWProto)).WithNWDstBits(8), DLType: 0x0806,
				NWProto: 2, NWDst: 0x0a000000}, BufferID: NoBuffer, OutPort: PortNone}},
		{"port-mod", &of13.PortMod{Port: of13.PortLocal, HwAddr: macA, Config: of13.PortConfigDown,
			Mask: of13.PortConfigDown, Advertise: of13.Port1GbFD | of13.PortAutoNeg},
			&PortMod{PortLocal, macA, ConfigPortDown, ConfigPortDown, 1<<5 | 1<<9}},
		{"echo request", &of13.EchoRequest{Data: data}, &EchoRequest{data}},
		{"echo reply", &of13.EchoReply{Data: data}, &EchoReply{data}},
		{"barrier", &of13.BarrierRequest{}, &BarrierRequest{}},
		{"features", &of13.FeaturesRequest{}, &FeaturesRequest{}},
		{"get config", &of13.GetConfigRequest{}, &GetConfigRequest{}},
		{"set config", &of13.SetConfig{MissSendLen: 0xffff}, &SetConfig{0, 0xffff}},
		{"experimenter", &of13.Experimenter{ID: 1, ExpType: 2, Data: data},
			&Vendor{1, append([]byte{0, 0, 0, 2}, data...)}},
		{"port descriptions", &of13.MultipartRequest{Part: of13.PartPortDesc}, &FeaturesRequest{}},
		{"description", &of13.MultipartRequest{Part: of13.PartDesc}, statsRequest(StatsDesc, nil)},
		{"table statistics", &of13.MultipartRequest{Part: of13.PartTable}, statsRequest(StatsTable, nil)},
		{"port statistics", portStats13(), statsRequest(StatsPort, PortStatsRequest{PortNone}.Append(nil))},
		{"queue statistics", &of13.MultipartRequest{Part: of13.PartQueue,
			Body: of13.QueueStatsRequest{Port: of13.PortAny, Queue: of13.QueueAll}.AppendTo(nil)},
			statsRequest(StatsQueue, QueueStatsRequest{PortAll, AllQueues}.Append(nil))},
		{"flow statistics", &of13.MultipartRequest{Part: of13.PartFlow,
			Body: of13.FlowStatsRequest{OutPort: of13.PortAny, OutGroup: of13.GroupAny}.AppendTo(nil)},
			statsRequest(StatsFlow, (&FlowStatsRequest{all, AllTables, PortNone}).Append(nil))},
		{"aggregate", &of13.MultipartRequest{Part: of13.PartAggregate,
			Body: of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: 2, OutGroup: of13.GroupAny}.AppendTo(nil)},
			statsRequest(StatsAggregate, (&FlowStatsRequest{all, AllTables, 2}).Append(nil))},
	} {
		if d := cmp.Diff(c.want, fromV13(t, c.in), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestUnsupported(t *testing.T) {
	flow := func(edit func(*of13.FlowMod)) []byte {
		m := of13.FlowMod{BufferID: NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
		edit(&m)
		return m.Append(nil, 1)
	}
	match := func(m of13.Match) []byte { return flow(func(f *of13.FlowMod) { f.Match = m }) }
	apply := func(a of13.Actions) []byte {
		return flow(func(f *of13.FlowMod) { f.Instructions = f.Instructions.Apply(a) })
	}
	vlan := of13.Match(nil).WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000)
	for _, c := range []struct {
		names string
		msg   []byte
	}{
		{"of this size", apply(of13.Actions(nil).Experimenter(1, make([]byte, 65464-8)))},
		{"goto_table", flow(func(f *of13.FlowMod) { f.Instructions = f.Instructions.Goto(1) })},
		{"meter", flow(func(f *of13.FlowMod) { f.Instructions = f.Instructions.Meter(1) })},
		{"table 3", flow(func(f *of13.FlowMod) { f.TableID = 3 })},
		{"table 255", flow(func(f *of13.FlowMod) { f.TableID = of13.TableAll })},
		{"cookie mask", flow(func(f *of13.FlowMod) { f.Command, f.CookieMask = of13.FlowDelete, 1 })},
		{"group 7", flow(func(f *of13.FlowMod) { f.Command, f.OutGroup = of13.FlowDelete, 7 })},
		{"port 65281", flow(func(f *of13.FlowMod) { f.Command, f.OutPort = of13.FlowDelete, 0xff01 })},
		{"reset_counts", flow(func(f *of13.FlowMod) { f.Command, f.Flags = of13.FlowModify, of13.FlowResetCounts })},
		{"metadata", match(of13.Match(nil).WithMetadata(1, 1))},
		{"ipv6_src", match(of13.Match(nil).WithEthType(0x86dd).WithIPv6Src([16]byte{1}, [16]byte{255}))},
		{"eth_dst", match(of13.Match(nil).WithEthDstMasked(macA, of13.MAC{1}))},
		{"ipv4_src", match(of13.Match(nil).WithEthType(0x800).WithIPv4Src([4]byte{10, 0, 0, 1},
			[4]byte{255, 0, 0, 255}))},
		{"eth_type", match(of13.Match(nil).WithUint(of13.FieldIPv4Src, 1))},
		{"ip_proto", match(of13.Match(nil).WithEthType(0x800).WithUint(of13.FieldTCPDst, 80))},
		{"any VLAN tag", match(vlan)},
		{"arp_op", match(of13.Match(nil).WithEthType(0x806).WithUint(of13.FieldARPOp, 256))},
		{"in_port", match(of13.Match(nil).WithInPort(70000))},
		{"group", apply(of13.Actions(nil).Group(1))},
		{"dec_nw_ttl", apply(of13.Actions(nil).DecNwTTL())},
		{"port 70000", apply(of13.Actions(nil).Output(70000, 0))},
		{"push_vlan", apply(of13.Actions(nil).PushVLAN(0x8100).Output(1, 0))},
		{"push_vlan", apply(of13.Actions(nil).PushVLAN(0x8100))},
		{"push_vlan", apply(of13.Actions(nil).PushVLAN(0x88a8).SetUint(of13.FieldVLANVID, 0x1001))},
		{"ipv6_dst", apply(of13.Actions(nil).SetField(of13.Exact(of13.FieldIPv6Dst, make([]byte, 16))))},
		{"through a queue", apply(of13.Actions(nil).SetQueue(1).Output(of13.PortFlood, 0))},
		{"ROLE_REQUEST", (&of13.RoleRequest{}).Append(nil, 1)},
		{"GROUP_MOD", (&of13.GroupMod{}).Append(nil, 1)},
		{"METER_MOD", (&of13.MeterMod{}).Append(nil, 1)},
		{"GROUP_DESC", (&of13.MultipartRequest{Part: of13.PartGroupDesc}).Append(nil, 1)},
		{"link modes", (&of13.PortMod{Port: 1, Advertise: of13.Port40GbFD}).Append(nil, 1)},
		{"port 70000", (&of13.PacketOut{InPort: 70000}).Append(nil, 1)},
	} {
		dst := []byte("before")
		out, err := FromV13(dst, c.msg)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported ||
			!strings.Contains(e.Detail, c.names) && !strings.Contains(e.Message, c.names) {
			t.Errorf("%s: %v", c.names, err)
		} else if e.Offset > len(c.msg) || e.Version != openflow.Version13 {
			t.Errorf("%s: version %d, offset %d of %d", c.names, e.Version, e.Offset, len(c.msg))
		}
		if string(out) != "before" {
			t.Errorf("%s: dst became %q", c.names, out)
		}
	}
	setsPort := FlowStats{Match: Match{Wildcards: WildAll}, Actions: Actions(nil).SetTPDst(1)}
	queues := FlowStats{Match: Match{Wildcards: WildAll}, Actions: Actions(nil).Enqueue(1, 1).Output(2, 0)}
	for _, m := range []Message{&Hello{}, &Vendor{ID: 1}, &Error{ErrType: 0xb0c2},
		&PacketIn{Data: make([]byte, openflow.MaxMessageLen-packetInLen)},
		&StatsReply{StatsType: StatsVendor, Body: make([]byte, 8)}, statsReply(StatsFlow, setsPort.Append(nil)),
		statsReply(StatsFlow, queues.Append(nil))} {
		out, err := ToV13([]byte("before"), m.Append(nil, 1))
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported || string(out) != "before" {
			t.Errorf("%s: %v, %q", TypeName(m.Type()), err, out)
		}
	}
}

func portStats13() *of13.MultipartRequest {
	m := of13.PortStatsRequest(of13.PortAny)
	return &m
}
