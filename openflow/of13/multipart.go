package of13

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Part is the type of a multipart message (section 7.3.5).
type Part uint16

// The parts.
const (
	PartDesc Part = iota
	PartFlow
	PartAggregate
	PartTable
	PartPortStats
	PartQueue
	PartGroup
	PartGroupDesc
	PartGroupFeatures
	PartMeter
	PartMeterConfig
	PartMeterFeatures
	PartTableFeatures
	PartPortDesc
	PartExperimenter Part = 0xffff
)

// FlagMore in Flags says that more messages with the same xid follow.
const FlagMore uint16 = 1

const multipartLen = 16

// parts has the name of each part, and the functions that check the bodies of its request and reply.
var parts = [...]struct {
	name           string
	request, reply func(msg []byte) error
}{
	PartDesc:          {"DESC", checkNothing, checkOne[Desc]},
	PartFlow:          {"FLOW", checkFlowRequest, checkAll[FlowStats]},
	PartAggregate:     {"AGGREGATE", checkFlowRequest, checkOne[AggregateStats]},
	PartTable:         {"TABLE", checkNothing, checkAll[TableStats]},
	PartPortStats:     {"PORT_STATS", checkOne[idRequest], checkAll[PortStats]},
	PartQueue:         {"QUEUE", checkOne[QueueStatsRequest], checkAll[QueueStats]},
	PartGroup:         {"GROUP", checkOne[idRequest], checkAll[GroupStats]},
	PartGroupDesc:     {"GROUP_DESC", checkNothing, checkAll[GroupDesc]},
	PartGroupFeatures: {"GROUP_FEATURES", checkNothing, checkOne[GroupFeatures]},
	PartMeter:         {"METER", checkOne[idRequest], checkAll[MeterStatistics]},
	PartMeterConfig:   {"METER_CONFIG", checkOne[idRequest], checkAll[MeterConfig]},
	PartMeterFeatures: {"METER_FEATURES", checkNothing, checkOne[MeterFeatures]},
	PartTableFeatures: {"TABLE_FEATURES", checkAll[TableFeatures], checkAll[TableFeatures]},
	PartPortDesc:      {"PORT_DESC", checkNothing, checkAll[PortDesc]},
}

func (p Part) String() string {
	switch {
	case int(p) < len(parts):
		return parts[p].name
	case p == PartExperimenter:
		return "EXPERIMENTER"
	}
	return fmt.Sprintf("unknown(%d)", uint16(p))
}

func checkNothing(msg []byte) error {
	if len(msg) != multipartLen {
		return fail(msg, multipartLen, openflow.BadLength, "%d bytes of body where none belong", len(msg)-multipartLen)
	}
	return nil
}

// checkOne checks a body that is one element of fixed length.
func checkOne[T interface{ shape() shape }](msg []byte) error {
	var t T
	s := t.shape()
	switch n := len(msg) - multipartLen; {
	case n < s.least:
		return fail(msg, len(msg), openflow.Truncated, "%s has %d bytes, %d left", s.name, s.least, n)
	case n > s.least:
		return fail(msg, multipartLen+s.least, openflow.BadLength, "%s has %d bytes, body %d", s.name, s.least, n)
	}
	return nil
}

// checkAll checks a body that is a list.
func checkAll[T element[T]](msg []byte) error { return checkList[T](msg, multipartLen, len(msg)) }

func checkExperimenterPart(msg []byte) error {
	if len(msg) < multipartLen+8 {
		return fail(msg, len(msg), openflow.Truncated, "an experimenter's part begins with 8 bytes, %d left",
			len(msg)-multipartLen)
	}
	return nil
}

// MultipartRequest asks a switch for descriptions or statistics (section 7.3.5). Make the body with
// AppendTo of its type, or With of a List.
type MultipartRequest struct {
	Part  Part
	Flags uint16
	Body  []byte
}

// Type returns TypeMultipartRequest.
func (*MultipartRequest) Type() uint8 { return TypeMultipartRequest }

// Append appends the message.
func (m *MultipartRequest) Append(dst []byte, xid uint32) []byte {
	return appendMultipart(dst, TypeMultipartRequest, xid, m.Part, m.Flags, m.Body)
}

// Decode reads a MULTIPART_REQUEST.
func (m *MultipartRequest) Decode(msg []byte) error {
	if err := open(msg, TypeMultipartRequest, multipartLen); err != nil {
		return err
	}
	p := Part(u16(msg[8:]))
	check := checkExperimenterPart
	if int(p) < len(parts) {
		check = parts[p].request
	}
	if err := checkPart(msg, p, check); err != nil {
		return err
	}
	*m = MultipartRequest{p, u16(msg[10:]), msg[multipartLen:]}
	return nil
}

// MultipartReply answers a MultipartRequest, or is a piece of the answer. The methods named after parts
// read the body; for another part they return nothing.
type MultipartReply struct {
	Part  Part
	Flags uint16
	Body  []byte
}

// Type returns TypeMultipartReply.
func (*MultipartReply) Type() uint8 { return TypeMultipartReply }

// Append appends the message.
func (m *MultipartReply) Append(dst []byte, xid uint32) []byte {
	return appendMultipart(dst, TypeMultipartReply, xid, m.Part, m.Flags, m.Body)
}

// Decode reads a MULTIPART_REPLY.
func (m *MultipartReply) Decode(msg []byte) error {
	if err := open(msg, TypeMultipartReply, multipartLen); err != nil {
		return err
	}
	p := Part(u16(msg[8:]))
	check := checkExperimenterPart
	if int(p) < len(parts) {
		check = parts[p].reply
	}
	if err := checkPart(msg, p, check); err != nil {
		return err
	}
	*m = MultipartReply{p, u16(msg[10:]), msg[multipartLen:]}
	return nil
}

func checkPart(msg []byte, p Part, check func([]byte) error) error {
	if int(p) >= len(parts) && p != PartExperimenter {
		return fail(msg, 8, openflow.Unknown, "multipart type %d", uint16(p))
	}
	return check(msg)
}

func appendMultipart(dst []byte, t uint8, xid uint32, p Part, flags uint16, body []byte) []byte {
	n := len(dst)
	dst = put16(put16(begin(dst, t, xid), uint16(p)), flags)
	return end(append(pad(dst, 4), body...), n)
}

// String returns part, flags and the length of the body.
func (m *MultipartRequest) String() string {
	return fmt.Sprintf("MULTIPART_REQUEST %v flags=%#x body=%d", m.Part, m.Flags, len(m.Body))
}

// String returns part, flags and the length of the body.
func (m *MultipartReply) String() string {
	return fmt.Sprintf("MULTIPART_REPLY %v flags=%#x body=%d", m.Part, m.Flags, len(m.Body))
}
