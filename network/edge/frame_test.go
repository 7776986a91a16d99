package edge

import (
	"encoding/binary"
	"net/netip"

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
	return ethernet(from, to, 0x0806, append(append(b, make([]byte, 6)...), target.AsSlice()...))
}

func udp4(from app.MAC, port uint16) []byte {
	b := append([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0}, make([]byte, 12)...)
	return ethernet(from, everyone, 0x0800, append(binary.BigEndian.AppendUint16(b[:22], port), 0, 8, 0, 0))
}

func ipv6(from app.MAC, next, hops byte, payload ...byte) []byte {
	b := append([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), next, hops}, address("fe80::1")...)
	return ethernet(from, app.MAC{0x33, 0x33, 0, 0, 0, 1}, 0x86dd,
		append(append(b, address("ff02::1")...), payload...))
}

func neighbour(kind byte, target string) []byte {
	return append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, address(target)...)
}

func address(s string) []byte { return netip.MustParseAddr(s).AsSlice() }
