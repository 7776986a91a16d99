package packet

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

var (
	v4  = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.1.2")}
	v6  = [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:1::2")}
	all = [][2]netip.Addr{v4, v6}
)

// write returns a packet of gopacket, with its checksums.
func write(t testing.TB, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	how := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, how, parts...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read decodes a packet with gopacket, and checks its checksums.
func read(t testing.TB, frame []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("%x: %v", frame, e.Error())
	}
	if icmp, is := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); is {
		if err := icmp.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
	}
	err, wrong := p.VerifyChecksums()
	if err != nil || len(wrong) > 0 {
		t.Fatalf("%x: %v, wrong checksums: %v", frame, err, wrong)
	}
	return p
}

func ether(kind layers.EthernetType) *layers.Ethernet {
	src, dst := mac(1), mac(2)
	return &layers.Ethernet{SrcMAC: src[:], DstMAC: dst[:], EthernetType: kind}
}

// ping is an echo request from the first address to the second.
func ping(t testing.TB, between [2]netip.Addr, ttl byte, data []byte) []byte {
	t.Helper()
	from, to := between[0].AsSlice(), between[1].AsSlice()
	if between[0].Is4() {
		return write(t, ether(layers.EthernetTypeIPv4), &layers.IPv4{Version: 4, TTL: ttl, SrcIP: from, DstIP: to,
			Protocol: layers.IPProtocolICMPv4}, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 7, Seq: 9},
			gopacket.Payload(data))
	}
	ip := &layers.IPv6{Version: 6, HopLimit: ttl, SrcIP: from, DstIP: to, NextHeader: layers.IPProtocolICMPv6}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return write(t, ether(layers.EthernetTypeIPv6), ip, icmp, &layers.ICMPv6Echo{Identifier: 7, SeqNumber: 9},
		gopacket.Payload(data))
}

// udp is a datagram of IPv4.
func udp(t testing.TB, to netip.Addr, change func(*layers.IPv4)) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 5, SrcIP: v4[0].AsSlice(), DstIP: to.AsSlice(), Protocol: layers.IPProtocolUDP}
	if change != nil {
		change(ip)
	}
	u := &layers.UDP{SrcPort: 1, DstPort: 2}
	if err := u.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return write(t, ether(layers.EthernetTypeIPv4), ip, u, gopacket.Payload("datagram"))
}

// What an independent implementation writes is read, and it reads the answers, with right checksums.
func TestEcho(t *testing.T) {
	for _, between := range all {
		for _, data := range []string{"", "odd", "even", string(make([]byte, 1400))} {
			frame := append(ping(t, between, 1, []byte(data)), 0, 0, 0) // padding of Ethernet
			p, ok := ParseIP(frame)
			if !ok || p.Src != mac(1) || p.Dst != mac(2) || p.From != between[0] || p.To != between[1] || p.TTL != 1 ||
				!p.Whole || p.Fragment || len(p.Payload) != 8+len(data) {
				t.Fatalf("%v %q: %+v, %v", between, data, p, ok)
			}
			answer := p.Echo()
			reply := read(t, answer)
			back, _ := ParseIP(answer)
			if back.From != p.To || back.To != p.From || back.Src != p.Dst || back.Dst != p.Src || back.TTL != startTTL ||
				string(back.Payload[4:]) != string(p.Payload[4:]) {
				t.Errorf("%v %q: the reply is %v", between, data, reply)
			}
			if back.Echo() != nil {
				t.Errorf("%v: a reply has a reply", between)
			}
			end := etherLen + len(p.packet)
			cut, _ := ParseIP(frame[:end-1])
			frame[end-1] ^= 1
			if wrong, _ := ParseIP(frame); cut.Whole || cut.Echo() != nil || wrong.Echo() != nil {
				t.Errorf("%v: a request that is cut off, or damaged, has a reply", between)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, between := range all {
		for e := TimeExceeded; e <= PortUnreachable; e++ {
			p, _ := ParseIP(ping(t, between, 1, make([]byte, 1400)))
			frame := p.Error(e, between[1])
			read(t, frame)
			back, ok := ParseIP(frame)
			want := errorTypes[e].v4
			if between[0].Is6() {
				want = errorTypes[e].v6
			}
			if !ok || back.Dst != p.Src || back.From != between[1] || back.To != p.From || [2]byte(back.Payload) != want ||
				string(back.Payload[8:]) != string(p.packet[:quoted]) || len(frame) > 576+etherLen {
				t.Errorf("%v %d: %+v", between, e, back)
			}
			if back.Error(e, between[0]) != nil {
				t.Errorf("%v: an error has an error", between)
			}
			if p.Error(e, all[0][0]) != nil && between[0].Is6() {
				t.Error("an error of IPv4 about IPv6")
			}
		}
	}
	for name, frame := range map[string][]byte{
		"a later fragment": udp(t, v4[1], func(ip *layers.IPv4) { ip.FragOffset = 10 }),
		"a multicast":      udp(t, netip.MustParseAddr("224.0.0.1"), nil),
		"no source":        udp(t, v4[1], func(ip *layers.IPv4) { ip.SrcIP = make([]byte, 4) }),
	} {
		if p, ok := ParseIP(frame); !ok || p.Error(TimeExceeded, v4[1]) != nil {
			t.Errorf("%s (read: %v) has an error", name, ok)
		}
	}
	if p, _ := ParseIP(udp(t, v4[1], nil)); p.Error(PortUnreachable, v4[1]) == nil {
		t.Error("a datagram has no error")
	}
}

func TestNeighbour(t *testing.T) {
	for _, between := range all {
		frame := Ask(mac(1), between[0], between[1])
		read(t, frame)
		n, ok := ParseNeighbour(frame)
		if !ok || n.From != between[0] || n.MAC != mac(1) || n.Asks != between[1] || frame[0]&1 == 0 {
			t.Fatalf("a request is read as %+v, %v", n, ok)
		}
		reply := n.Reply(mac(2))
		read(t, reply)
		a, ok := ParseNeighbour(reply)
		if !ok || a.From != between[1] || a.MAC != mac(2) || a.Asks.IsValid() || of13.MAC(reply) != mac(1) {
			t.Errorf("a reply is read as %+v, %v: %x", a, ok, reply)
		}
		for cut := range frame {
			if n, ok := ParseNeighbour(frame[:cut]); ok {
				t.Errorf("%d bytes of a request are read as %+v", cut, n)
			}
		}
	}
	// A host tests whether an address is free before it has one. The answer is for all.
	n, ok := ParseNeighbour(Ask(mac(1), netip.IPv6Unspecified(), v6[1]))
	if reply := n.Reply(mac(2)); !ok || of13.MAC(reply) != (of13.MAC{0x33, 0x33, 5: 1}) {
		t.Errorf("%v, and the answer is %x", ok, reply)
	}
	far, _ := ParseIP(Ask(mac(1), v6[0], v6[1]))
	far.TTL = maxTTL - 1
	if n, ok := ParseNeighbour(far.append(far.Payload)); ok {
		t.Errorf("a router has forwarded a request, and it is read as %+v", n)
	}
}

// Any frame is read without a panic, and what is sent because of it is valid.
func FuzzIP(f *testing.F) {
	for _, between := range all {
		f.Add(ping(f, between, 1, []byte("data")))
		f.Add(Ask(mac(1), between[0], between[1]))
		n, _ := ParseNeighbour(Ask(mac(1), between[0], between[1]))
		f.Add(n.Reply(mac(2)))
	}
	f.Add(udp(f, v4[1], nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p, ok := ParseIP(frame); ok {
			from := all[0][0]
			if p.To.Is6() {
				from = all[1][0]
			}
			for _, answer := range [][]byte{p.Echo(), p.Error(TimeExceeded, from)} {
				if back, ok := ParseIP(answer); answer != nil && (!ok || !back.Whole || back.To != p.From) {
					t.Errorf("%x is answered by %x", frame, answer)
				}
			}
		}
		if n, ok := ParseNeighbour(frame); ok && n.Asks.IsValid() {
			if a, ok := ParseNeighbour(n.Reply(mac(9))); !ok || a.From != n.Asks || a.MAC != mac(9) {
				t.Errorf("%x is answered by %+v, %v", frame, a, ok)
			}
		}
	})
}
