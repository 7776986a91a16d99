package of13

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// FuzzDecode decodes arbitrary bytes.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.Append(nil, 1))
	}
	for _, wire := range captured(f) {
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) { checkAny(t, wire) })
}

// fuzzBody is FuzzDecode for one type, with a correct header, so that the fuzzer reaches the body.
func fuzzBody(f *testing.F, typ uint8) {
	for _, m := range samples() {
		if m.Type() == typ {
			f.Add(m.Append(nil, 1)[openflow.HeaderLen:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		body = body[:min(len(body), openflow.MaxMessageLen-openflow.HeaderLen)]
		wire := append(openflow.AppendHeader(nil, Version, typ, 1), body...)
		openflow.SetLength(wire)
		checkAny(t, wire)
	})
}

func FuzzHello(f *testing.F)                 { fuzzBody(f, TypeHello) }
func FuzzError(f *testing.F)                 { fuzzBody(f, TypeError) }
func FuzzEchoRequest(f *testing.F)           { fuzzBody(f, TypeEchoRequest) }
func FuzzEchoReply(f *testing.F)             { fuzzBody(f, TypeEchoReply) }
func FuzzExperimenter(f *testing.F)          { fuzzBody(f, TypeExperimenter) }
func FuzzFeaturesRequest(f *testing.F)       { fuzzBody(f, TypeFeaturesRequest) }
func FuzzFeaturesReply(f *testing.F)         { fuzzBody(f, TypeFeaturesReply) }
func FuzzGetConfigRequest(f *testing.F)      { fuzzBody(f, TypeGetConfigRequest) }
func FuzzGetConfigReply(f *testing.F)        { fuzzBody(f, TypeGetConfigReply) }
func FuzzSetConfig(f *testing.F)             { fuzzBody(f, TypeSetConfig) }
func FuzzPacketIn(f *testing.F)              { fuzzBody(f, TypePacketIn) }
func FuzzFlowRemoved(f *testing.F)           { fuzzBody(f, TypeFlowRemoved) }
func FuzzPortStatus(f *testing.F)            { fuzzBody(f, TypePortStatus) }
func FuzzPacketOut(f *testing.F)             { fuzzBody(f, TypePacketOut) }
func FuzzFlowMod(f *testing.F)               { fuzzBody(f, TypeFlowMod) }
func FuzzGroupMod(f *testing.F)              { fuzzBody(f, TypeGroupMod) }
func FuzzPortMod(f *testing.F)               { fuzzBody(f, TypePortMod) }
func FuzzTableMod(f *testing.F)              { fuzzBody(f, TypeTableMod) }
func FuzzMultipartRequest(f *testing.F)      { fuzzBody(f, TypeMultipartRequest) }
func FuzzMultipartReply(f *testing.F)        { fuzzBody(f, TypeMultipartReply) }
func FuzzBarrierRequest(f *testing.F)        { fuzzBody(f, TypeBarrierRequest) }
func FuzzBarrierReply(f *testing.F)          { fuzzBody(f, TypeBarrierReply) }
func FuzzQueueGetConfigRequest(f *testing.F) { fuzzBody(f, TypeQueueGetConfigRequest) }
func FuzzQueueGetConfigReply(f *testing.F)   { fuzzBody(f, TypeQueueGetConfigReply) }
func FuzzRoleRequest(f *testing.F)           { fuzzBody(f, TypeRoleRequest) }
func FuzzRoleReply(f *testing.F)             { fuzzBody(f, TypeRoleReply) }
func FuzzGetAsyncRequest(f *testing.F)       { fuzzBody(f, TypeGetAsyncRequest) }
func FuzzGetAsyncReply(f *testing.F)         { fuzzBody(f, TypeGetAsyncReply) }
func FuzzSetAsync(f *testing.F)              { fuzzBody(f, TypeSetAsync) }
func FuzzMeterMod(f *testing.F)              { fuzzBody(f, TypeMeterMod) }

// TestDamaged changes every byte of every sample to a few values, and truncates and extends every sample, with and
// without a correct length field.
func TestDamaged(t *testing.T) {
	for name, m := range samples() {
		wire := m.Append(nil, 1)
		for i := range min(len(wire), 300) {
			for _, v := range []byte{0, 1, 7, 0x80, 0xff, wire[i] + 1, wire[i] - 1, wire[i] ^ 8} {
				damaged := append([]byte(nil), wire...)
				damaged[i] = v
				checkAny(t, damaged)
			}
			cut := append([]byte(nil), wire[:i]...)
			if _, err := Decode(cut); err == nil {
				t.Fatalf("%s: decodes from %d of its %d bytes", name, i, len(wire))
			}
			checkAny(t, cut)
			if i >= openflow.HeaderLen {
				openflow.SetLength(cut)
				checkAny(t, cut)
			}
		}
		long := append(append([]byte(nil), wire...), 0, 0, 0, 0, 0, 0, 0, 0)
		checkAny(t, long)
		openflow.SetLength(long)
		checkAny(t, long)
	}
}
