package topology

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
)

var (
	alice, bob, server = app.MAC{2, 0, 0, 0, 0, 0xa}, app.MAC{2, 0, 0, 0, 0, 0xb}, app.MAC{2, 0, 0, 0, 0, 0xc}
	broadcast          = app.MAC{255, 255, 255, 255, 255, 255}
)

func addr(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

func ethernet(src, dst app.MAC, ethType uint16, payload []byte) []byte {
	b := append(append([]byte(nil), dst[:]...), src[:]...)
	return append(binary.BigEndian.AppendUint16(b, ethType), payload...)
}

func arp(from app.MAC, ip string) []byte {
	b := append([]byte("\x00\x01\x08\x00\x06\x04\x00\x01"), from[:]...)
	b = append(append(b, addr(ip)...), 0, 0, 0, 0, 0, 0, 10, 0, 0, 99)
	return ethernet(from, broadcast, typeARP, b)
}

func ipv6(from app.MAC, src string, next, hops byte, payload []byte) []byte {
	b := append([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), next, hops}, addr(src)...)
	return ethernet(from, app.MAC{0x33, 0x33, 0, 0, 0, 1}, typeIPv6, append(append(b, addr("ff02::1")...), payload...))
}

func neighbour(kind byte, target string) []byte {
	return append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, addr(target)...)
}

func dhcp(op byte, client app.MAC, ciaddr, yiaddr string, options ...byte) []byte {
	b := append([]byte{op, 1, 6, 0}, make([]byte, 8)...)
	b = append(append(b, addr(ciaddr)...), addr(yiaddr)...)
	b = append(append(b, make([]byte, 8)...), client[:]...)
	b = append(append(b, make([]byte, 236-len(b))...), 0x63, 0x82, 0x53, 0x63)
	return append(b, options...)
}

func tagged(vlan uint16, frame []byte) []byte {
	b := append([]byte(nil), frame[:12]...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, typeVLAN), vlan)
	return append(b, frame[12:]...)
}

type sample struct {
	frame []byte
	ok    bool
	addr  string
	said  bool
	lease string // lease to bob
}

const anyone = "255.255.255.255"

var sampleFrames = map[string]sample{
	"ARP":                {arp(alice, "10.0.0.1"), true, "10.0.0.1", true, ""},
	"ARP in two VLANs":   {tagged(7, tagged(8, arp(alice, "10.0.0.1"))), true, "10.0.0.1", true, ""},
	"ARP in three VLANs": {tagged(6, tagged(7, tagged(8, arp(alice, "10.0.0.1")))), false, "", false, ""},
	"ARP probe":          {arp(alice, "0.0.0.0"), true, "", false, ""},
	"ARP for another": {ethernet(alice, broadcast, typeARP, arp(bob, "10.0.0.2")[ethLen:]), true, "", false,
		""},
	"ARP, cut off":    {arp(alice, "10.0.0.1")[:40], true, "", false, ""},
	"IPv4":            {udp(alice, bob, "10.0.0.1", "10.0.0.2", 1, 2, nil), true, "10.0.0.1", false, ""},
	"IPv4, cut off":   {udp(alice, bob, "10.0.0.1", "10.0.0.2", 1, 2, nil)[:30], true, "", false, ""},
	"IPv4 of a group": {udp(alice, bob, "224.0.0.1", "10.0.0.2", 1, 2, nil), true, "", false, ""},
	"IPv6":            {ipv6(alice, "fe80::1", 17, 64, make([]byte, 8)), true, "fe80::1", false, ""},
	"IPv6, cut off":   {ipv6(alice, "fe80::1", 17, 64, nil)[:40], true, "", false, ""},
	"solicitation": {ipv6(alice, "fe80::1", 58, 255, neighbour(135, "fe80::2")), true, "fe80::1", true,
		""},
	"duplicate address detection": {ipv6(alice, "::", 58, 255, neighbour(135, "fe80::1")), true, "", false, ""},
	"advertisement": {ipv6(alice, "fe80::1", 58, 255, neighbour(136, "2001:db8::1")), true, "2001:db8::1",
		true, ""},
	"advertisement from afar": {ipv6(alice, "fe80::1", 58, 254, neighbour(136, "2001:db8::1")), true, "fe80::1", false,
		""},
	"advertisement, cut off": {ipv6(alice, "fe80::1", 58, 255, neighbour(136, "2001:db8::1"))[:70], true, "fe80::1",
		false, ""},
	"DHCP discover": {udp(alice, broadcast, "0.0.0.0", anyone, 68, 67,
		dhcp(1, alice, "0.0.0.0", "0.0.0.0", 53, 1, 1)), true, "", false, ""},
	"DHCP renewal": {udp(alice, broadcast, "10.0.0.1", anyone, 68, 67,
		dhcp(1, alice, "10.0.0.1", "0.0.0.0", 53, 1, 3)), true, "10.0.0.1", true, ""},
	"DHCP by a relay": {udp(alice, server, "10.0.0.1", "10.0.0.9", 67, 67,
		dhcp(1, bob, "10.0.0.2", "0.0.0.0", 53, 1, 3)), true, "10.0.0.1", false, ""},
	"DHCP acknowledgement": {udp(server, bob, "10.0.0.9", anyone, 67, 68,
		dhcp(2, bob, "0.0.0.0", "10.0.0.2", 0, 54, 4, 1, 2, 3, 4, 53, 1, 5, 255)), true, "10.0.0.9", false, "10.0.0.2"},
	"DHCP offer": {udp(server, bob, "10.0.0.9", anyone, 67, 68,
		dhcp(2, bob, "0.0.0.0", "10.0.0.2", 53, 1, 2, 255)), true, "10.0.0.9", false, ""},
	"DHCP, options cut off": {udp(server, bob, "10.0.0.9", anyone, 67, 68,
		dhcp(2, bob, "0.0.0.0", "10.0.0.2", 54, 4, 1)), true, "10.0.0.9", false, ""},
	"DHCP to a host": {udp(server, bob, "10.0.0.9", anyone, 66, 68, dhcp(2, bob, "0.0.0.0", "10.0.0.2", 53, 1, 5)),
		true, "10.0.0.9", false, ""},
	"from a group":  {arp(broadcast, "10.0.0.1"), false, "", false, ""},
	"from nobody":   {arp(app.MAC{}, "10.0.0.1"), false, "", false, ""},
	"spanning tree": {ethernet(alice, app.MAC{1, 0x80, 0xc2}, 0x0026, make([]byte, 46)), false, "", false, ""},
	"too short":     {make([]byte, 13), false, "", false, ""},
}

func TestLook(t *testing.T) {
	for name, c := range sampleFrames {
		f, ok := ReadFrame(c.frame)
		addr, said := f.Source, f.Own.IsValid()
		if said {
			addr = f.Own
		}
		text := func(a netip.Addr) string {
			if !a.IsValid() {
				return ""
			}
			return a.String()
		}
		if ok != c.ok || text(addr) != c.addr || said != c.said || text(f.Lease) != c.lease {
			t.Errorf("%s: got %v %q, said %v, lease %q; want %v %q, said %v, lease %q", name, ok, text(addr), said,
				text(f.Lease), c.ok, c.addr, c.said, c.lease)
		}
		if ok && f.From != alice && f.From != server || c.lease != "" && f.Lessee != bob {
			t.Errorf("%s: sender %v, lease to %v", name, f.From, f.Lessee)
		}
	}
}

// Which frames package edge forwards to other hosts, and what it learns from them about the host that is meant.
func TestDiscovery(t *testing.T) {
	ask := arp(alice, "10.0.0.1")
	answer := arp(alice, "10.0.0.1")
	answer[ethLen+7] = 2
	icmp := func(hops byte, b ...byte) []byte { return ipv6(alice, "fe80::1", protoICMPv6, hops, b) }
	mld := func(b ...byte) []byte {
		return ipv6(alice, "fe80::1", protoHopByHop, 1, append([]byte{protoICMPv6, 0, 5, 2, 0, 0, 1, 0}, b...))
	}
	udp4 := func(port uint16) []byte { return udp(alice, broadcast, "10.0.0.1", anyone, 1, port, nil) }
	for name, c := range map[string]struct {
		frame     []byte
		discovery bool
		asks, own string
	}{
		"ARP request":              {ask, true, "10.0.0.99", "10.0.0.1"},
		"ARP request in two VLANs": {tagged(7, tagged(7, ask)), true, "10.0.0.99", "10.0.0.1"},
		"ARP answer":               {answer, true, "", "10.0.0.1"},
		"ARP for another":          {ethernet(bob, broadcast, typeARP, ask[ethLen:]), false, "", ""},
		"ARP, cut off":             {ask[:41], false, "", ""},
		"DHCP to a server":         {udp4(67), true, "", ""},
		"DHCP to a client":         {udp4(68), true, "", ""},
		"UDP":                      {udp4(5353), false, "", ""},
		"DHCP, cut off":            {udp4(67)[:ethLen+24], false, "", ""},
		"solicitation":             {icmp(255, neighbour(135, "fe80::2")...), true, "fe80::2", "fe80::1"},
		"solicitation from afar":   {icmp(254, neighbour(135, "fe80::2")...), false, "", ""},
		"solicitation, cut off":    {icmp(255, neighbour(135, "fe80::2")[:20]...), false, "", ""},
		"advertisement":            {icmp(255, neighbour(136, "fe80::2")...), true, "", "fe80::2"},
		"router solicitation":      {icmp(255, 133, 0, 0, 0, 0, 0, 0, 0), true, "", ""},
		"router advertisement":     {icmp(255, 134, 0, 0, 0, 0, 0, 0, 0), true, "", ""},
		"redirect":                 {icmp(255, neighbour(137, "fe80::2")...), false, "", ""},
		"echo":                     {icmp(255, 128, 0, 0, 0), false, "", ""},
		"MLD report":               {mld(143, 0, 0, 0), true, "", ""},
		"MLD report, cut off":      {mld(), false, "", ""},
		"header longer than it all": {ipv6(alice, "fe80::1", protoHopByHop, 1, []byte{58, 200, 5, 2, 0, 0, 1, 0}),
			false, "", ""},
		"DHCPv6":        {ipv6(alice, "fe80::1", protoUDP, 64, []byte{2, 34, 2, 35, 0, 8, 0, 0}), true, "", ""},
		"UDP over IPv6": {ipv6(alice, "fe80::1", protoUDP, 64, []byte{2, 34, 2, 36, 0, 8, 0, 0}), false, "", ""},
	} {
		text := func(a netip.Addr) string {
			if !a.IsValid() {
				return ""
			}
			return a.String()
		}
		f, _ := ReadFrame(c.frame)
		if f.Discovery != c.discovery || text(f.Asks) != c.asks || text(f.Own) != c.own ||
			f.Group != (c.frame[0]&1 != 0) {
			t.Errorf("%s: got %+v, want %v, %q, %q", name, f, c.discovery, c.asks, c.own)
		}
	}
}

// Whatever a host sends is parsed or ignored. Wrong lengths inside a frame do no harm.
func FuzzReadFrame(f *testing.F) {
	for _, s := range sampleFrames {
		f.Add(s.frame)
	}
	f.Add(ipv6(alice, "fe80::1", protoHopByHop, 1, []byte{58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := ReadFrame(b)
		if ok && m.From[0]&1 != 0 || !ok && (m.Discovery || m.Source.IsValid() || m.Own.IsValid() ||
			m.Lease.IsValid()) {
			t.Errorf("read %+v of %x", m, b)
		}
		for _, a := range []netip.Addr{m.Source, m.Own, m.Asks, m.Lease} {
			if a.IsValid() && unicast(a) != a {
				t.Errorf("%x: address %v", b, a)
			}
		}
	})
}
