package of10

import (
	"bytes"
	"testing"
)

// fuzz checks one decoder: no panic on any input, and what it accepts survives encoding:
// the second encoding equals the first (padding and ignored bits may differ from the input).
func fuzz(f *testing.F, types ...uint8) {
	for _, typ := range types {
		for seed := range 8 {
			f.Add(example(typ, seed).Append(nil, uint32(seed)))
		}
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) >= 2 { // let the fuzzer spend its time behind the header
			msg[0] = 1
			if len(types) == 1 {
				msg[1] = types[0]
			}
		}
		m, err := Decode(msg)
		if err != nil {
			return
		}
		if m, ok := m.(*StatsReply); ok {
			walk(m)
		}
		first := m.Append(nil, 9)
		again, err := Decode(first)
		if err != nil {
			t.Fatalf("%x was accepted, its encoding %x is not: %v", msg, first, err)
		}
		if second := again.Append(nil, 9); !bytes.Equal(first, second) {
			t.Fatalf("%x became %x and then %x", msg, first, second)
		}
	})
}

func walk(m *StatsReply) {
	for f := range m.Flows() {
		for range f.Actions.All() {
		}
	}
	for range m.Tables() {
	}
	for range m.Ports() {
	}
	for range m.Queues() {
	}
}

func FuzzDecode(f *testing.F) {
	all := make([]uint8, 0, lastType+1)
	for t := range lastType + 1 {
		all = append(all, t)
	}
	fuzz(f, all...)
}

func FuzzHello(f *testing.F)            { fuzz(f, TypeHello) }
func FuzzError(f *testing.F)            { fuzz(f, TypeError) }
func FuzzEchoRequest(f *testing.F)      { fuzz(f, TypeEchoRequest) }
func FuzzEchoReply(f *testing.F)        { fuzz(f, TypeEchoReply) }
func FuzzVendor(f *testing.F)           { fuzz(f, TypeVendor) }
func FuzzFeaturesRequest(f *testing.F)  { fuzz(f, TypeFeaturesRequest) }
func FuzzFeaturesReply(f *testing.F)    { fuzz(f, TypeFeaturesReply) }
func FuzzGetConfigRequest(f *testing.F) { fuzz(f, TypeGetConfigRequest) }
func FuzzGetConfigReply(f *testing.F)   { fuzz(f, TypeGetConfigReply) }
func FuzzSetConfig(f *testing.F)        { fuzz(f, TypeSetConfig) }
func FuzzPacketIn(f *testing.F)         { fuzz(f, TypePacketIn) }
func FuzzFlowRemoved(f *testing.F)      { fuzz(f, TypeFlowRemoved) }
func FuzzPortStatus(f *testing.F)       { fuzz(f, TypePortStatus) }
func FuzzPacketOut(f *testing.F)        { fuzz(f, TypePacketOut) }
func FuzzFlowMod(f *testing.F)          { fuzz(f, TypeFlowMod) }
func FuzzPortMod(f *testing.F)          { fuzz(f, TypePortMod) }
func FuzzStatsRequest(f *testing.F)     { fuzz(f, TypeStatsRequest) }
func FuzzStatsReply(f *testing.F)       { fuzz(f, TypeStatsReply) }
func FuzzBarrierRequest(f *testing.F)   { fuzz(f, TypeBarrierRequest) }
func FuzzBarrierReply(f *testing.F)     { fuzz(f, TypeBarrierReply) }
