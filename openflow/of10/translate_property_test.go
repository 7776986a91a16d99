package of10

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

// A 1.0 match that went to 1.3 and back means the same: going there again gives the same
// fields; and a 1.3 switch would accept it.
func TestMatchThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMatch(t)
		m.DLType = rapid.SampledFrom([]uint16{0x0800, 0x0806, 0x86dd}).Draw(t, "type")
		m.NWProto = rapid.SampledFrom([]uint8{1, 6, 17, 99}).Draw(t, "proto")
		m.InPort = rapid.SampledFrom([]Port{1, PortMax, PortLocal}).Draw(t, "in")
		x := m.toV13(nil)
		if len(x) > matchRoom {
			t.Fatalf("%d bytes of fields", len(x))
		}
		if err := x.Validate(); err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		back, err := matchFromV13(x, nil, 0)
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		if again := back.toV13(nil); !bytes.Equal(x, again) {
			t.Fatalf("%v became %v", x, again)
		}
	})
}

func TestActionsThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMatch(t)
		m.Wildcards &^= WildDLType | WildNWProto
		m.DLType, m.NWProto = dlTypeIPv4, rapid.SampledFrom([]uint8{nwProtoTCP, nwProtoUDP}).Draw(t, "proto")
		var a Actions
		for act := range genActions(t).All() {
			switch act.Type {
			case ActionEnqueue: // only as the last
			case ActionOutput:
				a = a.Output(act.Port&0xff, act.MaxLen)
			case ActionSetVLANVID:
				a = a.SetVLANVID(uint16(act.Value) & 0xfff)
			case ActionSetVLANPCP:
				a = a.SetVLANPCP(uint8(act.Value) & 7)
			case ActionSetNWTOS:
				a = a.SetNWTOS(uint8(act.Value) &^ 3)
			default:
				a = append(a, act.Raw...)
			}
		}
		a = a.Enqueue(3, 4)
		x, err := a.toV13(nil, &m, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		back, err := actionsFromV13(nil, x, nil, 0)
		if err != nil || !bytes.Equal(a, back) {
			t.Fatalf("%x became %x, %v", a, back, err)
		}
	})
}

// Whatever a switch says becomes valid 1.3 with the same xid, or an error of ours.
func TestToV13IsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msg := anyMessage(t).Append(nil, testXID)
		out, err := ToV13(nil, msg)
		var e *openflow.Error
		if err != nil && (!errors.As(err, &e) || e.Kind != openflow.Unsupported || len(out) != 0) {
			t.Fatalf("%x: %v, %d bytes", msg, err, len(out))
		}
		split(t, out)
	})
}

func FuzzToV13(f *testing.F) {
	for _, m := range examples() {
		f.Add(m.Append(nil, testXID))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, translate := range []func(dst, msg []byte) ([]byte, error){ToV13, PortsToV13} {
			if out, err := translate(nil, msg); err == nil && openflow.XID(msg) == testXID {
				split(t, out)
			}
		}
	})
}

func FuzzFromV13(f *testing.F) {
	for _, m := range examples() { // those that go to 1.3 and are known to a controller, too
		if out, err := ToV13(nil, m.Append(nil, testXID)); err == nil {
			f.Add(out)
		}
	}
	f.Add((&of13.FlowMod{Match: of13.Match(nil).WithInPort(1).WithVLAN(3).WithEthType(0x800).WithIPv4Src([4]byte{10},
		[4]byte{255}),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID,
			0x1001).SetQueue(1).Output(1, 0))}).Append(nil, 1))
	f.Add((&of13.PacketOut{BufferID: 1, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortFlood, 0),
		Data: []byte{1}}).Append(nil, 1))
	f.Add((&of13.PortMod{Port: 1}).Append(nil, 1))
	f.Add((&of13.MultipartRequest{Part: of13.PartFlow,
		Body: of13.FlowStatsRequest{OutPort: of13.PortAny, OutGroup: of13.GroupAny}.AppendTo(nil)}).Append(nil, 1))
	f.Fuzz(func(t *testing.T, msg []byte) {
		out, err := FromV13(nil, msg)
		if err != nil {
			return
		}
		if _, err := Decode(out); err != nil {
			t.Fatalf("%x became %x: %v", msg, out, err)
		}
	})
}

func TestTranslationDoesNotAllocate(t *testing.T) {
	in := (&PacketIn{BufferID: 7, TotalLen: 64, InPort: 1, Data: make([]byte, 64)}).Append(nil, 1)
	out := (&of13.PacketOut{BufferID: 7, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}).Append(nil,
		1)
	flow := learningFlow().Append(nil, 1)
	dst := make([]byte, 0, 1024)
	for name, f := range map[string]func() error{
		"packet-in":  func() error { _, err := ToV13(dst, in); return err },
		"packet-out": func() error { _, err := FromV13(dst, out); return err },
		"flow-mod":   func() error { _, err := FromV13(dst, flow); return err },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func learningFlow() *of13.FlowMod {
	return &of13.FlowMod{Priority: 1, BufferID: 7, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Match:        of13.Match(nil).WithInPort(1).WithEthDst(macA).WithEthSrc(macB),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))}
}

func BenchmarkTranslation(b *testing.B) {
	in := (&PacketIn{BufferID: 7, TotalLen: 64, InPort: 1, Data: make([]byte, 64)}).Append(nil, 1)
	flow := learningFlow().Append(nil, 1)
	dst := make([]byte, 0, 1024)
	b.Run("packet-in", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = ToV13(dst, in)
		}
	})
	b.Run("flow-mod", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = FromV13(dst, flow)
		}
	})
}
