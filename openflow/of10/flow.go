package of10

import "github.com/holdfast-sdn/holdfast/openflow"

// Commands of a FlowMod (section 5.3.3).
const (
	FlowAdd          uint16 = 0
	FlowModify       uint16 = 1
	FlowModifyStrict uint16 = 2
	FlowDelete       uint16 = 3
	FlowDeleteStrict uint16 = 4
)

// Flags of a FlowMod.
const (
	FlagSendFlowRem  uint16 = 1 << 0
	FlagCheckOverlap uint16 = 1 << 1
	FlagEmergency    uint16 = 1 << 2
)

// FlowMod changes the flow table. A match without wildcards beats every priority.
type FlowMod struct {
	Match       Match
	Cookie      uint64
	Command     uint16
	IdleTimeout uint16 // seconds, 0 for none
	HardTimeout uint16 // seconds, 0 for none
	Priority    uint16
	BufferID    uint32
	OutPort     Port // deletions: only entries with this output; PortNone for all
	Flags       uint16
	Actions     Actions // none: drop
}

const flowModLen = 72

// Type returns TypeFlowMod.
func (*FlowMod) Type() uint8 { return TypeFlowMod }

// Append appends the message.
func (m *FlowMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = m.Match.Append(begin(dst, TypeFlowMod, xid))
	dst = be.AppendUint64(dst, m.Cookie)
	for _, v := range [...]uint16{m.Command, m.IdleTimeout, m.HardTimeout, m.Priority} {
		dst = be.AppendUint16(dst, v)
	}
	dst = be.AppendUint32(dst, m.BufferID)
	dst = be.AppendUint16(dst, uint16(m.OutPort))
	dst = be.AppendUint16(dst, m.Flags)
	return end(append(dst, m.Actions...), n)
}

// Decode reads a FLOW_MOD.
func (m *FlowMod) Decode(msg []byte) error {
	if err := check(msg, TypeFlowMod, flowModLen); err != nil {
		return err
	}
	m.Match.parse(msg[8:])
	m.Cookie = be.Uint64(msg[48:])
	m.Command = be.Uint16(msg[56:])
	m.IdleTimeout = be.Uint16(msg[58:])
	m.HardTimeout = be.Uint16(msg[60:])
	m.Priority = be.Uint16(msg[62:])
	m.BufferID = be.Uint32(msg[64:])
	m.OutPort = Port(be.Uint16(msg[68:]))
	m.Flags = be.Uint16(msg[70:])
	m.Actions = msg[flowModLen:]
	if m.Command > FlowDeleteStrict {
		return fail(msg, 56, openflow.BadValue, "flow-mod command %d", m.Command)
	}
	return m.Actions.validate(msg, flowModLen)
}

// Reasons of a FlowRemoved (section 5.4.2).
const (
	RemovedIdleTimeout uint8 = 0
	RemovedHardTimeout uint8 = 1
	RemovedDelete      uint8 = 2
)

// FlowRemoved tells that an entry with FlagSendFlowRem is gone.
type FlowRemoved struct {
	Match                     Match
	Cookie                    uint64
	Priority                  uint16
	Reason                    uint8
	DurationSec, DurationNsec uint32 // how long it was there
	IdleTimeout               uint16 // seconds
	Packets, Bytes            uint64
}

const flowRemovedLen = 88

// Type returns TypeFlowRemoved.
func (*FlowRemoved) Type() uint8 { return TypeFlowRemoved }

// Append appends the message.
func (m *FlowRemoved) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = m.Match.Append(begin(dst, TypeFlowRemoved, xid))
	dst = be.AppendUint64(dst, m.Cookie)
	dst = be.AppendUint16(dst, m.Priority)
	dst = append(dst, m.Reason, 0)
	dst = be.AppendUint32(dst, m.DurationSec)
	dst = be.AppendUint32(dst, m.DurationNsec)
	dst = append(be.AppendUint16(dst, m.IdleTimeout), 0, 0)
	dst = be.AppendUint64(dst, m.Packets)
	return end(be.AppendUint64(dst, m.Bytes), n)
}

// Decode reads a FLOW_REMOVED.
func (m *FlowRemoved) Decode(msg []byte) error {
	if err := checkSize(msg, TypeFlowRemoved, flowRemovedLen); err != nil {
		return err
	}
	m.Match.parse(msg[8:])
	m.Cookie = be.Uint64(msg[48:])
	m.Priority, m.Reason = be.Uint16(msg[56:]), msg[58]
	m.DurationSec, m.DurationNsec = be.Uint32(msg[60:]), be.Uint32(msg[64:])
	m.IdleTimeout = be.Uint16(msg[68:])
	m.Packets, m.Bytes = be.Uint64(msg[72:]), be.Uint64(msg[80:])
	return nil
}
