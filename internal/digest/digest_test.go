package digest

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func message(typ uint8, xid uint32, body string) []byte {
	msg := append(openflow.AppendHeader(nil, openflow.Version13, typ, xid), body...)
	openflow.SetLength(msg)
	return msg
}

func TestWhatCounts(t *testing.T) {
	const in, reply = of13.TypePacketIn, of13.TypeBarrierReply
	for _, tc := range []struct {
		name  string
		a, b  []byte
		equal bool
	}{
		{"xid", message(in, 1, "bufbody"), message(in, 2, "bufbody"), true},
		{"buffer of a packet-in", message(in, 1, "0000body"), message(in, 1, "1234body"), true},
		{"there only", message(reply, 1, "0000body"), message(reply, 1, "1234body"), false},
		{"body", message(in, 1, "0000body"), message(in, 1, "0000boby"), false},
		{"type", message(reply, 1, "body"), message(reply+1, 1, "body"), false},
		{"length", message(reply, 1, ""), message(reply, 1, "\x00"), false},
		{"version", message(reply, 1, "x"), append([]byte{1}, message(reply, 1, "x")[1:]...), false},
		{"a packet-in without a body", message(in, 1, ""), message(in, 9, ""), true},
		{"half a header", []byte{4, 10, 0}, []byte{4, 10, 1}, false},
		{"no header, and one of zeros, which are no messages", nil, make([]byte, 8), true},
	} {
		if got := Of(tc.a) == Of(tc.b); got != tc.equal {
			t.Errorf("%s: digests of %x and %x are equal: %v", tc.name, tc.a, tc.b, got)
		}
	}
}

// The log of one release is read by the next.
func TestStaysWhatItIs(t *testing.T) {
	for _, tc := range []struct {
		msg  []byte
		want uint64
	}{
		{nil, 0xef46db3751d8e999},
		{message(of13.TypeBarrierReply, 7, ""), 0x3cb6b3ef2dd40931},
		{message(of13.TypePacketIn, 7, "0000 and what a packet-in has"), 0xc236a4e178f670ef},
	} {
		if got := Of(tc.msg); got != tc.want {
			t.Errorf("%q: %#x, and it was %#x", tc.msg, got, tc.want)
		}
	}
}

func TestAnyMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "a"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "b")
		if Of(a) != Of(bytes.Clone(a)) {
			t.Fatal("two digests of one message")
		}
		if equal := Of(a) == Of(b); equal != bytes.Equal(counts(a), counts(b)) {
			t.Fatalf("digests of %x and %x are equal: %v", a, b, equal)
		}
	})
}

// counts is what of a message is to count.
func counts(msg []byte) []byte {
	switch {
	case len(msg) < 8:
		return append(make([]byte, 4), msg...) // as if it were the body of a header of zeros
	case msg[1] == of13.TypePacketIn && len(msg) >= 12:
		return append(bytes.Clone(msg[:4]), msg[12:]...)
	}
	return append(bytes.Clone(msg[:4]), msg[8:]...)
}

func TestAllocatesNothing(t *testing.T) {
	msg := message(of13.TypePacketIn, 1, string(make([]byte, 100)))
	if n := testing.AllocsPerRun(100, func() { Of(msg) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOf(b *testing.B) {
	msg := message(of13.TypePacketIn, 1, string(make([]byte, 102)))
	for b.Loop() {
		Of(msg)
	}
}
