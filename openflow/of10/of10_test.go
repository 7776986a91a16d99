package of10

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/holdfast-sdn/holdfast/openflow"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, xid := anyMessage(t), u32(t, "xid")
		prefix := []byte("prefix")
		msg := want.Append(slices.Clone(prefix), xid)
		if !bytes.HasPrefix(msg, prefix) {
			t.Fatal("Append changed what was there")
		}
		msg = msg[len(prefix):]
		h, err := openflow.ParseHeader(msg)
		if err != nil || h != (openflow.Header{Version: 1, Type: want.Type(), Length: uint16(len(msg)), XID: xid}) {
			t.Fatalf("header %+v, %v, of %d bytes", h, err, len(msg))
		}
		got, err := Decode(msg)
		if err != nil {
			t.Fatalf("%x: %v", msg, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestStatsBodiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, reply := genStatsRequest(t), genStatsReply(t)
		var body []byte
		if r, ok := request.Flow(); ok {
			body = r.Append(body)
		}
		if r, ok := request.Port(); ok {
			body = r.Append(body)
		}
		if r, ok := request.Queue(); ok {
			body = r.Append(body)
		}
		if !bytes.Equal(body, request.Body) {
			t.Fatalf("%v request: read %x, wrote %x", request.StatsType, request.Body, body)
		}
		body = nil
		if d, ok := reply.Desc(); ok {
			body = d.Append(body)
		}
		if a, ok := reply.Aggregate(); ok {
			body = a.Append(body)
		}
		for e := range reply.Flows() {
			body = e.Append(body)
		}
		for e := range reply.Tables() {
			body = e.Append(body)
		}
		for e := range reply.Ports() {
			body = e.Append(body)
		}
		for e := range reply.Queues() {
			body = e.Append(body)
		}
		if !bytes.Equal(body, reply.Body) {
			t.Fatalf("%v reply: read %x, wrote %x", reply.StatsType, reply.Body, body)
		}
	})
}

func TestActionsReadBack(t *testing.T) {
	src := [6]byte{1, 2, 3, 4, 5, 6}
	a := Actions(nil).SetDLSrc(src).SetVLANPCP(5).SetNWTOS(0xb8).SetNWDst(0x0a000001).SetTPDst(80).
		Enqueue(7, 9).Output(PortController, 128).StripVLAN().Vendor(0x2320, []byte{1})
	var got []Action
	for act := range a.All() {
		act.Raw = nil
		got = append(got, act)
	}
	want := []Action{
		{Type: ActionSetDLSrc, DL: src}, {Type: ActionSetVLANPCP, Value: 5}, {Type: ActionSetNWTOS, Value: 0xb8},
		{Type: ActionSetNWDst, Value: 0x0a000001}, {Type: ActionSetTPDst, Value: 80},
		{Type: ActionEnqueue, Port: 7, Queue: 9},
		{Type: ActionOutput, Port: PortController, MaxLen: 128}, {Type: ActionStripVLAN},
		{Type: ActionVendor, Vendor: 0x2320},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWildcardPrefixes(t *testing.T) {
	for bits := range 33 {
		w := WildAll.WithNWSrcBits(bits).WithNWDstBits(32 - bits)
		if w.NWSrcBits() != bits || w.NWDstBits() != 32-bits {
			t.Errorf("%d bits: read back %d and %d", bits, w.NWSrcBits(), w.NWDstBits())
		}
	}
	if WildAll.NWSrcBits() != 0 { // the counter is 63, more than 32
		t.Error("a counter over 32 must mean that nothing counts")
	}
}

// Every proper prefix of a message fails, and says so with our error and a useful place.
func TestTruncationIsAnError(t *testing.T) {
	for _, m := range examples() {
		msg := m.Append(nil, 1)
		for n := range msg {
			var e *openflow.Error
			if _, err := Decode(msg[:n]); !errors.As(err, &e) {
				t.Fatalf("%s cut to %d bytes: %v", TypeName(m.Type()), n, err)
			} else if e.Offset > n {
				t.Errorf("%s cut to %d bytes: offset %d", TypeName(m.Type()), n, e.Offset)
			}
		}
	}
}

func TestBadMessages(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		kind      openflow.Kind
		offset    int
	}{
		{"empty", "", openflow.Truncated, 0},
		{"other version", "0402000800000001", openflow.Unknown, 0},
		{"unknown type", "0163000800000001", openflow.Unknown, 1},
		{"queue config", "0114000c0000000100010000", openflow.Unknown, 1},
		{"length too long", "0102000900000001", openflow.BadLength, 2},
		{"trailing bytes", "01120009000000010000", openflow.BadLength, 2},
		{"barrier with a body", "011200090000000100", openflow.BadLength, 8},
		{"actions longer than the packet-out", "010d001000000001ffffffffffff0008", openflow.BadLength, 14},
		{"action of zero bytes", "010d001800000001ffffffffffff00080000000000010000", openflow.BadLength, 18},
		{"action beyond the list", "010d001800000001ffffffffffff00080000001000010000", openflow.Truncated, 18},
		{"unknown action", "010d001800000001ffffffffffff0008000c000800010000", openflow.Unknown, 16},
		{"half an action", "010d001400000001ffffffffffff000400000008", openflow.Truncated, 16},
		{"unknown statistics", "0110000c0000000100070000", openflow.Unknown, 8},
		{"half a port", "0106002800000001000000000000000100000100010000000000000000000000" + "0001000000000000",
			openflow.Truncated, 32},
		{"flow entry of zero bytes", "0111006400000001000100000000" + string(bytes.Repeat([]byte("00"), 86)),
			openflow.BadLength, 12},
	} {
		msg, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(c.name, err)
		}
		_, err = Decode(msg)
		var e *openflow.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Offset != c.offset {
			t.Errorf("%s: got %v, want %v at byte %d", c.name, err, c.kind, c.offset)
		}
	}
}

func TestErrorNames(t *testing.T) {
	for _, c := range []struct {
		e    Error
		want string
	}{
		{Error{ErrType: ErrBadRequest, Code: CodeBadVendor}, "BAD_REQUEST/BAD_VENDOR"},
		{Error{ErrType: ErrFlowModFailed, Code: 1}, "FLOW_MOD_FAILED/OVERLAP"},
		{Error{ErrType: ErrPortModFailed, Code: 9}, "PORT_MOD_FAILED/code 9"},
		{Error{ErrType: 77, Code: 1}, "type 77/code 1"},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	packet := make([]byte, 64)
	in := (&PacketIn{BufferID: 7, TotalLen: 64, InPort: 1, Data: packet}).Append(nil, 1)
	out := (&PacketOut{BufferID: 7, InPort: 1, Actions: Actions(nil).Output(PortFlood, 0)}).Append(nil, 1)
	flow := (&FlowMod{Actions: Actions(nil).Output(2, 0), BufferID: NoBuffer, OutPort: PortNone}).Append(nil, 1)
	barrier, echo := (&BarrierRequest{}).Append(nil, 1), (&EchoRequest{packet}).Append(nil, 1)
	dst := make([]byte, 0, 1024)
	allocs := testing.AllocsPerRun(100, func() {
		var pi PacketIn
		var po PacketOut
		var fm FlowMod
		var b BarrierRequest
		var e EchoRequest
		if pi.Decode(in) != nil || po.Decode(out) != nil || fm.Decode(flow) != nil || b.Decode(barrier) != nil ||
			e.Decode(echo) != nil {
			t.Error("valid message refused")
		}
		ports := 0
		for a := range fm.Actions.All() {
			ports += int(a.Port)
		}
		dst = e.Append(b.Append(fm.Append(po.Append(pi.Append(dst[:0], 1), 2), 3), 4), uint32(ports))
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkFlowModRoundTrip(b *testing.B) {
	msg := (&FlowMod{Actions: Actions(nil).Output(2, 0), BufferID: NoBuffer, OutPort: PortNone}).Append(nil, 1)
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		var m FlowMod
		if err := m.Decode(msg); err != nil {
			b.Fatal(err)
		}
		dst = m.Append(dst[:0], 1)
	}
}
