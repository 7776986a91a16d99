package of13

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRoundTrip: every sample decodes to what was encoded, and is encoded to the same bytes again.
func TestRoundTrip(t *testing.T) {
	for name, m := range samples() {
		t.Run(name, func(t *testing.T) {
			wire := m.Append([]byte("before"), 0x01020304)
			if string(wire[:6]) != "before" {
				t.Fatal("Append does not append")
			}
			wire = wire[6:]
			got, err := Decode(wire)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got, sameBytes); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if again := got.Append(nil, 0x01020304); string(again) != string(wire) {
				t.Errorf("encoded again:\n%x\nnot\n%x", again, wire)
			}
		})
	}
}
