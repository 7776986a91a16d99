package of13

import (
	"testing"
)

// hot are the frequent messages.
var hot = map[string]Message{
	"PacketIn":  &PacketIn{NoBuffer, uint16(len(frame)), PacketInAction, 0, 1, Match(nil).WithInPort(3), frame},
	"PacketOut": &PacketOut{NoBuffer, 3, Actions(nil).Output(1, 0), frame},
	"FlowMod": &FlowMod{Priority: 10, BufferID: NoBuffer, OutPort: PortAny, OutGroup: GroupAny,
		Match: tcpMatch(), Instructions: Instructions(nil).Apply(Actions(nil).Output(2, 0))},
	"EchoRequest":    &EchoRequest{[]byte("12345678")},
	"EchoReply":      &EchoReply{[]byte("12345678")},
	"BarrierRequest": &BarrierRequest{},
	"BarrierReply":   &BarrierReply{},
}

// hotDecoders decode into a reused struct, as a session does.
var hotDecoders = map[string]func(msg []byte) error{
	"PacketIn":       new(PacketIn).Decode,
	"PacketOut":      new(PacketOut).Decode,
	"FlowMod":        new(FlowMod).Decode,
	"EchoRequest":    new(EchoRequest).Decode,
	"EchoReply":      new(EchoReply).Decode,
	"BarrierRequest": new(BarrierRequest).Decode,
	"BarrierReply":   new(BarrierReply).Decode,
}

func TestHotMessagesDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	for name, m := range hot {
		wire := m.Append(nil, 1)
		if n := testing.AllocsPerRun(100, func() { buf = m.Append(buf[:0], 1) }); n != 0 {
			t.Errorf("%s.Append allocates %v times", name, n)
		}
		decode := hotDecoders[name]
		if n := testing.AllocsPerRun(100, func() {
			if err := decode(wire); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s.Decode allocates %v times", name, n)
		}
	}
}

// TestHotPartsDoNotAllocate: reading a decoded message, and building one into an existing slice, does not allocate.
func TestHotPartsDoNotAllocate(t *testing.T) {
	match, actions, instructions, buckets := tcpMatch(), everyAction(), everyInstruction(), sampleBuckets()
	scratch := make([]byte, 0, 1024)
	var sum uint64
	for name, f := range map[string]func(){
		"Match.All": func() {
			for o := range match.All() {
				sum += o.Uint64() + uint64(o.Field)
			}
		},
		"Match.Get": func() {
			if p, ok := match.InPort(); ok {
				sum += uint64(p)
			}
		},
		"Match.Validate": func() {
			if match.Validate() != nil {
				sum++
			}
		},
		"Actions.All": func() {
			for a := range actions.All() {
				sum += uint64(a.Port) + a.OXM.Uint64()
			}
		},
		"Instructions.All": func() {
			for in := range instructions.All() {
				for a := range in.Actions.All() {
					sum += uint64(a.Port)
				}
			}
		},
		"Buckets.All": func() {
			for b := range buckets.All() {
				sum += uint64(b.WatchPort) + uint64(len(b.Actions))
			}
		},
		"building": func() {
			m := Match(scratch[:0]).WithInPort(3).WithEthDst(macA).WithEthType(0x800).WithIPv4Dst([4]byte{10},
				[4]byte{255})
			a := Actions(scratch[256:256]).SetField(Exact(FieldEthSrc, macB[:])).SetUint(FieldVLANVID, 0x1001).Output(1,
				0)
			in := Instructions(scratch[512:512]).Apply(a).Goto(1)
			sum += uint64(len(m) + len(in))
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, m := range hot {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				buf = m.Append(buf[:0], 1)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, decode := range hotDecoders {
		b.Run(name, func(b *testing.B) {
			wire := hot[name].Append(nil, 1)
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLearningSwitch decodes a packet-in, and builds and encodes the flow-mod and the packet-out that answer it.
func BenchmarkLearningSwitch(b *testing.B) {
	wire := hot["PacketIn"].Append(nil, 1)
	scratch, out := make([]byte, 0, 512), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		var in PacketIn
		if err := in.Decode(wire); err != nil {
			b.Fatal(err)
		}
		port, _ := in.Match.InPort()
		actions := Actions(scratch[:0]).Output(port+1, 0)
		flow := FlowMod{Priority: 1, IdleTimeout: 30, BufferID: NoBuffer, OutPort: PortAny, OutGroup: GroupAny,
			Match: Match(scratch[64:64]).WithInPort(port).WithEthDst(MAC(in.Data[0:6])).WithEthSrc(
				MAC(in.Data[6:12])),
			Instructions: Instructions(scratch[256:256]).Apply(actions)}
		packet := PacketOut{BufferID: in.BufferID, InPort: port, Actions: actions, Data: in.Data}
		out = flow.Append(out[:0], 2)
		out = packet.Append(out, 3)
	}
}
