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
	lease string // to bob
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
		s, ok := look(c.frame)
		text := func(a netip.Addr) string {
			if !a.IsValid() {
				return ""
			}
			return a.String()
		}
		if ok != c.ok || text(s.addr) != c.addr || s.said != c.said || text(s.lease) != c.lease {
			t.Errorf("%s: got %v %q, said %v, lease %q; want %v %q, said %v, lease %q", name, ok, text(s.addr), s.said,
				text(s.lease), c.ok, c.addr, c.said, c.lease)
		}
		if ok && s.mac != alice && s.mac != server || c.lease != "" && s.leaser != bob {
			t.Errorf("%s: sender %v, lease to %v", name, s.mac, s.leaser)
		}
	}
}
