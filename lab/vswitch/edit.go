package vswitch

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// headroom is the room before a frame for pushed tags; further pushes move the frame.
const headroom = 16

// packet is a frame on its way through the pipeline. Its bytes belong to the caller until the first edit, which copies
// them.
type packet struct {
	key    key
	layers layers
	data   []byte
	own    []byte // memory for edits, kept when the packet is used again
	edited bool   // data is in own
	stale  bool   // key and layers are older than data
	sent   []byte // copy of data that is already in a frame to transmit

	inPort of13.Port
	table  uint8
	cookie uint64
	miss   bool // the entry being executed is a table-miss entry
	set    actionSet
}

// reset makes p a packet that holds frame, of at least ethLen bytes.
func (p *packet) reset(inPort of13.Port, frame []byte) {
	p.data, p.sent, p.edited, p.stale = frame, nil, false, false
	p.inPort, p.table, p.cookie, p.miss = inPort, 0, of13.NoCookie, false
	p.set.clear()
	clear(p.key[:pipelineLen])
	p.key.put32(of13.FieldInPort, uint32(inPort))
	p.key.put32(of13.FieldInPhyPort, uint32(inPort))
	p.layers = parse(frame, &p.key)
}

// copyFrom makes p a copy of q, with an empty action set. The bytes are shared: q must not be edited
// while p is in use.
func (p *packet) copyFrom(q *packet) {
	p.data, p.sent, p.edited, p.stale = q.data, q.sent, false, q.stale
	p.inPort, p.table, p.cookie, p.miss = q.inPort, q.table, q.cookie, q.miss
	p.set.clear()
	p.key, p.layers = q.key, q.layers
}

// refresh parses again what was edited.
func (p *packet) refresh() {
	if p.stale {
		p.layers = parse(p.data, &p.key)
		p.stale = false
	}
}

// edit makes data writable.
func (p *packet) edit() {
	p.sent, p.stale = nil, true
	if p.edited {
		return
	}
	p.own = append(append(p.own[:0], make([]byte, headroom)...), p.data...)
	p.data, p.edited = p.own[headroom:], true
}

// pushVLAN puts a tag in front of the others, with their id and priority (section 5.12.1).
func (p *packet) pushVLAN(etherType uint16) {
	p.refresh()
	var tci uint16
	if p.layers.tags > 0 {
		tci = binary.BigEndian.Uint16(p.data[14:])
	}
	p.edit()
	room := len(p.own) - len(p.data)
	if room < 4 {
		grown := append(make([]byte, headroom, headroom+len(p.data)), p.data...)
		p.own, p.data, room = grown, grown[headroom:], headroom
	}
	p.data = p.own[room-4:]
	copy(p.data, p.data[4:16])
	binary.BigEndian.PutUint16(p.data[12:], etherType)
	binary.BigEndian.PutUint16(p.data[14:], tci)
}

// popVLAN removes the outermost tag, if there is one.
func (p *packet) popVLAN() {
	p.refresh()
	if p.layers.tags == 0 {
		return
	}
	p.edit()
	copy(p.data[4:], p.data[:12])
	p.data = p.data[4:]
}

// setTTL sets the TTL, or hop limit, if the packet is IP.
func (p *packet) setTTL(ttl uint8) {
	p.refresh()
	switch l3 := p.layers.l3; {
	case l3 == 0:
	case p.layers.ether == typeIPv4:
		p.edit()
		fix(p.data[l3+10:], p.replace(l3, l3+8, ttl), false)
	case p.layers.ether == typeIPv6:
		p.edit()
		p.data[l3+7] = ttl
	}
}

// decTTL decrements the TTL. It returns false if the packet must not be forwarded.
func (p *packet) decTTL() bool {
	p.refresh()
	at := 0
	switch {
	case p.layers.l3 == 0:
		return true
	case p.layers.ether == typeIPv4:
		at = p.layers.l3 + 8
	case p.layers.ether == typeIPv6:
		at = p.layers.l3 + 7
	default:
		return true
	}
	if p.data[at] <= 1 {
		return false
	}
	p.setTTL(p.data[at] - 1)
	return true
}

// setField sets a field, if the packet has it, and updates the checksums over it (section 7.2.5).
func (p *packet) setField(f of13.Field, v []byte) {
	p.refresh()
	l := &p.layers
	switch f {
	case of13.FieldTunnelID:
		copy(p.key.field(f), v)
	case of13.FieldEthDst:
		p.write(0, v)
	case of13.FieldEthSrc:
		p.write(6, v)
	case of13.FieldEthType:
		p.write(l.etherAt, v)
	case of13.FieldVLANVID, of13.FieldVLANPCP:
		if l.tags == 0 {
			return
		}
		tci := binary.BigEndian.Uint16(p.data[14:])
		if f == of13.FieldVLANVID {
			tci = tci&^0xfff | binary.BigEndian.Uint16(v)&0xfff
		} else {
			tci = tci&0x1fff | uint16(v[0])<<13
		}
		p.edit()
		binary.BigEndian.PutUint16(p.data[14:], tci)
	default:
		if l.l3 != 0 {
			p.setInner(f, v)
		}
	}
}

func (p *packet) write(at int, v []byte) {
	p.edit()
	copy(p.data[at:], v)
}

// setInner is setField for headers after Ethernet; there is a header l3.
func (p *packet) setInner(f of13.Field, v []byte) {
	l3 := p.layers.l3
	switch p.layers.ether {
	case typeARP:
		if at, ok := arpAt[f]; ok {
			p.write(l3+at, v)
		}
		return
	case typeMPLS, typeMPLSmc:
		p.setMPLS(f, v)
		return
	case typePBB:
		if f == of13.FieldPBBISID {
			p.write(l3+1, v)
		}
		return
	}
	v4 := p.layers.ether == typeIPv4
	switch f {
	case of13.FieldIPDSCP:
		p.setClass(v[0]<<2, 0xfc)
	case of13.FieldIPECN:
		p.setClass(v[0], 0x03)
	case of13.FieldIPProto:
		if v4 {
			p.edit()
			fix(p.data[l3+10:], p.replace(l3, l3+9, v...), false)
		} else if p.key.uint16(of13.FieldIPv6ExtHdr) == 0 {
			p.write(l3+6, v)
		}
	case of13.FieldIPv4Src, of13.FieldIPv4Dst:
		if v4 {
			p.setAddress(l3+12+4*int(f-of13.FieldIPv4Src), v)
		}
	case of13.FieldIPv6Src, of13.FieldIPv6Dst:
		if !v4 {
			p.setAddress(l3+8+16*int(f-of13.FieldIPv6Src), v)
		}
	case of13.FieldIPv6FLabel:
		if !v4 {
			p.edit()
			word := binary.BigEndian.Uint32(p.data[l3:])
			binary.BigEndian.PutUint32(p.data[l3:], word&^0xfffff|binary.BigEndian.Uint32(v))
		}
	default:
		p.setL4(f, v)
	}
}

var arpAt = map[of13.Field]int{of13.FieldARPOp: 6, of13.FieldARPSHA: 8, of13.FieldARPSPA: 14, of13.FieldARPTHA: 18,
	of13.FieldARPTPA: 24}

// setMPLS sets a field of the outermost MPLS header.
func (p *packet) setMPLS(f of13.Field, v []byte) {
	at := p.layers.l3
	word := binary.BigEndian.Uint32(p.data[at:])
	switch f {
	case of13.FieldMPLSLabel:
		word = word&0xfff | binary.BigEndian.Uint32(v)<<12
	case of13.FieldMPLSTC:
		word = word&^0xe00 | uint32(v[0])<<9
	case of13.FieldMPLSBOS:
		word = word&^0x100 | uint32(v[0])<<8
	default:
		return
	}
	p.edit()
	binary.BigEndian.PutUint32(p.data[at:], word)
}

// setClass sets the bits of mask in the traffic class, where IPv4 has its type of service.
func (p *packet) setClass(bits, mask uint8) {
	l3 := p.layers.l3
	p.edit()
	if p.layers.ether == typeIPv4 {
		fix(p.data[l3+10:], p.replace(l3, l3+1, p.data[l3+1]&^mask|bits), false)
		return
	}
	shift := uint32(20)
	word := binary.BigEndian.Uint32(p.data[l3:])
	binary.BigEndian.PutUint32(p.data[l3:], word&^(uint32(mask)<<shift)|uint32(bits)<<shift)
}

// setAddress writes an IP address. It is part of the checksum of the IPv4 header, and by the pseudo header of those of
// TCP, UDP and ICMPv6.
func (p *packet) setAddress(at int, v []byte) {
	p.edit()
	delta := p.replace(p.layers.l3, at, v...)
	if p.layers.ether == typeIPv4 {
		fix(p.data[p.layers.l3+10:], delta, false)
	}
	switch p.layers.proto {
	case protoTCP, protoUDP, protoICMPv6:
		p.fixL4(delta)
	}
}

// setL4 sets a field of TCP, UDP, SCTP, ICMP and neighbour discovery.
func (p *packet) setL4(f of13.Field, v []byte) {
	l4, proto := p.layers.l4, p.layers.proto
	at := -1
	switch {
	case l4 == 0:
	case proto == protoTCP && f >= of13.FieldTCPSrc && f <= of13.FieldTCPDst:
		at = l4 + 2*int(f-of13.FieldTCPSrc)
	case proto == protoUDP && f >= of13.FieldUDPSrc && f <= of13.FieldUDPDst:
		at = l4 + 2*int(f-of13.FieldUDPSrc)
	case proto == protoSCTP && f >= of13.FieldSCTPSrc && f <= of13.FieldSCTPDst:
		at = l4 + 2*int(f-of13.FieldSCTPSrc)
	case proto == protoICMP && f >= of13.FieldICMPv4Type && f <= of13.FieldICMPv4Code:
		at = l4 + int(f-of13.FieldICMPv4Type)
	case proto == protoICMPv6 && f >= of13.FieldICMPv6Type && f <= of13.FieldICMPv6Code:
		at = l4 + int(f-of13.FieldICMPv6Type)
	case proto == protoICMPv6 && f == of13.FieldIPv6NDTarget && len(p.data) >= l4+24:
		at = l4 + 8
	case f == of13.FieldIPv6NDSLL && p.layers.sll != 0:
		at = p.layers.sll
	case f == of13.FieldIPv6NDTLL && p.layers.tll != 0:
		at = p.layers.tll
	}
	if at < 0 {
		return
	}
	p.edit()
	p.fixL4(p.replace(l4, at, v...))
}

// fixL4 updates the checksum of the header l4 by delta.
func (p *packet) fixL4(delta uint32) {
	l4 := p.layers.l4
	if l4 == 0 {
		return
	}
	switch p.layers.proto {
	case protoTCP:
		fix(p.data[l4+16:], delta, false)
	case protoUDP:
		// In IPv4 0 means that there is no checksum.
		if p.data[l4+6]|p.data[l4+7] != 0 {
			fix(p.data[l4+6:], delta, true)
		}
	case protoICMP, protoICMPv6:
		fix(p.data[l4+2:], delta, false)
	case protoSCTP:
		p.sumSCTP()
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSCTP recomputes the checksum of an SCTP packet (RFC 9260, appendix A).
func (p *packet) sumSCTP() {
	end := len(p.data)
	if p.layers.ether == typeIPv4 {
		end = min(end, p.layers.l3+int(binary.BigEndian.Uint16(p.data[p.layers.l3+2:])))
	} else {
		end = min(end, p.layers.l3+40+int(binary.BigEndian.Uint16(p.data[p.layers.l3+4:])))
	}
	if end < p.layers.l4+12 {
		return
	}
	b := p.data[p.layers.l4:end]
	clear(b[8:12])
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, castagnoli))
}

// replace writes v at offset at. It returns the change of the one's complement sum over a header that begins at base
// (RFC 1624, equation 3).
func (p *packet) replace(base, at int, v ...byte) (delta uint32) {
	lo, hi := at, at+len(v)
	lo -= (lo - base) & 1
	hi = min(hi+(hi-base)&1, len(p.data))
	old := sum(p.data[lo:hi])
	copy(p.data[at:], v)
	return uint32(^old) + uint32(sum(p.data[lo:hi]))
}

// sum is the Internet checksum of b, not complemented; a last odd byte counts as high.
func sum(b []byte) uint16 {
	var s uint32
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return fold(s)
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// fix adds delta to the sum whose complement is in the first two bytes of b. Where 0 means "none", it is
// written as its other form, all ones.
func fix(b []byte, delta uint32, zeroIsNone bool) {
	c := ^fold(uint32(^binary.BigEndian.Uint16(b)) + delta)
	if c == 0 && zeroIsNone {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b, c)
}
