package vswitch

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// hostQueue is how many received frames a Host keeps.
const hostQueue = 1024

// Host is a station with one interface, in memory. It answers ARP and echo requests to its addresses, and keeps every
// other frame that it receives. Safe for concurrent use.
type Host struct {
	MAC  of13.MAC
	IPv4 [4]byte

	send     atomic.Pointer[func(transit)]
	received chan []byte
	dropped  atomic.Uint64
	up       atomic.Bool
}

// NewHost makes a host without a link.
func NewHost(mac of13.MAC, ipv4 [4]byte) *Host {
	h := &Host{MAC: mac, IPv4: ipv4, received: make(chan []byte, hostQueue)}
	h.up.Store(true)
	return h
}

// Received has the frames that arrived and were not requests to this host, oldest first. When it is full the newest are
// dropped, and counted in Dropped.
func (h *Host) Received() <-chan []byte { return h.received }

// Dropped counts the frames that found Received full.
func (h *Host) Dropped() uint64 { return h.dropped.Load() }

// Up reports whether the host's link has a carrier.
func (h *Host) Up() bool { return h.up.Load() }

// Send puts a frame on the link, if there is one.
func (h *Host) Send(frame []byte) {
	if send := h.send.Load(); send != nil {
		(*send)(transit{frame, 0})
	}
}

// Ping sends an echo request with a sequence number to a host whose MAC is known. The reply, if it comes, is in
// Received.
func (h *Host) Ping(mac of13.MAC, ipv4 [4]byte, seq uint16) {
	h.Send(appendEcho(nil, h.MAC, mac, h.IPv4, ipv4, icmpEchoRequest, seq))
}

// Resolve asks by ARP who has an address. The reply, if it comes, is in Received.
func (h *Host) Resolve(ipv4 [4]byte) {
	broadcast := of13.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	h.Send(appendARP(nil, 1, h.MAC, h.IPv4, broadcast, of13.MAC{}, ipv4))
}

func (h *Host) attach(send func(transit)) { h.send.Store(&send) }
func (h *Host) carrier(up bool)           { h.up.Store(up) }

func (h *Host) deliver(t transit) {
	if reply := h.reply(t.data); reply != nil {
		h.Send(reply)
		return
	}
	select {
	case h.received <- slices.Clone(t.data):
	default:
		h.dropped.Add(1)
	}
}

const (
	icmpEchoReply   = 0
	icmpEchoRequest = 8
)

// reply returns the answer to a request, or nil.
func (h *Host) reply(frame []byte) []byte {
	if len(frame) < ethLen {
		return nil
	}
	var k key
	l := parse(frame, &k)
	from := of13.MAC(frame[6:12])
	switch {
	case l.l3 == 0:
	case l.ether == typeARP:
		if k.uint16(of13.FieldARPOp) == 1 && [4]byte(k.field(of13.FieldARPTPA)) == h.IPv4 {
			return appendARP(nil, 2, h.MAC, h.IPv4, from, from, [4]byte(k.field(of13.FieldARPSPA)))
		}
	case l.proto == protoICMP && l.l4 != 0 && of13.MAC(frame[:6]) == h.MAC &&
		[4]byte(k.field(of13.FieldIPv4Dst)) == h.IPv4:
		if k.field(of13.FieldICMPv4Type)[0] == icmpEchoRequest {
			seq := binary.BigEndian.Uint16(frame[l.l4+6:])
			return appendEcho(nil, h.MAC, from, h.IPv4, [4]byte(k.field(of13.FieldIPv4Src)), icmpEchoReply, seq)
		}
	}
	return nil
}

// Echo is what an ICMP echo packet says.
type Echo struct {
	Src, Dst [4]byte
	Reply    bool
	Seq      uint16
}

// ParseEcho reads an ICMP echo request or reply over IPv4.
func ParseEcho(frame []byte) (Echo, bool) {
	if len(frame) < ethLen {
		return Echo{}, false
	}
	var k key
	l := parse(frame, &k)
	kind := k.field(of13.FieldICMPv4Type)[0]
	if l.proto != protoICMP || l.l4 == 0 || kind != icmpEchoReply && kind != icmpEchoRequest {
		return Echo{}, false
	}
	return Echo{
		Src: [4]byte(k.field(of13.FieldIPv4Src)), Dst: [4]byte(k.field(of13.FieldIPv4Dst)),
		Reply: kind == icmpEchoReply, Seq: binary.BigEndian.Uint16(frame[l.l4+6:]),
	}, true
}

func appendEthernet(dst []byte, from, to of13.MAC, etherType uint16) []byte {
	dst = append(append(dst, to[:]...), from[:]...)
	return binary.BigEndian.AppendUint16(dst, etherType)
}

func appendARP(dst []byte, op uint16, mac of13.MAC, ip [4]byte, to, target of13.MAC, targetIP [4]byte) []byte {
	dst = appendEthernet(dst, mac, to, typeARP)
	dst = append(dst, 0, 1, 8, 0, 6, 4)
	dst = append(binary.BigEndian.AppendUint16(dst, op), mac[:]...)
	dst = append(append(dst, ip[:]...), target[:]...)
	return append(dst, targetIP[:]...)
}

// appendEcho appends an ICMP echo of 8 bytes of header and no data.
func appendEcho(dst []byte, mac, to of13.MAC, ip, toIP [4]byte, kind uint8, seq uint16) []byte {
	dst = appendEthernet(dst, mac, to, typeIPv4)
	at := len(dst)
	dst = append(dst, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protoICMP, 0, 0)
	dst = append(append(dst, ip[:]...), toIP[:]...)
	binary.BigEndian.PutUint16(dst[at+10:], ^sum(dst[at:at+20]))
	at = len(dst)
	dst = append(dst, kind, 0, 0, 0, 0x48, 0x46)
	dst = binary.BigEndian.AppendUint16(dst, seq)
	binary.BigEndian.PutUint16(dst[at+2:], ^sum(dst[at:]))
	return dst
}
