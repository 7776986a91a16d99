package of10

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"pgregory.net/rapid"
)

func genBytes(t *rapid.T, label string, least, most int) []byte {
	return rapid.SliceOfN(rapid.Byte(), least, most).Draw(t, label)
}

// genMatch draws a match of 1.0 whose port exists in 1.0.
func genMatch(t *rapid.T) match {
	m := match(genBytes(t, "match", matchLen, matchLen))
	be.PutUint16(m[4:], rapid.SampledFrom([]uint16{1, portMax, 0xfffe}).Draw(t, "in_port"))
	be.PutUint16(m[etherTypeAt:], rapid.SampledFrom([]uint16{typeIPv4, typeARP, 0x86dd}).Draw(t, "type"))
	m[ipProtoAt] = rapid.SampledFrom([]uint8{protoICMP, protoTCP, protoUDP, 99}).Draw(t, "proto")
	return m
}

// genActions draws a list of actions that can be translated to 1.3 and back without loss.
func genActions(t *rapid.T) []byte {
	var list []byte
	for range rapid.IntRange(0, 6).Draw(t, "actions") {
		switch typ := rapid.Uint16Range(0, 11).Draw(t, "action"); typ {
		case actionOutput:
			list = append(list, output(rapid.Uint16Max(portMax).Draw(t, "port"), 128)...)
		case actionSetVLANVID:
			list = append(list, action(typ, rapid.Uint16Max(0xfff).Draw(t, "vid"), uint16(0))...)
		case actionSetVLANPCP:
			list = append(list, action(typ, rapid.Uint8Max(7).Draw(t, "pcp"), u8(0, 0, 0))...)
		case actionStripVLAN:
			list = append(list, action(typ, uint32(0))...)
		case actionSetDLSrc, actionSetDLDst:
			list = append(list, action(typ, genBytes(t, "mac", 6, 6), make([]byte, 6))...)
		case 6, 7:
			list = append(list, action(typ, rapid.Uint32().Draw(t, "address"))...)
		case 8:
			list = append(list, action(typ, rapid.Uint8().Draw(t, "tos")&^3, u8(0, 0, 0))...)
		case 9, 10:
			list = append(list, action(typ, rapid.Uint16().Draw(t, "port"), uint16(0))...)
		default:
			list = append(list, action(actionVendor, uint32(0x2320), make([]byte, 8))...)
		}
	}
	return list
}

// A 1.0 match that was translated to 1.3 and back has the same meaning: a second translation gives the same fields.
// A 1.3 switch accepts it.
func TestMatchThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := genMatch(t).toV13(nil)
		if len(x) > matchRoom {
			t.Fatalf("%d bytes of fields", len(x))
		}
		if err := x.Validate(); err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		back, err := matchFromV13(nil, x, nil, 0)
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		if again := match(back).toV13(nil); !bytes.Equal(x, again) {
			t.Fatalf("%v became %v", x, again)
		}
	})
}

func TestActionsThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMatch(t)
		be.PutUint32(m, m.wildcards()&^(wildEtherType|wildIPProto))
		be.PutUint16(m[etherTypeAt:], typeIPv4)
		m[ipProtoAt] = rapid.SampledFrom([]uint8{protoTCP, protoUDP}).Draw(t, "proto")
		a := append(genActions(t), enqueue(3, 4)...)
		x, err := actionsToV13(nil, m, a, 0, len(a))
		if err != nil {
			t.Fatal(err)
		}
		back, err := actionsFromV13(nil, x, m.tagged(), nil, 0)
		if err != nil || !bytes.Equal(a, back) {
			t.Fatalf("%x became %x, %v", a, back, err)
		}
	})
}

// Every prefix of IPv4 addresses survives, from none to all bits.
func TestPrefixes(t *testing.T) {
	for n := range uint32(33) {
		x := of13.Match(nil).WithEthType(typeIPv4).WithUintMasked(of13.FieldIPv4Src, 0xffffffff, prefixMask(n)).
			WithUintMasked(of13.FieldIPv4Dst, 0xffffffff, prefixMask(32-n))
		m, err := matchFromV13(nil, x, nil, 0)
		if err != nil || !bytes.Equal(match(m).toV13(nil), x) {
			t.Errorf("%d bits: %v became %x, %v", n, x, m, err)
		}
	}
}

// checkTranslation checks the translation of msg, which was appended to "before": complete messages of a version
// with the xid of msg, or a typed error and no bytes.
func checkTranslation(t *testing.T, msg, out []byte, err error, sound func(m []byte) error) {
	t.Helper()
	rest, ok := bytes.CutPrefix(out, []byte("before"))
	if !ok {
		t.Fatalf("dst became %x", out)
	}
	if err != nil {
		var e *openflow.Error
		if !errors.As(err, &e) || len(rest) > 0 || e.Offset > len(msg) {
			t.Fatalf("%x: error %v, and %x", msg, err, rest)
		}
		return
	}
	for len(rest) > 0 {
		m, after, err := openflow.Next(rest)
		if err != nil || m == nil || openflow.XID(m) != openflow.XID(msg) {
			t.Fatalf("%x became %x: %v", msg, rest, err)
		}
		if err := sound(m); err != nil {
			t.Fatalf("%x became %x: %v", msg, m, err)
		}
		rest = after
	}
}

func sound13(m []byte) error {
	_, err := of13.Decode(m)
	return err
}

// FuzzToV13: no input causes a panic. Accepted input becomes valid messages of 1.3 with the xid of the input, and
// refused input appends nothing.
func FuzzToV13(f *testing.F) {
	for _, c := range toV13Cases() {
		f.Add(c.msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		// so that the fuzzer changes what follows the header
		if len(msg) >= openflow.HeaderLen && len(msg) <= openflow.MaxMessageLen {
			msg[0] = openflow.Version10
			openflow.SetLength(msg)
		}
		for _, translate := range []func(dst, msg []byte) ([]byte, error){ToV13, PortsToV13} {
			out, err := translate([]byte("before"), msg)
			checkTranslation(t, msg, out, err, sound13)
		}
	})
}

// sound10 reports what is wrong with a 1.0 message to a switch.
func sound10(m []byte) error {
	actions := func(off, end int) error {
		for off < end {
			_, n, err := checkAction(m, off, end)
			if err != nil {
				return err
			}
			off += n
		}
		return nil
	}
	if err := whole(m); err != nil {
		return err
	}
	switch m[1] {
	case of13.TypeFlowMod:
		if err := atLeast(m, 72); err != nil {
			return err
		}
		return actions(72, len(m))
	case of13.TypePacketOut:
		if err := atLeast(m, 16); err != nil {
			return err
		}
		end := 16 + int(be.Uint16(m[14:]))
		if err := atLeast(m, end); err != nil {
			return err
		}
		return actions(16, end)
	case TypePortMod:
		return exactly(m, 32)
	case TypeStatsRequest:
		return exactly(m, statsLen+[]int{0, 44, 44, 0, 8, 8}[be.Uint16(m[8:])])
	case openflow.TypeExperimenter:
		return atLeast(m, 12)
	case of13.TypeSetConfig:
		return exactly(m, 12)
	case openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return nil
	}
	return exactly(m, openflow.HeaderLen)
}

// FuzzFromV13: the same in the other direction.
func FuzzFromV13(f *testing.F) {
	for _, c := range fromV13Cases() {
		f.Add(c.in.Append(nil, testXID))
	}
	for _, c := range toV13Cases() { // echoes and others
		f.Add(c.want.Append(nil, testXID))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) >= openflow.HeaderLen && len(msg) <= openflow.MaxMessageLen {
			msg[0] = of13.Version
			openflow.SetLength(msg)
		}
		out, err := FromV13([]byte("before"), msg)
		checkTranslation(t, msg, out, err, sound10)
	})
}

func hotPath() (in, out, flow []byte) {
	return message(of13.TypePacketIn, uint32(7), uint16(64), uint16(1), uint16(0), make([]byte, 64)),
		(&of13.PacketOut{BufferID: 7, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}).Append(nil, 1),
		learningFlow().Append(nil, 1)
}

func TestTranslationDoesNotAllocate(t *testing.T) {
	in, out, flow := hotPath()
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

func BenchmarkTranslation(b *testing.B) {
	in, out, flow := hotPath()
	dst := make([]byte, 0, 1024)
	for _, c := range []struct {
		name string
		f    func(dst, msg []byte) ([]byte, error)
		msg  []byte
	}{{"packet-in", ToV13, in}, {"packet-out", FromV13, out}, {"flow-mod", FromV13, flow}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.f(dst, c.msg)
			}
		})
	}
}
