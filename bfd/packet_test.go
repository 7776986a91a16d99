package bfd

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

func genPacket(t *rapid.T) Packet {
	micros := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Uint32().Draw(t, "µs")) * time.Microsecond
	})
	return Packet{
		Diag: Diag(rapid.IntRange(0, 31).Draw(t, "diag")), State: State(rapid.IntRange(0, 3).Draw(t, "state")),
		Poll: rapid.Bool().Draw(t, "poll"), Final: rapid.Bool().Draw(t, "final"),
		Independent: rapid.Bool().Draw(t, "independent"), Demand: rapid.Bool().Draw(t, "demand"),
		Multiplier:      rapid.Uint8Min(1).Draw(t, "multiplier"),
		MyDiscriminator: rapid.Uint32Min(1).Draw(t, "mine"), YourDiscriminator: rapid.Uint32Min(1).Draw(t, "yours"),
		DesiredMinTx: micros.Draw(t, "tx"), RequiredMinRx: micros.Draw(t, "rx"),
		RequiredMinEchoRx: micros.Draw(t, "echo"),
	}
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genPacket(t)
		frame := AppendFrame(nil, [6]byte{2, 0, 0, 0, 0, 1}, want)
		if len(frame) != FrameLen {
			t.Fatalf("a frame of %d bytes, not %d", len(frame), FrameLen)
		}
		got, err := DecodeFrame(append(frame, 0, 0)) // a trailer, as short frames have
		if err != nil || got != want {
			t.Fatalf("error %v\n%s", err, cmp.Diff(want, got))
		}
	})
}

// Our packets are decoded by an independent decoder.
func TestFrameAsOthersReadIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genPacket(t)
		p := gopacket.NewPacket(AppendFrame(nil, [6]byte{2, 0, 0, 0, 0, 1}, want), layers.LayerTypeEthernet,
			gopacket.Default)
		ip, _ := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		got, _ := p.Layer(layers.LayerTypeBFD).(*layers.BFD)
		if p.ErrorLayer() != nil || ip == nil || got == nil {
			t.Fatalf("error %v in\n%s", p.ErrorLayer(), p.Dump())
		}
		err, checksum := ip.VerifyChecksum()
		if err != nil || !checksum.Valid || ip.TTL != 255 {
			t.Fatalf("error %v, checksum %+v, time to live %d", err, checksum, ip.TTL)
		}
		read := Packet{
			Diag: Diag(got.Diagnostic), State: State(got.State), Poll: got.Poll, Final: got.Final,
			Independent: got.ControlPlaneIndependent, Demand: got.Demand, Multiplier: uint8(got.DetectMultiplier),
			MyDiscriminator: uint32(got.MyDiscriminator), YourDiscriminator: uint32(got.YourDiscriminator),
			DesiredMinTx:      time.Duration(got.DesiredMinTxInterval) * time.Microsecond,
			RequiredMinRx:     time.Duration(got.RequiredMinRxInterval) * time.Microsecond,
			RequiredMinEchoRx: time.Duration(got.RequiredMinEchoRxInterval) * time.Microsecond,
		}
		if got.Version != Version || read != want {
			t.Fatalf("version %d\n%s", got.Version, cmp.Diff(want, read))
		}
	})
}

// The rules of 6.8.6 that need no session, one by one.
func TestDecodeDrops(t *testing.T) {
	good := Packet{State: Up, Multiplier: 3, MyDiscriminator: 1, YourDiscriminator: 2}.Append(nil)
	if _, err := Decode(good); err != nil {
		t.Fatalf("a good packet: %v", err)
	}
	for _, c := range []struct {
		what   string
		change func(b []byte) []byte
		ok     bool
	}{
		{"empty", func(b []byte) []byte { return nil }, false},
		{"a byte short", func(b []byte) []byte { return b[:PacketLen-1] }, false},
		{"version 0", func(b []byte) []byte { b[0] &= 0x1f; return b }, false},
		{"version 2", func(b []byte) []byte { b[0] = 2 << 5; return b }, false},
		{"length below the least", func(b []byte) []byte { b[3] = PacketLen - 1; return b }, false},
		{"length beyond the payload", func(b []byte) []byte { b[3] = PacketLen + 1; return b }, false},
		{"longer payload", func(b []byte) []byte { return append(b, 0) }, true},
		{"longer length", func(b []byte) []byte { b[3]++; return append(b, 0) }, true},
		{"multiplier 0", func(b []byte) []byte { b[2] = 0; return b }, false},
		{"multipoint", func(b []byte) []byte { b[1] |= 1; return b }, false},
		{"my discriminator 0", func(b []byte) []byte { b[7] = 0; return b }, false},
		{"up without your discriminator", func(b []byte) []byte { b[11] = 0; return b }, false},
		{"init without your discriminator", func(b []byte) []byte { b[1], b[11] = byte(Init)<<6, 0; return b }, false},
		{"down without your discriminator", func(b []byte) []byte { b[1], b[11] = byte(Down)<<6, 0; return b }, true},
		{"admin down without your discriminator", func(b []byte) []byte { b[1], b[11] = 0, 0; return b }, true},
		{"authenticated", func(b []byte) []byte { b[1] |= bitAuth; return b }, false},
	} {
		_, err := Decode(c.change(slices.Clone(good)))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", c.what, err)
		}
	}
}

func TestDecodeFrame(t *testing.T) {
	good := AppendFrame(nil, [6]byte{2}, Packet{State: Down, Multiplier: 3, MyDiscriminator: 1})
	fixIP := func(b []byte) []byte {
		b[24], b[25] = 0, 0
		s := ^sum(0, b[14:34])
		b[24], b[25] = byte(s>>8), byte(s)
		return b
	}
	withUDPSum := func(b []byte) []byte {
		s := ^sum(uint32(sum(17+32, b[26:34])), b[34:])
		b[40], b[41] = byte(s>>8), byte(s)
		return b
	}
	for _, c := range []struct {
		what   string
		change func(b []byte) []byte
		want   error
	}{
		{"as it is", func(b []byte) []byte { return b }, nil},
		{"another destination", func(b []byte) []byte { b[0] = 2; return b }, nil},
		{"checksum of UDP", withUDPSum, nil},
		{"wrong checksum of UDP", func(b []byte) []byte { b = withUDPSum(b); b[60]++; return b }, ErrInvalid},
		{"wrong checksum of IP", func(b []byte) []byte { b[15]++; return b }, ErrInvalid},
		{"from another link", func(b []byte) []byte { b[22] = 254; return fixIP(b) }, ErrInvalid},
		{"UDP longer than IP", func(b []byte) []byte { b[39]++; return b }, ErrInvalid},
		{"UDP shorter than itself", func(b []byte) []byte { b[39] = 7; return b }, ErrInvalid},
		{"no room for a packet", func(b []byte) []byte { b[39] = 8; return b }, ErrInvalid},
		{"echo port", func(b []byte) []byte { b[37]++; return b }, ErrOther},
		{"TCP", func(b []byte) []byte { b[23] = 6; return fixIP(b) }, ErrOther},
		{"a fragment", func(b []byte) []byte { b[20] = 0x20; return fixIP(b) }, ErrOther},
		{"IPv6", func(b []byte) []byte { b[12], b[13] = 0x86, 0xdd; return b }, ErrOther},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, ErrOther},
		{"LLDP", func(b []byte) []byte { return []byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc") },
			ErrOther},
		{"nothing", func(b []byte) []byte { return nil }, ErrOther},
	} {
		if _, err := DecodeFrame(c.change(slices.Clone(good))); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, not %v", c.what, err, c.want)
		}
	}
}

func FuzzDecodeFrame(f *testing.F) {
	good := AppendFrame(nil, [6]byte{2}, Packet{State: Up, Multiplier: 3, MyDiscriminator: 1, YourDiscriminator: 2})
	f.Add(good)
	f.Add(good[:40])
	f.Add(append(slices.Clone(good), 1, 2, 3))
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, err := DecodeFrame(frame)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && err != ErrOther {
				t.Fatalf("an error without a type: %v", err)
			}
			return
		}
		again, err := Decode(p.Append(nil))
		if err != nil || again != p {
			t.Fatalf("%+v comes back as %+v, error %v", p, again, err)
		}
		if frame := AppendFrame(nil, [6]byte{2}, p); !bytes.Equal(frame[ethLen+ipLen+udpLen:], p.Append(nil)) {
			t.Fatalf("%x does not end in its packet", frame)
		}
	})
}

func TestInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ rtt, floor, want time.Duration }{
		{0, ms, ms},
		{-ms, ms, ms},
		// the paper's testbed: below 0.5 ms, "thus allowing a BFD transmit interval of 1 ms"
		{400 * time.Microsecond, ms, ms},
		{2 * ms, ms, 5 * ms},
		{6 * ms, ms, 15 * ms},
		{6 * ms, 20 * ms, 20 * ms},
		{1 << 62, ms, MaxInterval},
	} {
		if got := Interval(c.rtt, c.floor); got != c.want && !(c.want == MaxInterval && MaxInterval-got < time.Second) {
			t.Errorf("RTT %v, floor %v: %v, not %v", c.rtt, c.floor, got, c.want)
		}
	}
}
