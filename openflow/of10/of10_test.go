package of10

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
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

func TestToV13(t *testing.T) {
	for _, c := range toV13Cases() {
		out, err := ToV13([]byte("before"), c.msg)
		if err != nil || !bytes.HasPrefix(out, []byte("before")) {
			t.Errorf("%s: %x, %v", c.name, out, err)
			continue
		}
		if d := cmp.Diff([]of13.Message{c.want}, split(t, out[len("before"):]), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	out, err := PortsToV13(nil, features10(port10(0xfffe), port10(2)))
	if err != nil {
		t.Fatal(err)
	}
	want := reply13(of13.PartPortDesc, 0, port13(2).AppendTo(port13(of13.PortLocal).AppendTo(nil)))
	if d := cmp.Diff([]of13.Message{want}, split(t, out)); d != "" {
		t.Error(d)
	}
}

func TestErrorsToV13(t *testing.T) {
	for _, c := range []struct{ typ, code, wantType, wantCode uint16 }{
		{2, 4, of13.ErrTypeBadAction, of13.BadActionBadOutPort},
		{3, 0, of13.ErrTypeFlowModFailed, of13.FlowModFailedTableFull},
		{3, 3, of13.ErrTypeFlowModFailed, of13.FlowModFailedBadTimeout},
		{3, 5, of13.ErrTypeFlowModFailed, of13.FlowModFailedUnknown},
		{3, 99, of13.ErrTypeFlowModFailed, of13.FlowModFailedUnknown},
		{4, 1, of13.ErrTypePortModFailed, of13.PortModFailedBadHwAddr},
		{5, 2, of13.ErrTypeQueueOpFailed, of13.QueueOpFailedEPerm},
	} {
		out, err := ToV13(nil, message(1, c.typ, c.code, data))
		if err != nil {
			t.Errorf("%d/%d: %v", c.typ, c.code, err)
			continue
		}
		want := []of13.Message{&of13.Error{ErrType: c.wantType, Code: c.wantCode, Data: data}}
		if d := cmp.Diff(want, split(t, out)); d != "" {
			t.Errorf("%d/%d: %s", c.typ, c.code, d)
		}
	}
}

func TestFromV13(t *testing.T) {
	for _, c := range fromV13Cases() {
		out, err := FromV13([]byte("before"), c.in.Append(nil, testXID))
		if want := append([]byte("before"), c.want...); err != nil || !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n%x, want\n%x", c.name, err, out, want)
		}
	}
}

// Entries are longer in 1.3, so a full 1.0 message needs several.
func TestLongRepliesAreSplit(t *testing.T) {
	var ports [][]byte
	for i := range 1300 {
		ports = append(ports, port10(uint16(i+1)))
	}
	var flows []byte
	for i := range 600 {
		flows = append(flows, flowStats10(matchTCP, uint16(i), output(1, 0))...)
	}
	out, err := PortsToV13(nil, features10(ports...))
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
	if out, err = ToV13(nil, stats10(1, 0, flows)); err != nil {
		t.Fatal(err)
	}
	next = 0
	for _, m := range split(t, out) {
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

func TestUnsupported(t *testing.T) {
	flow := func(edit func(*of13.FlowMod)) []byte {
		m := of13.FlowMod{BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
		edit(&m)
		return m.Append(nil, 1)
	}
	match := func(m of13.Match) []byte { return flow(func(f *of13.FlowMod) { f.Match = m }) }
	apply := func(a of13.Actions) []byte {
		return flow(func(f *of13.FlowMod) { f.Instructions = f.Instructions.Apply(a) })
	}
	vlan := of13.Match(nil).WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000)
	push := of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1001)
	packet := func(data []byte, a of13.Actions) []byte {
		return (&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: a, Data: data}).Append(nil, 1)
	}
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
		{"there is a VLAN tag", flow(func(f *of13.FlowMod) {
			f.Match, f.Instructions = f.Match.WithVLAN(10), f.Instructions.Apply(push)
		})},
		{"there is a VLAN tag", flow(func(f *of13.FlowMod) {
			f.Match, f.Instructions = vlan.WithUint(of13.FieldVLANPCP, 3), f.Instructions.Apply(push)
		})},
		{"there is a VLAN tag", packet(append(make([]byte, 12), 0x81, 0, 0, 1, 8, 0), push)},
		{"there is a VLAN tag", packet(nil, append(push, push...))},
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
	for name, msg := range map[string][]byte{"HELLO": message(0), "VENDOR": message(4, uint32(1)),
		"unknown error": message(1, uint16(0xb0c2), uint16(0)), "unknown type": message(99),
		"packet-in": message(10, make([]byte, openflow.MaxMessageLen-8)), "queues": message(20, uint32(0)),
		"vendor statistics": stats10(0xffff, 0, uint64(0)),
		"transport port":    stats10(1, 0, flowStats10(matchAll, 1, action(10, uint16(1), uint16(0)))),
		"queue":             stats10(1, 0, flowStats10(matchAll, 1, enqueue(1, 1), output(2, 0)))} {
		out, err := ToV13([]byte("before"), msg)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != openflow.Unsupported || string(out) != "before" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

// A tag can be pushed where the last one was popped.
func TestPushAfterPop(t *testing.T) {
	m := of13.FlowMod{BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Match: of13.Match(nil).WithVLAN(10), Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).PopVLAN().
			PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1001))}
	if out, err := FromV13(nil, m.Append(nil, 1)); err != nil || len(out) != 72+16 {
		t.Fatalf("%x, %v", out, err)
	}
}

func TestBadMessages(t *testing.T) {
	flow := func(actions ...any) []byte { return stats10(1, 0, flowStats10(matchAll, 1, actions...)) }
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name   string
		msg    []byte
		kind   openflow.Kind
		offset int
	}{
		{"empty", nil, openflow.Truncated, 0},
		{"other version", unhex("0402000800000001"), openflow.Unknown, 0},
		{"length too long", unhex("0102000900000001"), openflow.BadLength, 2},
		{"trailing bytes", unhex("01130009000000010000"), openflow.BadLength, 2},
		{"barrier with a body", message(TypeBarrierReply, u8(0)), openflow.BadLength, 8},
		{"short packet-in", message(10, uint64(0)), openflow.Truncated, 16},
		{"short flow-removed", message(11, []byte(matchAll)), openflow.Truncated, 48},
		{"long port-status", message(12, uint64(0), port10(1), u8(0)), openflow.BadLength, 64},
		{"short error", message(1, uint16(1)), openflow.Truncated, 10},
		{"short vendor", message(4, uint16(1)), openflow.Truncated, 10},
		{"half a port", features10(port10(1)[:8]), openflow.Truncated, 32},
		{"short features", message(6, uint64(1)), openflow.Truncated, 16},
		{"statistics without a type", message(TypeStatsReply), openflow.Truncated, 8},
		{"long aggregate", stats10(2, 0, make([]byte, 25)), openflow.BadLength, 36},
		{"half counters of a port", stats10(4, 0, make([]byte, 50)), openflow.Truncated, 12},
		{"flow entry of zero bytes", stats10(1, 0, make([]byte, 88)), openflow.BadLength, 12},
		{"half a flow entry", stats10(1, 0, make([]byte, 80)), openflow.Truncated, 12},
		{"action of zero bytes", flow(uint16(0), uint16(0), uint32(0)), openflow.BadLength, 102},
		{"action beyond the list", flow(uint16(0), uint16(16), uint32(0)), openflow.Truncated, 102},
		{"long output", flow(action(0, uint32(0), uint64(0))), openflow.BadLength, 102},
		{"unknown action", flow(uint16(12), uint16(8), uint32(0)), openflow.Unknown, 100},
		{"half an action", flow(uint32(8)), openflow.Truncated, 100},
	} {
		out, err := ToV13([]byte("before"), c.msg)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Offset != c.offset || string(out) != "before" {
			t.Errorf("%s: got %v, want %v at byte %d", c.name, err, c.kind, c.offset)
		}
	}
	if _, err := PortsToV13(nil, message(2)); err == nil {
		t.Error("the ports of an ECHO_REQUEST")
	}
}

// TestTruncationIsAnError: every proper prefix of a message fails with our error at a place within it.
func TestTruncationIsAnError(t *testing.T) {
	for _, c := range toV13Cases() {
		for n := range c.msg {
			var e *openflow.Error
			if _, err := ToV13(nil, c.msg[:n]); !errors.As(err, &e) || e.Offset > n {
				t.Fatalf("%s cut to %d bytes: %v", c.name, n, err)
			}
		}
	}
}
