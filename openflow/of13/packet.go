package of13

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// NoBuffer is the buffer id of a packet that the switch did not buffer.
const NoBuffer uint32 = 0xffffffff

// Reasons of a packet-in (section 7.4.1).
const (
	PacketInNoMatch    uint8 = iota // the table-miss entry
	PacketInAction                  // an output to PortController
	PacketInInvalidTTL              // an expired TTL
)

// NoCookie is the cookie of a packet-in without a flow entry.
const NoCookie uint64 = 0xffffffffffffffff

// PacketIn carries a packet to the controller (section 7.4.1).
type PacketIn struct {
	BufferID uint32
	TotalLen uint16 // of the packet; Data may be shorter
	Reason   uint8
	TableID  uint8
	Cookie   uint64 // of the flow entry
	Match    Match  // ingress port, metadata and other fields that are not in the packet
	Data     []byte
}

// Type returns TypePacketIn.
func (*PacketIn) Type() uint8 { return TypePacketIn }

// Append appends the message.
func (m *PacketIn) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(begin(dst, TypePacketIn, xid), m.BufferID)
	dst = append(put16(dst, m.TotalLen), m.Reason, m.TableID)
	dst = m.Match.append(put64(dst, m.Cookie))
	return end(append(pad(dst, 2), m.Data...), n)
}

// Decode reads a PACKET_IN.
func (m *PacketIn) Decode(msg []byte) error {
	if err := open(msg, TypePacketIn, 34); err != nil {
		return err
	}
	match, off, err := checkMatch(msg, 24, len(msg)-2)
	if err != nil {
		return err
	}
	*m = PacketIn{u32(msg[8:]), u16(msg[12:]), msg[14], msg[15], u64(msg[16:]), match, msg[off+2:]}
	return nil
}

// String returns the message in one line, without the packet.
func (m *PacketIn) String() string {
	b := fmt.Appendf(nil, "PACKET_IN %v reason=%s table=%d cookie=%#x", m.Match,
		nameOf([]string{"no_match", "action", "invalid_ttl"}, uint32(m.Reason)), m.TableID, m.Cookie)
	b = appendBuffer(b, m.BufferID)
	return string(fmt.Appendf(b, " data=%d/%d", len(m.Data), m.TotalLen))
}

func appendBuffer(b []byte, id uint32) []byte {
	if id == NoBuffer {
		return b
	}
	return fmt.Appendf(b, " buffer=%#x", id)
}

// PacketOut makes the switch process a packet (section 7.3.7).
type PacketOut struct {
	BufferID uint32
	InPort   Port // PortController when there is none
	Actions  Actions
	Data     []byte // the packet, when BufferID is NoBuffer
}

// Type returns TypePacketOut.
func (*PacketOut) Type() uint8 { return TypePacketOut }

// Append appends the message.
func (m *PacketOut) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(begin(dst, TypePacketOut, xid), m.BufferID)
	dst = put16(put32(dst, uint32(m.InPort)), uint16(len(m.Actions)))
	dst = append(pad(dst, 6), m.Actions...)
	return end(append(dst, m.Data...), n)
}

// Decode reads a PACKET_OUT.
func (m *PacketOut) Decode(msg []byte) error {
	if err := open(msg, TypePacketOut, 24); err != nil {
		return err
	}
	off := 24 + int(u16(msg[16:]))
	if off > len(msg) {
		return fail(msg, 16, openflow.BadLength, "actions of %d bytes, %d left", off-24, len(msg)-24)
	}
	if err := checkActions(msg, 24, off); err != nil {
		return err
	}
	*m = PacketOut{u32(msg[8:]), Port(u32(msg[12:])), Actions(msg[24:off:off]), msg[off:]}
	return nil
}

// String returns the message in one line, without the packet.
func (m *PacketOut) String() string {
	b := fmt.Appendf(nil, "PACKET_OUT in_port=%v actions=%v", m.InPort, m.Actions)
	b = appendBuffer(b, m.BufferID)
	return string(fmt.Appendf(b, " data=%d", len(m.Data)))
}
