package sentry

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/bfd"
)

const (
	ethLen   = 14
	frameLen = 60 // the least of Ethernet, without its checksum
)

// group is among the addresses that no bridge forwards (IEEE 802.1Q, table 8-1): only the other end of the link
// receives it.
var group = [6]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}

// appendFrame appends a frame with the packet.
func appendFrame(b []byte, from [6]byte, p bfd.Packet) []byte {
	start := len(b)
	b = append(append(b, group[:]...), from[:]...)
	b = p.Append(binary.BigEndian.AppendUint16(b, bfd.EtherTypeSentry))
	return append(b, padding[:frameLen-(len(b)-start)]...)
}

var padding [frameLen]byte

// parseFrame reads a frame. The error is bfd.ErrInvalid.
func parseFrame(frame []byte) (bfd.Packet, error) {
	if len(frame) < ethLen+bfd.PacketLen {
		return bfd.Packet{}, bfd.ErrInvalid
	}
	return bfd.Decode(frame[ethLen : ethLen+bfd.PacketLen])
}
