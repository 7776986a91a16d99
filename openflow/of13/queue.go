package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// QueueAll stands for every queue in requests.
const QueueAll uint32 = 0xffffffff

// QueueRateUnknown is a rate that is not configured, like any rate above 1000.
const QueueRateUnknown uint16 = 0xffff

// QueueGetConfigRequest asks for the queues of a port (section 7.3.6).
type QueueGetConfigRequest struct{ Port Port }

// Type returns TypeQueueGetConfigRequest.
func (*QueueGetConfigRequest) Type() uint8 { return TypeQueueGetConfigRequest }

// Append appends the message.
func (m *QueueGetConfigRequest) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(begin(dst, TypeQueueGetConfigRequest, xid), uint32(m.Port))
	return end(pad(dst, 4), n)
}

// Decode reads a QUEUE_GET_CONFIG_REQUEST.
func (m *QueueGetConfigRequest) Decode(msg []byte) error {
	if err := openExact(msg, TypeQueueGetConfigRequest, 16); err != nil {
		return err
	}
	m.Port = Port(u32(msg[8:]))
	return nil
}

// QueueGetConfigReply lists the queues of a port.
type QueueGetConfigReply struct {
	Port   Port
	Queues List[Queue]
}

// Type returns TypeQueueGetConfigReply.
func (*QueueGetConfigReply) Type() uint8 { return TypeQueueGetConfigReply }

// Append appends the message.
func (m *QueueGetConfigReply) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(begin(dst, TypeQueueGetConfigReply, xid), uint32(m.Port))
	return end(append(pad(dst, 4), m.Queues...), n)
}

// Decode reads a QUEUE_GET_CONFIG_REPLY.
func (m *QueueGetConfigReply) Decode(msg []byte) error {
	if err := open(msg, TypeQueueGetConfigReply, 16); err != nil {
		return err
	}
	if err := checkList[Queue](msg, 16, len(msg)); err != nil {
		return err
	}
	*m = QueueGetConfigReply{Port(u32(msg[8:])), List[Queue](msg[16:])}
	return nil
}

// Queue describes a queue of a port (section 7.2.2).
type Queue struct {
	ID         uint32
	Port       Port
	Properties List[QueueProperty]
}

func (Queue) shape() shape { return shape{name: "queue", least: 16, lenAt: 8} }

func (Queue) check(msg []byte, off, end int) error {
	return checkList[QueueProperty](msg, off+16, end)
}

func (Queue) parse(b []byte) Queue {
	return Queue{u32(b), Port(u32(b[4:])), List[QueueProperty](b[16:])}
}

// AppendTo appends the queue as it is on the wire.
func (q Queue) AppendTo(dst []byte) []byte {
	dst = put32(put32(dst, q.ID), uint32(q.Port))
	dst = pad(put16(dst, uint16(16+len(q.Properties))), 6)
	return append(dst, q.Properties...)
}

// Properties of a queue.
const (
	QueueMinRate      uint16 = 1
	QueueMaxRate      uint16 = 2
	QueueExperimenter uint16 = 0xffff
)

// QueueProperty is one property of a queue.
type QueueProperty struct {
	Property     uint16
	Rate         uint16 // QueueMinRate, QueueMaxRate: in tenths of a percent
	Experimenter uint32 // QueueExperimenter
	Data         []byte // QueueExperimenter
}

func (QueueProperty) shape() shape { return shape{name: "queue property", least: 16, lenAt: 2} }

func (QueueProperty) check(msg []byte, off, end int) error {
	switch t := u16(msg[off:]); {
	case t == QueueExperimenter:
	case t != QueueMinRate && t != QueueMaxRate:
		return fail(msg, off, openflow.Unknown, "queue property %d", t)
	case end-off != 16:
		return fail(msg, off+2, openflow.BadLength, "queue property of %d bytes, not 16", end-off)
	}
	return nil
}

func (QueueProperty) parse(b []byte) QueueProperty {
	if t := u16(b); t != QueueExperimenter {
		return QueueProperty{Property: t, Rate: u16(b[8:])}
	}
	return QueueProperty{Property: QueueExperimenter, Experimenter: u32(b[8:]), Data: b[16:]}
}

// AppendTo appends the property as it is on the wire.
func (p QueueProperty) AppendTo(dst []byte) []byte {
	dst = put16(dst, p.Property)
	if p.Property != QueueExperimenter {
		return pad(put16(pad(put16(dst, 16), 4), p.Rate), 6)
	}
	dst = put32(pad(put16(dst, uint16(16+len(p.Data))), 4), p.Experimenter)
	return append(pad(dst, 4), p.Data...)
}
