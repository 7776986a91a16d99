package of10

import "github.com/holdfast-sdn/holdfast/openflow"

// StatsType says what a StatsRequest asks for (section 5.3.5).
type StatsType uint16

// The statistics.
const (
	StatsDesc      StatsType = 0
	StatsFlow      StatsType = 1
	StatsAggregate StatsType = 2
	StatsTable     StatsType = 3
	StatsPort      StatsType = 4
	StatsQueue     StatsType = 5
	StatsVendor    StatsType = 0xffff
)

var statsNames = [...]string{"DESC", "FLOW", "AGGREGATE", "TABLE", "PORT", "QUEUE"}

func (t StatsType) String() string {
	if int(t) < len(statsNames) {
		return statsNames[t]
	}
	if t == StatsVendor {
		return "VENDOR"
	}
	return "UNKNOWN"
}

// FlagReplyMore in a StatsReply says that another with the same xid follows.
const FlagReplyMore uint16 = 1

const statsLen = 12

// Numbers that stand for all.
const (
	AllTables uint8  = 0xff
	AllQueues uint32 = 0xffffffff
)

// StatsRequest asks for statistics. Body is, by StatsType: a FlowStatsRequest (flow,
// aggregate), PortStatsRequest, QueueStatsRequest, a vendor's, or empty.
type StatsRequest struct {
	StatsType StatsType
	Flags     uint16
	Body      []byte
}

// StatsReply answers a StatsRequest. Its iterators and Desc and Aggregate read Body.
type StatsReply struct {
	StatsType StatsType
	Flags     uint16
	Body      []byte
}

// Type returns TypeStatsRequest.
func (*StatsRequest) Type() uint8 { return TypeStatsRequest }

// Type returns TypeStatsReply.
func (*StatsReply) Type() uint8 { return TypeStatsReply }

func appendStats(dst []byte, t uint8, xid uint32, st StatsType, flags uint16, body []byte) []byte {
	n := len(dst)
	dst = be.AppendUint16(begin(dst, t, xid), uint16(st))
	return end(append(be.AppendUint16(dst, flags), body...), n)
}

// Append appends the message.
func (m *StatsRequest) Append(dst []byte, xid uint32) []byte {
	return appendStats(dst, TypeStatsRequest, xid, m.StatsType, m.Flags, m.Body)
}

// Append appends the message.
func (m *StatsReply) Append(dst []byte, xid uint32) []byte {
	return appendStats(dst, TypeStatsReply, xid, m.StatsType, m.Flags, m.Body)
}

// Decode reads a STATS_REQUEST.
func (m *StatsRequest) Decode(msg []byte) error {
	if err := check(msg, TypeStatsRequest, statsLen); err != nil {
		return err
	}
	*m = StatsRequest{StatsType(be.Uint16(msg[8:])), be.Uint16(msg[10:]), msg[statsLen:]}
	switch m.StatsType {
	case StatsDesc, StatsTable:
		return checkBody(msg, 0)
	case StatsFlow, StatsAggregate:
		return checkBody(msg, flowStatsRequestLen)
	case StatsPort, StatsQueue:
		return checkBody(msg, portStatsRequestLen)
	case StatsVendor:
		return check(msg, TypeStatsRequest, statsLen+4)
	}
	return fail(msg, 8, openflow.Unknown, "statistics of type %d", m.StatsType)
}

// Decode reads a STATS_REPLY.
func (m *StatsReply) Decode(msg []byte) error {
	if err := check(msg, TypeStatsReply, statsLen); err != nil {
		return err
	}
	*m = StatsReply{StatsType(be.Uint16(msg[8:])), be.Uint16(msg[10:]), msg[statsLen:]}
	switch m.StatsType {
	case StatsDesc:
		return checkBody(msg, descLen)
	case StatsFlow:
		return validateFlowStats(msg)
	case StatsAggregate:
		return checkBody(msg, aggregateLen)
	case StatsTable:
		return checkList(msg, statsLen, tableStatsLen)
	case StatsPort:
		return checkList(msg, statsLen, portStatsLen)
	case StatsQueue:
		return checkList(msg, statsLen, queueStatsLen)
	case StatsVendor:
		return check(msg, TypeStatsReply, statsLen+4)
	}
	return fail(msg, 8, openflow.Unknown, "statistics of type %d", m.StatsType)
}

func checkBody(msg []byte, size int) error { return checkSize(msg, msg[1], statsLen+size) }

// checkList checks that msg from offset on is entries of size bytes.
func checkList(msg []byte, offset, size int) error {
	if rest := (len(msg) - offset) % size; rest != 0 {
		return fail(msg, len(msg)-rest, openflow.Truncated, "%d bytes of an entry of %d", rest, size)
	}
	return nil
}

// failList makes the error for a list that claims n bytes where room are left.
func failList(msg []byte, offset, n, room int) error {
	return fail(msg, offset, openflow.BadLength, "list of %d bytes where %d are left", n, room)
}

// validateFlowStats checks lengths and actions of every entry.
func validateFlowStats(msg []byte) error {
	for offset := statsLen; offset < len(msg); {
		rest := msg[offset:]
		if len(rest) < flowStatsLen {
			return fail(msg, offset, openflow.Truncated, "%d bytes of an entry of at least %d", len(rest), flowStatsLen)
		}
		n := int(be.Uint16(rest))
		if n < flowStatsLen || n > len(rest) {
			return fail(msg, offset, openflow.BadLength, "entry of %d bytes where %d are left", n, len(rest))
		}
		if err := Actions(rest[flowStatsLen:n]).validate(msg, offset+flowStatsLen); err != nil {
			return err
		}
		offset += n
	}
	return nil
}
