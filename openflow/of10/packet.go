package of10

// Reasons of a PacketIn (section 5.4.1).
const (
	ReasonNoMatch uint8 = 0
	ReasonAction  uint8 = 1
)

// PacketIn brings a packet, or its start, to the controller.
type PacketIn struct {
	BufferID uint32 // NoBuffer when Data is the whole packet and the switch keeps none
	TotalLen uint16 // of the packet, bytes
	InPort   Port
	Reason   uint8
	Data     []byte
}

const packetInLen = 18

// Type returns TypePacketIn.
func (*PacketIn) Type() uint8 { return TypePacketIn }

// Append appends the message.
func (m *PacketIn) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint32(begin(dst, TypePacketIn, xid), m.BufferID)
	dst = be.AppendUint16(dst, m.TotalLen)
	dst = be.AppendUint16(dst, uint16(m.InPort))
	dst = append(dst, m.Reason, 0)
	return end(append(dst, m.Data...), n)
}

// Decode reads a PACKET_IN.
func (m *PacketIn) Decode(msg []byte) error {
	if err := check(msg, TypePacketIn, packetInLen); err != nil {
		return err
	}
	*m = PacketIn{BufferID: be.Uint32(msg[8:]), TotalLen: be.Uint16(msg[12:]), InPort: Port(be.Uint16(msg[14:])),
		Reason: msg[16], Data: msg[packetInLen:]}
	return nil
}

// PacketOut sends a packet, one that the switch keeps or Data, through actions (section 5.3.6).
type PacketOut struct {
	BufferID uint32 // NoBuffer: the packet is Data
	InPort   Port   // PortNone if there is none
	Actions  Actions
	Data     []byte
}

const packetOutLen = 16

// Type returns TypePacketOut.
func (*PacketOut) Type() uint8 { return TypePacketOut }

// Append appends the message.
func (m *PacketOut) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint32(begin(dst, TypePacketOut, xid), m.BufferID)
	dst = be.AppendUint16(dst, uint16(m.InPort))
	dst = be.AppendUint16(dst, uint16(len(m.Actions)))
	return end(append(append(dst, m.Actions...), m.Data...), n)
}

// Decode reads a PACKET_OUT.
func (m *PacketOut) Decode(msg []byte) error {
	if err := check(msg, TypePacketOut, packetOutLen); err != nil {
		return err
	}
	n := int(be.Uint16(msg[14:]))
	if n > len(msg)-packetOutLen {
		return failList(msg, 14, n, len(msg)-packetOutLen)
	}
	actions := msg[packetOutLen : packetOutLen+n : packetOutLen+n]
	*m = PacketOut{BufferID: be.Uint32(msg[8:]), InPort: Port(be.Uint16(msg[12:])), Actions: actions,
		Data: msg[packetOutLen+n:]}
	return m.Actions.validate(msg, packetOutLen)
}
