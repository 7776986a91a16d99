package of14

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const testXID = 7

var (
	v14, v15 = openflow.Version14, openflow.Version15
	macA     = of13.MAC{2, 0, 0, 0, 0, 0x0a}
	matchTCP = of13.Match(nil).WithInPort(3).WithEthDst(macA).WithEthType(0x0800).WithIPProto(6).WithUint(
		of13.FieldTCPDst, 80)
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

// message returns a message of a later version.
func message(version, typ uint8, body ...any) []byte {
	m := append(openflow.AppendHeader(nil, version, typ, testXID), raw(body...)...)
	openflow.SetLength(m)
	return m
}

// element returns an element whose 16 bits at lenAt contain its length.
func element(lenAt int, values ...any) []byte {
	b := raw(values...)
	be.PutUint16(b[lenAt:], uint16(len(b)))
	return b
}

func u8(v ...uint8) []byte { return v }

func padTo8(b []byte) []byte { return pad(b, padded(len(b))-len(b)) }

// match is a struct ofp_match.
func match(m of13.Match) []byte {
	return padTo8(raw(uint16(1), uint16(4+len(m)), []byte(m)))
}

// oxs is a struct ofp_stats.
func oxs(fields ...[]byte) []byte {
	b := raw(uint16(0), uint16(0))
	for _, f := range fields {
		b = append(b, f...)
	}
	be.PutUint16(b[2:], uint16(len(b)))
	return padTo8(b)
}

func oxsField(field uint8, v any) []byte {
	b := raw(v)
	return append(raw(oxsClassBasic, field<<1, uint8(len(b))), b...)
}

func port14(port uint32) []byte {
	return element(4, port, uint32(0), macA[:], uint16(0),
		[]byte("eth1\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), uint32(0x20), uint32(4),
		element(2, uint16(0xffff), uint16(0), uint32(9), uint32(9)), uint32(0), // an experimenter's, with its padding
		element(2, uint16(0), uint16(0), uint32(0), uint32(0x840), uint32(0x20), uint32(0x40), uint32(0x10),
			uint32(10_000_000), uint32(20_000_000)))
}

func port13(port of13.Port) of13.PortDesc {
	return of13.PortDesc{Port: port, HwAddr: macA, Name: "eth1", Config: of13.PortConfigNoFwd,
		State: of13.PortStateLive, Curr: of13.Port10GbFD | of13.PortCopper,
		Advertised: of13.Port1GbFD, Supported: of13.Port10GbFD, Peer: of13.Port1GbHD, CurrSpeed: 10_000_000,
		MaxSpeed: 20_000_000}
}

// split splits the messages that ToV13 made, and decodes them.
func split(t *testing.T, b []byte) []of13.Message {
	t.Helper()
	var list []of13.Message
	for len(b) > 0 {
		msg, rest, err := openflow.Next(b)
		if err != nil || msg == nil {
			t.Fatalf("no message: %x, %v", b, err)
		}
		m, err := of13.Decode(msg)
		if err != nil {
			t.Fatal(err)
		}
		if openflow.XID(msg) != testXID {
			t.Errorf("xid %d", openflow.XID(msg))
		}
		list, b = append(list, m), rest
	}
	return list
}

func TestToV13(t *testing.T) {
	for _, c := range toV13Cases() {
		out, err := ToV13([]byte("before"), c.msg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff([]of13.Message{c.want}, split(t, out[len("before"):]), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestErrorsToV13(t *testing.T) {
	data := []byte("the refused message")
	for _, c := range []struct {
		errType, code      uint16
		wantType, wantCode uint16
	}{
		{0, 0, of13.ErrTypeHelloFailed, of13.HelloFailedIncompatible},
		{1, 13, of13.ErrTypeBadRequest, of13.BadRequestMultipartBufferOverflow},
		{1, 15, of13.ErrTypeBadRequest, of13.BadRequestBadMultipart},
		{1, 18, of13.ErrTypeBadRequest, of13.BadRequestEPerm},
		{2, 16, of13.ErrTypeBadAction, of13.BadActionBadSetArgument},
		{2, 17, of13.ErrTypeMeterModFailed, of13.MeterModFailedUnknownMeter},
		{3, 9, of13.ErrTypeBadInstruction, of13.BadInstructionUnsupInst},
		{4, 11, of13.ErrTypeBadMatch, of13.BadMatchEPerm},
		{5, 1, of13.ErrTypeFlowModFailed, of13.FlowModFailedTableFull},
		{5, 10, of13.ErrTypeFlowModFailed, of13.FlowModFailedEPerm},
		{6, 16, of13.ErrTypeGroupModFailed, of13.GroupModFailedBadBucket},
		{11, 0, of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedStale},
		{11, 4, of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedUnsup},
		{13, 10, of13.ErrTypeTableFeaturesFailed, of13.TableFeaturesFailedBadArgument},
		{14, 1, of13.ErrTypeBadRequest, of13.BadRequestBadLen},
		{14, 8, of13.ErrTypeBadRequest, of13.BadRequestEPerm},
		{14, 99, of13.ErrTypeBadRequest, of13.BadRequestBadType},
		{15, 2, of13.ErrTypeBadRequest, of13.BadRequestEPerm},
		{16, 3, of13.ErrTypeBadRequest, of13.BadRequestBadType},
		{0xffff, 2300, of13.ErrTypeExperimenter, 2300},
		{77, 3, 77, 3},
	} {
		out, err := ToV13(nil, message(v14, 1, c.errType, c.code, data))
		if err != nil {
			t.Errorf("%d/%d: %v", c.errType, c.code, err)
			continue
		}
		want := []of13.Message{&of13.Error{ErrType: c.wantType, Code: c.wantCode, Data: data}}
		if d := cmp.Diff(want, split(t, out)); d != "" {
			t.Errorf("%d/%d: %s", c.errType, c.code, d)
		}
	}
	for code, want := range map[uint16]uint16{0: of13.BundleUnknown, 13: of13.BundleMsgFailed,
		15: of13.BundleInProgress, 17: of13.BundleUnknown} {
		out, err := ToV13(nil, message(v15, 1, uint16(17), code, data))
		if err != nil {
			t.Fatal(err)
		}
		e := split(t, out)[0].(*of13.Error)
		if got, ok := e.BundleError(); !ok || got != want || string(e.Data[4:]) != string(data) {
			t.Errorf("bundle error %d became %+v", code, e)
		}
	}
}

// Entries without properties are longer in 1.3, so a full message needs several.
func TestLongRepliesAreSplit(t *testing.T) {
	var ports []byte
	for i := range 1300 {
		ports = append(ports, element(4, uint32(i+1), uint32(0), macA[:], uint16(0), make([]byte, 24))...)
	}
	out, err := ToV13(nil, message(v14, 19, uint16(13), uint16(0), uint32(0), ports))
	if err != nil {
		t.Fatal(err)
	}
	next := of13.Port(1)
	for i, m := range split(t, out) {
		reply := m.(*of13.MultipartReply)
		if more := reply.Flags == of13.FlagMore; more != (i == 0) {
			t.Errorf("message %d: flags %d", i, reply.Flags)
		}
		for p := range reply.PortDescs().All() {
			if p.Port != next {
				t.Fatalf("port %v instead of %v", p.Port, next)
			}
			next++
		}
	}
	if next != 1301 {
		t.Errorf("%d ports", next-1)
	}
}

func TestUnsupported(t *testing.T) {
	copyField := element(2, uint16(4), uint16(0), uint32(0), element(2, uint16(28), uint16(0), make([]byte, 20)))
	lateMeter := element(2, uint16(4), uint16(0), uint32(0), []byte(of13.Actions(nil).PopVLAN()), uint16(29), uint16(8),
		uint32(1))
	for _, msg := range [][]byte{
		message(v14, 0),
		message(v14, TypeTableStatus, make([]byte, 16)),
		message(v15, TypeControllerStatus, make([]byte, 16)),
		message(v14, 13, make([]byte, 16)),
		message(v14, 19, uint16(14), uint16(0), uint32(0)),
		message(v15, 19, uint16(17), uint16(0), uint32(0)),
		message(v15, 19, uint16(1), uint16(0), uint32(0), flow15(nil, copyField)),
		message(v15, 19, uint16(1), uint16(0), uint32(0), flow15(nil, lateMeter)),
	} {
		out, err := ToV13([]byte("before"), msg)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported || e.Version != msg[0] || e.Offset > len(msg) ||
			string(out) != "before" {
			t.Errorf("%x: %v, %q", msg[:10], err, out)
		}
	}
	long := of13.PacketOut{BufferID: of13.NoBuffer, Data: make([]byte, openflow.MaxMessageLen-24)}
	meter := of13.FlowMod{Instructions: of13.Instructions(nil).Meter(1).Write(of13.Actions(nil).Experimenter(1,
		make([]byte, 65448)))}
	var groups of13.Buckets
	for range 4000 {
		groups = groups.With(of13.Bucket{WatchPort: 1, WatchGroup: 1})
	}
	bundled := of13.BundleAdd{Message: append((&of13.FlowMod{}).Append(nil, 1), make([]byte, 8)...)}
	for _, m := range []of13.Message{&of13.Hello{Version: 4}, &of13.PacketIn{}, &long, &meter, &bundled,
		&of13.GroupMod{GroupType: of13.GroupTypeFastFailover, Buckets: groups},
		&of13.BundleAdd{Message: (&of13.BundleAdd{}).Append(nil, 1)}} {
		msg := m.Append(nil, 1)
		out, err := FromV13([]byte("before"), msg, v15)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported || e.Offset > len(msg) || string(out) != "before" {
			t.Errorf("%s: %v, %d bytes", of13.TypeName(m.Type()), err, len(out))
		}
	}
	for _, msg := range [][]byte{nil, {4}, message(v14, 2), (&of13.BundleAdd{Message: []byte{1, 2}}).Append(nil, 1)} {
		if _, err := FromV13(nil, msg, v14); err == nil {
			t.Errorf("%x is taken for a message of 1.3", msg)
		}
	}
	if _, err := FromV13(nil, (&of13.BarrierRequest{}).Append(nil, 1), 4); err == nil {
		t.Error("there is a version 4 that is later than 1.3")
	}
}

// Counters that a switch does not have are all ones in 1.3. Fields of other classes and those of a wrong size are
// skipped.
func TestAbsentCounters(t *testing.T) {
	out, err := ToV13(nil, message(v15, 19, uint16(2), uint16(0), uint32(0),
		oxs(raw(u8(0xff, 0xff, 2, 4), uint32(1)), oxsField(oxsPacketCount, uint32(1)))))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := split(t, out)[0].(*of13.MultipartReply).Aggregate()
	if want := (of13.AggregateStats{PacketCount: 1<<64 - 1, ByteCount: 1<<64 - 1, FlowCount: 1<<32 - 1}); a != want {
		t.Errorf("%+v", a)
	}
}

// The frequent messages are translated without allocations.
func TestNoAllocation(t *testing.T) {
	flow := of13.FlowMod{BufferID: of13.NoBuffer, Match: matchTCP,
		Instructions: of13.Instructions(nil).Meter(1).Apply(of13.Actions(nil).Output(2, 0))}
	out := of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: of13.Actions(nil).Output(2, 0),
		Data: make([]byte, 60)}
	buf := make([]byte, 0, 4096)
	for name, f := range map[string]func() error{
		"FLOW_MOD":   from(buf, flow.Append(nil, 1)),
		"PACKET_OUT": from(buf, out.Append(nil, 1)),
		"BARRIER":    func() error { _, err := ToV13(buf, message14Barrier); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, c := range toV13Cases() {
		switch c.msg[1] {
		case of13.TypePacketIn, of13.TypeFlowRemoved, of13.TypePortStatus, openflow.TypeError:
			if n := testing.AllocsPerRun(100, func() { _, _ = ToV13(buf, c.msg) }); n > 0 {
				t.Errorf("%s: %v allocations", c.name, n)
			}
		}
	}
}

var message14Barrier = message(v14, of13.TypeBarrierReply)

func from(buf, msg []byte) func() error {
	return func() error {
		_, err := FromV13(buf, msg, v14)
		if err == nil {
			_, err = FromV13(buf, msg, v15)
		}
		return err
	}
}

func BenchmarkPacketInToV13(b *testing.B) {
	m := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: make([]byte, 60)}
	msg, buf := m.Append(nil, 1), make([]byte, 0, 256)
	msg[0] = v14
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ToV13(buf, msg); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFlowModFromV13(b *testing.B) {
	m := of13.FlowMod{BufferID: of13.NoBuffer, Match: matchTCP,
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))}
	f := from(make([]byte, 0, 512), m.Append(nil, 1))
	b.ReportAllocs()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
}
