package handshake

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func hello(v uint8, offers ...uint8) []byte {
	h := of13.Hello{Version: v, Versions: of13.VersionsOf(offers...)}
	return h.Append(nil, 1)
}

func features(id openflow.DatapathID) []byte {
	f := of13.FeaturesReply{DatapathID: id}
	return f.Append(nil, featuresXID)
}

// ports is a part of a PORT_DESC reply with n ports.
func ports(n int, flags uint16) []byte {
	p := of13.MultipartReply{Part: of13.PartPortDesc, Flags: flags, Body: make([]byte, 64*n)}
	return p.Append(nil, portsXID)
}

func run(msgs ...[]byte) (h *Handshake, out []byte, err error) {
	h = &Handshake{}
	for _, m := range msgs {
		if out, err = h.Input(out, m); err != nil {
			break
		}
	}
	return h, out, err
}

func TestNegotiation(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hello []byte
		want  uint8
	}{
		{"1.0 without bitmap", hello(1), 1},
		{"1.3 without bitmap", hello(4), 4},
		{"1.4 without bitmap", hello(5), 4},
		{"1.5 that offers 1.0 and 1.3", hello(6, 1, 4, 6), 4},
		{"1.5 that offers 1.0", hello(6, 1, 6), 6},
		{"1.4 and 1.5", hello(6, 5, 6), 6},
		{"1.4 only", hello(5, 5), 5},
		{"1.0 and 1.1", hello(4, 1, 2), 1},
		{"1.1", hello(2), 0},
		{"1.2 and 1.6", hello(7, 3, 7), 0},
	} {
		h, out, err := run(tc.hello)
		if h.Version != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("%s: version %d, %v", tc.name, h.Version, err)
		}
		var ours of13.Hello
		first, rest, _ := openflow.Next(out)
		if err := ours.Decode(first); err != nil {
			t.Errorf("%s: the answer begins with %x: %v", tc.name, first, err)
		}
		if v, _ := ours.Versions.Highest(); v < tc.want || tc.want == openflow.Version13 && v > tc.want ||
			v != ours.Version {
			t.Errorf("%s: the answer offers %#x as version %d", tc.name, uint32(ours.Versions), ours.Version)
		}
		if tc.want == 0 && (len(rest) == 0 || rest[1] != openflow.TypeError) {
			t.Errorf("%s: the switch is not told: %x", tc.name, rest)
		}
	}
}

// A peer that waits for our HELLO gets one, once.
func TestPeerThatWaits(t *testing.T) {
	h := &Handshake{}
	var out []byte
	for range 5 {
		out = h.Tick(out)
	}
	var ours of13.Hello
	if err := ours.Decode(out); err != nil || ours.Versions != usual {
		t.Fatalf("%x: %v", out, err)
	}
	out, err := h.Input(nil, hello(6, 4, 6))
	if err != nil || h.Version != 4 || len(out) != 8 || out[1] != of13.TypeFeaturesRequest {
		t.Fatalf("version %d, %x, %v", h.Version, out, err)
	}
	for range 5 {
		if out := h.Tick(nil); len(out) > 0 {
			t.Fatalf("after HELLO: %x", out)
		}
	}
	late := &Handshake{}
	late.Tick(late.Tick(nil))
	if _, err := late.Input(nil, hello(5, 5)); err == nil {
		t.Error("1.4 is spoken and was not offered")
	}
}

// The answers of a later version are kept as they are, and may have ports of any size.
func TestLaterVersions(t *testing.T) {
	for _, v := range []uint8{openflow.Version14, openflow.Version15} {
		f := features(7)
		f[0] = v
		part := func(n int, flags uint16) []byte {
			body := bytes.Repeat(append([]byte{0, 0, 0, 1, 0, 40, 0, 0}, make([]byte, 32)...), n)
			p := append(openflow.AppendHeader(nil, v, of13.TypeMultipartReply, portsXID), 0, byte(of13.PartPortDesc),
				byte(flags>>8), byte(flags), 0, 0, 0, 0)
			p = append(p, body...)
			openflow.SetLength(p)
			return p
		}
		h, out, err := run(hello(v, v), f, part(2, of13.FlagMore), part(3, 0))
		if err != nil || !h.Done || h.Version != v || h.Datapath != 7 || !bytes.Equal(h.Features, f) ||
			len(h.Ports) != 16+5*40 || h.Ports[0] != v {
			t.Fatalf("%d: %+v, %v", v, h, err)
		}
		ask := out[len(out)-16:] // of 1.4; of 1.5 its end
		if v == openflow.Version15 {
			ask = out[len(out)-24:]
		}
		if ask[0] != v || ask[1] != of13.TypeMultipartRequest || openflow.XID(ask) != portsXID {
			t.Errorf("%d: ports are asked for by %x", v, ask)
		}
		if _, _, err := run(hello(v, v), f, part(1, 0)[:20]); err == nil {
			t.Errorf("%d: half a port is taken for one", v)
		}
	}
}

func TestPortsInParts(t *testing.T) {
	h, _, err := run(hello(4), features(7), ports(3, of13.FlagMore), ports(2, of13.FlagMore), ports(1, 0))
	if err != nil || !h.Done || h.Datapath != 7 {
		t.Fatalf("%+v, %v", h, err)
	}
	var all of13.MultipartReply
	if err := all.Decode(h.Ports); err != nil || len(all.Body) != 6*64 || all.Flags != 0 {
		t.Fatalf("%d bytes, flags %d, %v", len(all.Body), all.Flags, err)
	}
}

func TestTooManyPortsAreNone(t *testing.T) {
	h, _, err := run(hello(4), features(7), ports(900, of13.FlagMore), ports(900, of13.FlagMore), ports(1, 0))
	if err != nil || !h.Done || h.Ports != nil {
		t.Fatalf("done %v, %d bytes, %v", h.Done, len(h.Ports), err)
	}
}

func TestSwitchWithoutPortDescription(t *testing.T) {
	e := of13.Error{ErrType: of13.ErrTypeBadRequest, Data: make([]byte, 8)}
	h, _, err := run(hello(4), features(7), e.Append(nil, portsXID))
	if err != nil || !h.Done || h.Ports != nil {
		t.Fatalf("%+v, %v", h, err)
	}
}

func Test10NeedsTheFeaturesOnly(t *testing.T) {
	msg := append(openflow.AppendHeader(nil, openflow.Version10, of13.TypeFeaturesReply, 99), make([]byte, 24)...)
	openflow.SetLength(msg)
	msg[15] = 7
	h, out, err := run(hello(1), msg)
	if err != nil || !h.Done || h.Datapath != 7 || !bytes.Equal(h.Features, msg) {
		t.Fatalf("%+v, %v", h, err)
	}
	if want := Bare(nil, 1, of13.TypeFeaturesRequest, featuresXID); !bytes.HasSuffix(out, want) ||
		len(out) != 16+len(want) {
		t.Fatalf("asked %x", out)
	}
}

func TestEchoAndEarlyEvents(t *testing.T) {
	p := of13.PacketIn{BufferID: of13.NoBuffer}
	early := p.Append(nil, 0)
	echo := of13.EchoRequest{Data: []byte("x")}
	h, out, err := run(hello(4), echo.Append(nil, 9), early, features(7), early, ports(0, 0))
	if err != nil || !h.Done || !bytes.Equal(h.Early, append(bytes.Clone(early), early...)) {
		t.Fatalf("%+v, %v", h, err)
	}
	if reply := out[16+8 : 16+17]; reply[1] != openflow.TypeEchoReply || openflow.XID(reply) != 9 || reply[8] != 'x' {
		t.Fatalf("%x", out)
	}
}

func TestRestart(t *testing.T) {
	h, _, err := run(hello(4), features(7), ports(3, 0))
	if err != nil {
		t.Fatal(err)
	}
	out := h.Restart(nil)
	if h.Done || len(out) != 8 {
		t.Fatalf("%x", out)
	}
	for _, m := range [][]byte{ports(3, 0), features(7), ports(4, 0)} { // the first is late
		if _, err := h.Input(nil, m); err != nil {
			t.Fatal(err)
		}
	}
	if !h.Done || len(h.Ports) != 16+4*64 {
		t.Fatalf("done %v, %d bytes", h.Done, len(h.Ports))
	}
}

func TestRefusals(t *testing.T) {
	flood := of13.PacketIn{BufferID: of13.NoBuffer, Data: make([]byte, 60000)}
	failed := of13.Error{ErrType: of13.ErrTypeHelloFailed, Data: []byte("no")}
	many := [][]byte{hello(4)}
	for range 20 {
		many = append(many, flood.Append(nil, 0))
	}
	for _, tc := range []struct {
		fails string
		msgs  [][]byte
	}{
		{"no OpenFlow HELLO", [][]byte{features(7)}},
		{"error type 0", [][]byte{hello(4), failed.Append(nil, 1)}},
		{"version 1", [][]byte{hello(4), Bare(nil, 1, 2, 1)}},
		{"bad length", [][]byte{hello(4), append(Bare(nil, 4, of13.TypeFeaturesReply, 1)[:2],
			append([]byte{0, 36, 0, 0, 0, 1}, make([]byte, 28)...)...)}},
		{"has not answered", many},
	} {
		if _, _, err := run(tc.msgs...); err == nil || !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("error %v, want %q in it", err, tc.fails)
		}
	}
}
