package vswitch

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	gplayers "github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// genMatch draws matches from few values, so that they match the packets and overlap.
func genMatch(t *rapid.T) of13.Match {
	maybe := func(name string) bool { return rapid.IntRange(0, 2).Draw(t, name) == 0 }
	mask4 := func(name string) [4]byte {
		return rapid.SampledFrom([][4]byte{{255, 255, 255, 255}, {255, 255, 255, 0}, {255, 0, 0, 255}, {128}}).Draw(t,
			name)
	}
	and := func(a, m [4]byte) (r [4]byte) {
		for i := range a {
			r[i] = a[i] & m[i]
		}
		return r
	}
	var m of13.Match
	if maybe("in_port") {
		m = m.WithInPort(of13.Port(rapid.IntRange(1, 2).Draw(t, "port")))
	}
	if maybe("eth_dst") {
		m = m.WithEthDst(of13.MAC{2, 0, 0, 0, 0, byte(rapid.IntRange(0xa, 0xb).Draw(t, "mac"))})
	}
	switch rapid.IntRange(0, 3).Draw(t, "vlan") {
	case 0:
		m = m.WithNoVLAN()
	case 1:
		m = m.WithVLAN(7)
	}
	if maybe("ip") {
		m = m.WithEthType(typeIPv4)
		if maybe("dst") {
			mask := mask4("mask")
			m = m.WithIPv4Dst(and([4]byte{10, 0, 0, byte(rapid.IntRange(1, 2).Draw(t, "ip"))}, mask), mask)
		}
		if maybe("udp") {
			m = m.WithIPProto(protoUDP)
			if maybe("udp_dst") {
				m = m.WithUint(of13.FieldUDPDst, uint64(rapid.IntRange(1, 2).Draw(t, "udp port")))
			}
		}
	}
	return m
}

func genFrame(t *rapid.T) []byte {
	b := udp(uint16(rapid.IntRange(1, 2).Draw(t, "src")), uint16(rapid.IntRange(1, 2).Draw(t, "dst")),
		rapid.IntRange(0, 20).Draw(t, "payload"))
	if rapid.Bool().Draw(t, "other way") {
		copy(b, macA[:])
		copy(b[30:34], ipA[:])
	}
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		b = append(append(append([]byte(nil), b[:12]...), 0x81, 0, 0, byte(rapid.IntRange(7, 8).Draw(t, "vid"))),
			b[12:]...)
	case 1:
		b = b[:rapid.IntRange(ethLen, len(b)).Draw(t, "cut")]
	case 2:
		b[23] = byte(rapid.IntRange(0, 140).Draw(t, "proto"))
	}
	return b
}

// model is the flow table as the specification describes it: a list with linear search.
type model struct{ entries []modelEntry }

type modelEntry struct {
	match    of13.Match
	priority uint16
	cookie   uint64
}

func (e modelEntry) matches(k *key) bool {
	for o := range e.match.All() {
		got := k.field(o.Field)
		for i := range got {
			mask := byte(0xff)
			if o.HasMask {
				mask = o.Mask[i]
			}
			if got[i]&mask != o.Value[i] {
				return false
			}
		}
	}
	return true
}

// The lookup finds a matching entry exactly if a linear search does, with the same priority, after any additions
// and deletions, also if these are undone.
func TestLookupAgreesWithLinearSearch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := New(Config{Tables: 1})
		var m model
		cookie := uint64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1, 2:
				cookie++
				mod := add(0, uint16(rapid.IntRange(0, 4).Draw(rt, "priority")), genMatch(rt), nil)
				mod.Cookie = cookie
				rehearse := rapid.Bool().Draw(rt, "rehearse")
				s.rehearsing = rehearse
				if err := s.flowMod(0, mod); err != nil {
					rt.Fatal(err)
				}
				if rehearse {
					for i := len(s.undo) - 1; i >= 0; i-- {
						s.undo[i]()
					}
					s.rehearsing, s.undo = false, nil
					continue
				}
				value, mask := compile(mod.Match)
				kept := m.entries[:0:0]
				for _, e := range m.entries {
					v, b := compile(e.match)
					if e.priority != mod.Priority || v != value || b != mask {
						kept = append(kept, e)
					}
				}
				m.entries = append(kept, modelEntry{mod.Match, mod.Priority, cookie})
			case 3:
				if len(m.entries) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(m.entries)-1).Draw(rt, "victim")
				mod := add(0, m.entries[i].priority, m.entries[i].match, nil)
				mod.Command = of13.FlowDeleteStrict
				if err := s.flowMod(0, mod); err != nil {
					rt.Fatal(err)
				}
				m.entries = append(m.entries[:i:i], m.entries[i+1:]...)
			default:
				var p packet
				p.reset(of13.Port(rapid.IntRange(1, 2).Draw(rt, "in")), genFrame(rt))
				best := -1
				byCookie := map[uint64]modelEntry{}
				for _, e := range m.entries {
					byCookie[e.cookie] = e
					if e.matches(&p.key) {
						best = max(best, int(e.priority))
					}
				}
				f := s.tables[0].lookup(&p.key)
				if f == nil && best >= 0 || f != nil && (int(f.priority) != best ||
					!byCookie[f.cookie].matches(&p.key)) {
					rt.Fatalf("lookup found %+v, linear search priority %d", f, best)
				}
			}
			if s.tables[0].count != len(m.entries) {
				rt.Fatalf("%d entries, want %d", s.tables[0].count, len(m.entries))
			}
		}
	})
}

// The parser agrees with gopacket.
func TestParserAgreesWithGopacket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := genFrame(rt)
		var k key
		l := parse(b, &k)
		p := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: false, NoCopy: true})
		if v, ok := p.Layer(gplayers.LayerTypeDot1Q).(*gplayers.Dot1Q); ok != (l.tags > 0) ||
			ok && v.VLANIdentifier|0x1000 != k.uint16(of13.FieldVLANVID) {
			rt.Fatalf("tags %d, gopacket %v", l.tags, v)
		}
		if p.ErrorLayer() != nil { // truncated: gopacket returns layers that it has not read completely
			return
		}
		if u, ok := p.Layer(gplayers.LayerTypeUDP).(*gplayers.UDP); ok &&
			(uint16(u.SrcPort) != k.uint16(of13.FieldUDPSrc) || uint16(u.DstPort) != k.uint16(of13.FieldUDPDst)) {
			rt.Fatalf("ports %d %d, gopacket %v", k.uint16(of13.FieldUDPSrc), k.uint16(of13.FieldUDPDst), u)
		}
		if ip, ok := p.Layer(gplayers.LayerTypeIPv4).(*gplayers.IPv4); ok &&
			string(ip.DstIP) != string(k.field(of13.FieldIPv4Dst)) {
			rt.Fatalf("destination %v, gopacket %v", k.field(of13.FieldIPv4Dst), ip.DstIP)
		}
	})
}

// Whatever field is set, correct checksums stay correct.
func TestSetFieldKeepsChecksums(t *testing.T) {
	fields := []of13.Field{of13.FieldEthDst, of13.FieldIPDSCP, of13.FieldIPECN, of13.FieldIPv4Src, of13.FieldIPv4Dst,
		of13.FieldUDPSrc, of13.FieldUDPDst}
	rapid.Check(t, func(rt *rapid.T) {
		var p packet
		p.reset(1, udp(1, 2, rapid.IntRange(0, 9).Draw(rt, "payload")))
		for range rapid.IntRange(1, 5).Draw(rt, "edits") {
			f := rapid.SampledFrom(fields).Draw(rt, "field")
			v := rapid.SliceOfN(rapid.Byte(), f.Size(), f.Size()).Draw(rt, "value")
			switch f {
			case of13.FieldIPDSCP:
				v[0] &= 0x3f
			case of13.FieldIPECN:
				v[0] &= 3
			}
			p.setField(f, v)
			p.refresh()
			if string(p.key.field(f)) != string(v) {
				rt.Fatalf("%v is %x, want %x", f, p.key.field(f), v)
			}
		}
		got := binary.BigEndian.Uint16(p.data[40:])
		if want := l4Sum(p.data); sum(p.data[14:34]) != 0xffff || got != want && !(got == 0xffff && want == 0) {
			rt.Fatalf("checksums are wrong: UDP %#x, want %#x", got, want)
		}
	})
}

// Whatever controllers and hosts send, the switch does not panic, and its output is valid OpenFlow.
func FuzzSwitch(f *testing.F) {
	seed := add(0, 0, nil, out(of13.PortController, of13.PortFlood)).Append(nil, 1)
	seed = groupMod(1, 0).Append(seed, 2)
	seed = groupMod(1, 0).Append(seed, 2)
	seed = (&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortTable, 0),
		Data: ping(1)}).Append(seed, 3)
	seed = (&of13.BundleAdd{Message: add(0, 1, nil, out(2)).Append(nil, 0)}).Append(seed, 4)
	seed = bundleControl(0, of13.BundleCommitRequest).Append(seed, 5)
	f.Add(seed, ping(1))
	f.Add((&of13.MultipartRequest{Part: of13.PartTableFeatures}).Append(nil, 1), udp(1, 2, 3))
	f.Fuzz(func(t *testing.T, stream, frame []byte) {
		r := newRig(t)
		for len(stream) >= openflow.HeaderLen {
			n := min(max(int(binary.BigEndian.Uint16(stream[2:])), openflow.HeaderLen), len(stream))
			r.s.Message(r.now, 1, stream[:n:n])
			stream = stream[n:]
			r.s.Frame(r.now, 1, frame)
			r.advance(time.Second)
			r.frames()
		}
		r.take(1)
	})
}

func BenchmarkFrame(b *testing.B) {
	s := New(Config{Ports: Ports(1, 4)})
	for i := range 1000 {
		m := of13.Match(nil).WithEthType(typeIPv4).WithIPProto(protoUDP).WithUint(of13.FieldUDPDst, uint64(i))
		if err := s.flowMod(0, add(0, 5, m, out(2))); err != nil {
			b.Fatal(err)
		}
	}
	frame := udp(5, 500, 20)
	b.ReportAllocs()
	for b.Loop() {
		s.Frame(0, 1, frame)
		s.Frames()
	}
}
