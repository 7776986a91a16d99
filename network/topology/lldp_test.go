package topology

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
)

var testKey = []byte("a key of the test")

func TestProbeIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := app.PortOf{Switch: app.Switch(rapid.Uint64().Draw(t, "switch")),
			Port: app.Port(rapid.Uint32().Draw(t, "port"))}
		want := probe{from: from, since: rapid.Uint64().Draw(t, "since"), seq: rapid.Uint64().Draw(t, "seq")}
		frame := appendProbe(nil, testKey, app.MAC{2, 1}, want)
		frame = append(frame, make([]byte, rapid.IntRange(0, 40).Draw(t, "padding"))...)
		p, err := parseProbe(frame)
		if want.tag = p.tag; err != nil || p != want || !p.genuine(testKey) {
			t.Fatalf("probe %+v is read as %+v, %v", want, p, err)
		}
		if p.genuine([]byte("another key")) || p.genuine(nil) {
			t.Fatal("another key takes it")
		}
		i := rapid.IntRange(ethLen, len(appendProbe(nil, testKey, app.MAC{2, 1}, want))-3).Draw(t, "changed byte")
		frame[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if q, err := parseProbe(frame); err == nil && q.genuine(testKey) && q != want {
			t.Fatalf("with byte %d changed it passes as %+v", i, q)
		}
	})
}

// A frame of IEEE 802.1AB, byte for byte.
func TestProbeOnTheWire(t *testing.T) {
	frame := appendProbe(nil, testKey, app.MAC{2, 0, 0, 0, 0, 1},
		probe{from: app.PortOf{Switch: 0xab, Port: 12}, since: 4, seq: 5})
	want := "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc" +
		"\x02\x11\x0700000000000000ab" + "\x04\x03\x0712" + "\x06\x02\x00\x09" +
		"\xfe\x24\x02hf\x01\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05"
	if !bytes.HasPrefix(frame, []byte(want)) || len(frame) != len(want)+tagLen+2 {
		t.Errorf("got  %q\nwant %q, a tag and an end", frame, want)
	}
}

// frameOf is an LLDP frame of those TLVs.
func frameOf(tlvs ...[]byte) []byte {
	b := append(append(append([]byte(nil), nearestBridge[:]...), 2, 0, 0, 0, 0, 9), 0x88, 0xcc)
	return append(b, bytes.Join(tlvs, nil)...)
}

func TestOtherLLDP(t *testing.T) {
	tlv := func(kind uint16, value string) []byte { return appendTLV(nil, kind, []byte(value)) }
	chassis, port, ttl, end := tlv(1, "\x0700000000000000ab"), tlv(2, "\x0712"), tlv(3, "\x00\x09"), tlv(0, "")
	sealed := tlv(127, string(seal)+"12345678"+"12345678"+"0123456789abcdef")
	if _, err := parseProbe(frameOf(chassis, port, ttl, tlv(5, "name"), sealed, tlv(6, "text"), end)); err != nil {
		t.Errorf("a sealed frame with other TLVs: %v", err)
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"a host's": {frameOf(tlv(1, "\x04\x02\x00\x00\x00\x00\x01"), tlv(2, "\x05eth0"), ttl, tlv(5, "host"),
			end), errForeign},
		"other organisation":  {frameOf(chassis, port, ttl, tlv(127, "\x00\x12\x0f\x01abc"), end), errForeign},
		"nothing":             {nil, errMalformed},
		"no LLDP":             {make([]byte, 60), errMalformed},
		"empty":               {frameOf(), errMalformed},
		"no end":              {frameOf(chassis, port, ttl, sealed), errMalformed},
		"out of order":        {frameOf(port, chassis, ttl, sealed, end), errMalformed},
		"no port":             {frameOf(chassis, ttl, sealed, end), errMalformed},
		"ends early":          {frameOf(chassis, port, end), errMalformed},
		"two chassis":         {frameOf(chassis, port, ttl, chassis, sealed, end), errMalformed},
		"two seals":           {frameOf(chassis, port, ttl, sealed, sealed, end), errMalformed},
		"short seal":          {frameOf(chassis, port, ttl, tlv(127, string(seal)+"1234"), end), errMalformed},
		"TLV too long":        {frameOf(chassis, port, ttl, []byte{127 << 1, 200, 1, 2}), errMalformed},
		"half a TLV":          {frameOf(chassis, port, ttl, []byte{127 << 1}), errMalformed},
		"chassis of a vendor": {frameOf(tlv(1, "\x04\x02\x00\x00\x00\x00\x01"), port, ttl, sealed, end), errMalformed},
		"chassis no number":   {frameOf(tlv(1, "\x0700000000000000xx"), port, ttl, sealed, end), errMalformed},
		"port no number":      {frameOf(chassis, tlv(2, "\x07eth"), ttl, sealed, end), errMalformed},
		"port too large":      {frameOf(chassis, tlv(2, "\x074294967296"), ttl, sealed, end), errMalformed},
	} {
		if _, err := parseProbe(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

// Whatever arrives, the handler does not fail, and only counters of the view change.
func FuzzFrames(f *testing.F) {
	f.Add(appendProbe(nil, testKey, app.MAC{2}, probe{from: app.PortOf{Switch: 1, Port: 1}, since: 6, seq: 7}))
	f.Add(frameOf())
	for _, frame := range sampleFrames {
		f.Add(frame.frame)
	}
	short := arp(alice, "10.0.0.1")
	f.Add(short[:20])
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, err := parseProbe(frame)
		if err == nil && p.genuine(testKey) {
			again := appendProbe(nil, testKey, app.MAC(frame[6:12]), p)
			if q, err := parseProbe(again); err != nil || q != p {
				t.Errorf("probe %+v is %+v, %v again", p, q, err)
			}
		}
		if len(frame) > 1<<15 {
			return
		}
		w := newWorld(t)
		w.start(1, 2)
		w.advance(2 * Settle)
		w.packetIn(app.PortOf{Switch: 1, Port: 1}, frame)
		if v := w.check(); len(v.Links) != 0 || len(v.Hosts) > 1 || len(v.Switches) != 1 {
			t.Errorf("the view is %+v", v)
		}
	})
}

func udp(src, dst app.MAC, from, to string, srcPort, dstPort uint16, payload []byte) []byte {
	b := append(append(append([]byte(nil), dst[:]...), src[:]...), 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0)
	b = append(append(b, addr(from)...), addr(to)...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, srcPort), dstPort)
	return append(append(b, 0, 0, 0, 0), payload...)
}
