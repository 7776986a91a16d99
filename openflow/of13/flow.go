package of13

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Commands of a flow-mod (section 7.3.4.1).
const (
	FlowAdd uint8 = iota
	FlowModify
	FlowModifyStrict
	FlowDelete
	FlowDeleteStrict
)

// Flags of a flow entry (section 7.3.4.1).
const (
	FlowSendFlowRem  uint16 = 1 << 0
	FlowCheckOverlap uint16 = 1 << 1
	FlowResetCounts  uint16 = 1 << 2
	FlowNoPktCounts  uint16 = 1 << 3
	FlowNoBytCounts  uint16 = 1 << 4
)

// Tables.
const (
	TableMax uint8 = 0xfe
	TableAll uint8 = 0xff // in deletions and statistics: every table
)

// FlowMod changes a flow table (section 7.3.4.1). The zero values of BufferID, OutPort and OutGroup are an
// ordinary buffer, port and group: use NoBuffer, PortAny and GroupAny for none.
type FlowMod struct {
	Cookie       uint64
	CookieMask   uint64 // restricts modifications and deletions; 0 is no restriction
	TableID      uint8
	Command      uint8  // one of the Flow commands
	IdleTimeout  uint16 // seconds; 0 is never
	HardTimeout  uint16 // seconds; 0 is never
	Priority     uint16
	BufferID     uint32 // packet to apply a new entry to, or NoBuffer
	OutPort      Port   // restricts deletions; PortAny is no restriction
	OutGroup     uint32 // restricts deletions; GroupAny is no restriction
	Flags        uint16
	Match        Match
	Instructions Instructions
}

// Type returns TypeFlowMod.
func (*FlowMod) Type() uint8 { return TypeFlowMod }

// Append appends the message.
func (m *FlowMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put64(begin(dst, TypeFlowMod, xid), m.Cookie)
	dst = append(put64(dst, m.CookieMask), m.TableID, m.Command)
	dst = put16(put16(put16(dst, m.IdleTimeout), m.HardTimeout), m.Priority)
	dst = put32(put32(put32(dst, m.BufferID), uint32(m.OutPort)), m.OutGroup)
	dst = m.Match.append(pad(put16(dst, m.Flags), 2))
	return end(append(dst, m.Instructions...), n)
}

// Decode reads a FLOW_MOD.
func (m *FlowMod) Decode(msg []byte) error {
	if err := open(msg, TypeFlowMod, 56); err != nil {
		return err
	}
	match, off, err := checkMatch(msg, 48, len(msg))
	if err != nil {
		return err
	}
	if err := checkInstructions(msg, off, len(msg)); err != nil {
		return err
	}
	*m = FlowMod{
		Cookie: u64(msg[8:]), CookieMask: u64(msg[16:]),
		TableID: msg[24], Command: msg[25],
		IdleTimeout: u16(msg[26:]), HardTimeout: u16(msg[28:]), Priority: u16(msg[30:]),
		BufferID: u32(msg[32:]), OutPort: Port(u32(msg[36:])), OutGroup: u32(msg[40:]),
		Flags: u16(msg[44:]), Match: match, Instructions: Instructions(msg[off:]),
	}
	return nil
}

// String returns the message in one line, much as ovs-ofctl writes flows.
func (m *FlowMod) String() string {
	b := fmt.Appendf(nil, "FLOW_MOD %s table=%d priority=%d",
		nameOf([]string{"add", "modify", "modify_strict", "delete", "delete_strict"}, uint32(m.Command)), m.TableID,
		m.Priority)
	if m.Cookie != 0 || m.CookieMask != 0 {
		b = fmt.Appendf(b, " cookie=%#x/%#x", m.Cookie, m.CookieMask)
	}
	if m.IdleTimeout != 0 {
		b = fmt.Appendf(b, " idle_timeout=%d", m.IdleTimeout)
	}
	if m.HardTimeout != 0 {
		b = fmt.Appendf(b, " hard_timeout=%d", m.HardTimeout)
	}
	if m.Flags != 0 {
		b = fmt.Appendf(b, " flags=%#x", m.Flags)
	}
	b = appendBuffer(b, m.BufferID)
	b = fmt.Appendf(b, " match=%v", m.Match)
	if m.Command < FlowDelete {
		return string(fmt.Appendf(b, " actions=%v", m.Instructions))
	}
	if m.OutPort != PortAny {
		b = fmt.Appendf(b, " out_port=%v", m.OutPort)
	}
	if m.OutGroup != GroupAny {
		b = fmt.Appendf(b, " out_group=%d", m.OutGroup)
	}
	return string(b)
}

// Reasons of a flow-removed (section 7.4.2).
const (
	FlowRemovedIdleTimeout uint8 = iota
	FlowRemovedHardTimeout
	FlowRemovedDelete
	FlowRemovedGroupDelete
)

// FlowRemoved reports that a flow entry was removed (section 7.4.2).
type FlowRemoved struct {
	Cookie       uint64
	Priority     uint16
	Reason       uint8
	TableID      uint8
	DurationSec  uint32
	DurationNsec uint32 // nanoseconds beyond DurationSec
	IdleTimeout  uint16
	HardTimeout  uint16
	PacketCount  uint64
	ByteCount    uint64
	Match        Match
}

// Type returns TypeFlowRemoved.
func (*FlowRemoved) Type() uint8 { return TypeFlowRemoved }

// Append appends the message.
func (m *FlowRemoved) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put64(begin(dst, TypeFlowRemoved, xid), m.Cookie)
	dst = append(put16(dst, m.Priority), m.Reason, m.TableID)
	dst = put32(put32(dst, m.DurationSec), m.DurationNsec)
	dst = put16(put16(dst, m.IdleTimeout), m.HardTimeout)
	dst = put64(put64(dst, m.PacketCount), m.ByteCount)
	return end(m.Match.append(dst), n)
}

// Decode reads a FLOW_REMOVED.
func (m *FlowRemoved) Decode(msg []byte) error {
	if err := open(msg, TypeFlowRemoved, 56); err != nil {
		return err
	}
	match, off, err := checkMatch(msg, 48, len(msg))
	if err != nil {
		return err
	}
	if off != len(msg) {
		return fail(msg, off, openflow.BadLength, "%d bytes after the match", len(msg)-off)
	}
	*m = FlowRemoved{
		Cookie: u64(msg[8:]), Priority: u16(msg[16:]), Reason: msg[18], TableID: msg[19],
		DurationSec: u32(msg[20:]), DurationNsec: u32(msg[24:]),
		IdleTimeout: u16(msg[28:]), HardTimeout: u16(msg[30:]),
		PacketCount: u64(msg[32:]), ByteCount: u64(msg[40:]), Match: match,
	}
	return nil
}

// String returns the message in one line.
func (m *FlowRemoved) String() string {
	return fmt.Sprintf("FLOW_REMOVED %s table=%d priority=%d cookie=%#x match=%v duration=%d.%09ds packets=%d bytes=%d",
		nameOf([]string{"idle_timeout", "hard_timeout", "delete", "group_delete"}, uint32(m.Reason)),
		m.TableID, m.Priority, m.Cookie, m.Match, m.DurationSec, m.DurationNsec, m.PacketCount, m.ByteCount)
}
