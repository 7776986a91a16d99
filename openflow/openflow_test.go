package openflow

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// message returns a message of this length.
func message(t uint8, xid uint32, length int) []byte {
	msg := append(AppendHeader(nil, Version13, t, xid), make([]byte, length-HeaderLen)...)
	SetLength(msg)
	return msg
}

func TestHeader(t *testing.T) {
	msg := message(TypeEchoRequest, 0xdeadbeef, 300)
	want := Header{Version13, TypeEchoRequest, 300, 0xdeadbeef}
	if h, err := ParseHeader(msg); err != nil || h != want {
		t.Errorf("%+v, %v; want %+v", h, err, want)
	}
	if h, err := ParseHeader(msg[:HeaderLen]); err != nil || h != want {
		t.Errorf("of the header alone: %+v, %v", h, err)
	}
	SetXID(msg, 7)
	if XID(msg) != 7 {
		t.Errorf("xid %d after setting 7", XID(msg))
	}
	if s := DatapathID(0xab).String(); s != "00000000000000ab" {
		t.Errorf("datapath id %s", s)
	}
}

func TestHeaderRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		b      []byte
		kind   Kind
		offset int
	}{
		{"nothing", nil, Truncated, 0},
		{"seven bytes", make([]byte, 7), Truncated, 7},
		{"length 0", make([]byte, 8), BadLength, 2},
		{"length 7", []byte{4, 2, 0, 7, 0, 0, 0, 0}, BadLength, 2},
	} {
		_, err := ParseHeader(c.b)
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Offset != c.offset {
			t.Errorf("%s: %v; want %s at %d", c.name, err, c.kind, c.offset)
		}
	}
}

// TestNextSplits: however a stream of messages is divided into reads, the same messages are returned.
func TestNextSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want [][]byte
		for i, n := range rapid.SliceOfN(rapid.IntRange(HeaderLen, 200), 0, 10).Draw(t, "lengths") {
			want = append(want, message(TypeEchoRequest, uint32(i), n))
			stream = append(stream, want[i]...)
		}
		var buf []byte
		got := 0
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			buf, stream = append(buf, stream[:n]...), stream[n:]
			for {
				msg, rest, err := Next(buf)
				if err != nil {
					t.Fatal(err)
				}
				if msg == nil {
					if !bytes.Equal(rest, buf) {
						t.Fatal("an incomplete message is not handed back whole")
					}
					break
				}
				if got == len(want) || !bytes.Equal(msg, want[got]) {
					t.Fatalf("message %d is %x", got, msg)
				}
				got, buf = got+1, rest
			}
		}
		if got != len(want) || len(buf) != 0 {
			t.Fatalf("%d of %d messages, %d bytes left", got, len(want), len(buf))
		}
	})
}

// TestNextDoesNotShareItsEnd: appending to a message must not overwrite the next one.
func TestNextDoesNotShareItsEnd(t *testing.T) {
	buf := append(message(TypeHello, 1, 8), message(TypeHello, 2, 8)...)
	msg, rest, _ := Next(buf)
	_ = append(msg, 0xff)
	if rest[0] != Version13 {
		t.Error("append to the first message changed the second")
	}
}

func TestNextRefuses(t *testing.T) {
	msg, rest, err := Next([]byte{4, 2, 0, 7, 0, 0, 0, 0, 1})
	var e *Error
	if !errors.As(err, &e) || e.Kind != BadLength || msg != nil || len(rest) != 9 {
		t.Errorf("%x, %x, %v", msg, rest, err)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(message(TypeHello, 1, 8))
	f.Add(append(message(TypeEchoReply, 1, 12), 4, 2, 0))
	f.Add([]byte{4, 2, 0, 7, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, buf []byte) {
		for rest := buf; ; {
			msg, next, err := Next(rest)
			if err != nil || msg == nil {
				if !bytes.Equal(next, rest) {
					t.Fatalf("%x lost from %x", next, rest)
				}
				return
			}
			if len(msg) < HeaderLen || len(msg)+len(next) != len(rest) {
				t.Fatalf("%x and %x from %x", msg, next, rest)
			}
			rest = next
		}
	})
}

func TestErrorText(t *testing.T) {
	e := &Error{Version13, 10, "PACKET_IN", 26, BadLength, "match of 4 bytes, 2 left"}
	for _, part := range []string{"PACKET_IN", "version 4", "type 10", "bad length", "byte 26",
		"match of 4 bytes, 2 left"} {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("%q is missing in %q", part, e)
		}
	}
	for k, want := range map[Kind]string{0: "invalid kind", Truncated: "truncated", BadValue: "bad value",
		Unknown: "unknown", Unsupported: "unsupported", 99: "unsupported"} {
		if k.String() != want {
			t.Errorf("kind %d is %q", k, k)
		}
	}
}
