package edge

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
)

var everyone = app.MAC{255, 255, 255, 255, 255, 255}

func ethernet(from, to app.MAC, ethType uint16, payload []byte) []byte {
	b := append(append([]byte(nil), to[:]...), from[:]...)
	return append(binary.BigEndian.AppendUint16(b, ethType), payload...)
}

func arp(op byte, from, to app.MAC, sender, target netip.Addr) []byte {
	b := append([]byte("\x00\x01\x08\x00\x06\x04\x00"), op)
	b = append(append(b, from[:]...), sender.AsSlice()...)
	return ethernet(from, to, typeARP, append(append(b, make([]byte, 6)...), target.AsSlice()...))
}

func udp4(from app.MAC, port uint16) []byte {
	b := append([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, protoUDP, 0, 0}, make([]byte, 12)...)
	return ethernet(from, everyone, typeIPv4, append(binary.BigEndian.AppendUint16(b[:22], port), 0, 8, 0, 0))
}

func ipv6(from app.MAC, next, hops byte, payload ...byte) []byte {
	b := append([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), next, hops}, address("fe80::1")...)
	return ethernet(from, app.MAC{0x33, 0x33, 0, 0, 0, 1}, typeIPv6,
		append(append(b, address("ff02::1")...), payload...))
}

func neighbour(kind byte, target string) []byte {
	return append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, address(target)...)
}

func address(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

func tagged(frame []byte) []byte {
	return append(append(append([]byte(nil), frame[:12]...), 0x81, 0, 0, 7), frame[12:]...)
}

func TestRead(t *testing.T) {
	a := mac(1)
	ask := arp(1, a, everyone, ip(a), ip(mac(2)))
	alert := []byte{protoICMPv6, 0, 5, 2, 0, 0, 1, 0}
	for name, c := range map[string]struct {
		frame      []byte
		ok         bool
		asks, says string
	}{
		"ARP request":              {ask, true, "10.0.0.2", "10.0.0.1"},
		"ARP request in two VLANs": {tagged(tagged(ask)), true, "10.0.0.2", "10.0.0.1"},
		"ARP request in three":     {tagged(tagged(tagged(ask))), false, "", ""},
		"ARP answer":               {arp(2, a, mac(2), ip(a), ip(mac(2))), true, "", "10.0.0.1"},
		"ARP for another":          {ethernet(mac(3), everyone, typeARP, ask[ethLen:]), false, "", ""},
		"ARP, cut off":             {ask[:41], false, "", ""},
		"from a group":             {ethernet(everyone, everyone, typeARP, ask[ethLen:]), false, "", ""},
		"from nobody":              {ethernet(app.MAC{}, everyone, typeARP, ask[ethLen:]), false, "", ""},
		"DHCP to a server":         {udp4(a, 67), true, "", ""},
		"DHCP to a client":         {udp4(a, 68), true, "", ""},
		"UDP":                      {udp4(a, 5353), false, "", ""},
		"DHCP, cut off":            {udp4(a, 67)[:ethLen+24], false, "", ""},
		"solicitation": {ipv6(a, protoICMPv6, 255, neighbour(135, "fe80::2")...), true, "fe80::2",
			"fe80::1"},
		"solicitation from afar":    {ipv6(a, protoICMPv6, 254, neighbour(135, "fe80::2")...), false, "", ""},
		"solicitation, cut off":     {ipv6(a, protoICMPv6, 255, neighbour(135, "fe80::2")[:20]...), false, "", ""},
		"advertisement":             {ipv6(a, protoICMPv6, 255, neighbour(136, "fe80::2")...), true, "", "fe80::2"},
		"router solicitation":       {ipv6(a, protoICMPv6, 255, 133, 0, 0, 0, 0, 0, 0, 0), true, "", ""},
		"router advertisement":      {ipv6(a, protoICMPv6, 255, 134, 0, 0, 0, 0, 0, 0, 0), true, "", ""},
		"redirect":                  {ipv6(a, protoICMPv6, 255, neighbour(137, "fe80::2")...), false, "", ""},
		"echo":                      {ipv6(a, protoICMPv6, 255, 128, 0, 0, 0), false, "", ""},
		"MLD report":                {ipv6(a, protoHopByHop, 1, append(alert, 143, 0, 0, 0)...), true, "", ""},
		"MLD report, cut off":       {ipv6(a, protoHopByHop, 1, alert...), false, "", ""},
		"header longer than it all": {ipv6(a, protoHopByHop, 1, 58, 200, 5, 2, 0, 0, 1, 0), false, "", ""},
		"DHCPv6":                    {ipv6(a, protoUDP, 64, 2, 34, 2, 35, 0, 8, 0, 0), true, "", ""},
		"UDP over IPv6":             {ipv6(a, protoUDP, 64, 2, 34, 2, 36, 0, 8, 0, 0), false, "", ""},
		"too short":                 {ask[:13], false, "", ""},
		"too long":                  {append(ask, make([]byte, maxLength)...), false, "", ""},
	} {
		f, ok := read(c.frame)
		text := func(a netip.Addr) string {
			if !a.IsValid() {
				return ""
			}
			return a.String()
		}
		if ok != c.ok || ok && (text(f.asks) != c.asks || text(f.says) != c.says || f.from != a) {
			t.Errorf("%s: got %v, asks %v, says %v, from %v; want %v, %q, %q", name, ok, f.asks, f.says, f.from, c.ok,
				c.asks, c.says)
		}
	}
}

// Whatever a host sends is read, or is not; the longer parts of a frame are no trap.
func FuzzRead(f *testing.F) {
	f.Add(arp(1, mac(1), everyone, ip(mac(1)), ip(mac(2))))
	f.Add(udp4(mac(1), 67))
	f.Add(ipv6(mac(1), protoICMPv6, 255, neighbour(135, "fe80::2")...))
	f.Add(ipv6(mac(1), protoHopByHop, 1, 58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := read(b); ok && (m.from[0]&1 != 0 || len(b) > maxLength) {
			t.Errorf("read %+v of %x", m, b)
		}
	})
}
