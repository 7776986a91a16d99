package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// FrameLen is the length of a frame with a control packet.
const FrameLen = ethLen + ipLen + udpLen + PacketLen

const (
	ethLen = 14
	ipLen  = 20
	udpLen = 8

	typeIPv4 = 0x0800
	protoUDP = 17
	maxTTL   = 255 // proves that the sender is on this link: a router decrements it (RFC 5881, section 5)

	portControl = 3784 // RFC 5881, section 4
	// sourcePort is the lowest that RFC 5881 allows. Sessions are identified by their link, not by the port.
	sourcePort = 49152
)

// EthernetDst is the destination to which Open vSwitch sends control packets, and this package too: both ends of a link
// accept it, so the addresses of ports need not be known.
var EthernetDst = net.HardwareAddr{0x00, 0x23, 0x20, 0, 0, 1}

// EtherTypeSentry is the EtherType of the frames of package sentry. A switch drops them, and must not take them for its
// own BFD. It is the second of the two EtherTypes that IEEE 802 (9.2.4) reserves for local experiments.
const EtherTypeSentry = 0x88b6

// Addresses of Open vSwitch, the same on every link: they are not routed.
var ipSrc, ipDst = [4]byte{169, 254, 1, 1}, [4]byte{169, 254, 1, 0}

// ErrOther says that a frame is not BFD.
var ErrOther = errors.New("not a BFD frame")

// AppendFrame appends a frame with the packet to b. src is the address of the port.
func AppendFrame(b []byte, src [6]byte, p Packet) []byte {
	b = append(b, EthernetDst...)
	b = append(b, src[:]...)
	b = binary.BigEndian.AppendUint16(b, typeIPv4)

	ip := len(b)
	const lowDelay = 0xc0 // class 6: a queue must not delay these
	b = append(b, 0x45, lowDelay, 0, ipLen+udpLen+PacketLen, 0, 0, 0, 0, maxTTL, protoUDP, 0, 0)
	b = append(b, ipSrc[:]...)
	b = append(b, ipDst[:]...)
	binary.BigEndian.PutUint16(b[ip+10:], ^sum(0, b[ip:]))

	b = binary.BigEndian.AppendUint16(b, sourcePort)
	b = binary.BigEndian.AppendUint16(b, portControl)
	b = append(b, 0, udpLen+PacketLen, 0, 0) // no checksum: Ethernet has one
	return p.Append(b)
}

// DecodeFrame reads a control packet from a frame without a VLAN tag. The error is ErrOther if the frame is not BFD,
// and wraps ErrInvalid if it has to be dropped.
func DecodeFrame(frame []byte) (Packet, error) {
	if len(frame) < ethLen+ipLen || binary.BigEndian.Uint16(frame[12:]) != typeIPv4 {
		return Packet{}, ErrOther
	}
	ip := frame[ethLen:]
	header, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	fragment := binary.BigEndian.Uint16(ip[6:]) & 0x3fff
	if ip[0]>>4 != 4 || ip[9] != protoUDP || fragment != 0 || header < ipLen || total < header+udpLen ||
		total > len(ip) {
		return Packet{}, ErrOther
	}
	udp := ip[header:total]
	if binary.BigEndian.Uint16(udp[2:]) != portControl {
		return Packet{}, ErrOther
	}
	length := int(binary.BigEndian.Uint16(udp[4:]))
	switch {
	case sum(0, ip[:header]) != 0xffff:
		return Packet{}, fmt.Errorf("%w: checksum of its IP header", ErrInvalid)
	case ip[8] != maxTTL:
		return Packet{}, fmt.Errorf("%w: time to live %d: it does not come from this link", ErrInvalid, ip[8])
	case length < udpLen || length > len(udp):
		return Packet{}, fmt.Errorf("%w: %d bytes of UDP in %d", ErrInvalid, length, len(udp))
	}
	if udp = udp[:length]; binary.BigEndian.Uint16(udp[6:]) != 0 {
		pseudo := sum(uint32(protoUDP)+uint32(length), ip[12:20])
		if sum(uint32(pseudo), udp) != 0xffff {
			return Packet{}, fmt.Errorf("%w: checksum of UDP", ErrInvalid)
		}
	}
	return Decode(udp[udpLen:])
}

// sum is the Internet checksum's ones' complement sum, continued from start.
func sum(start uint32, b []byte) uint16 {
	s := start
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
