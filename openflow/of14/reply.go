package of14

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// part says how the elements of a MULTIPART_REPLY are translated: each has at least least bytes, and the 16 bits at
// lenAt say how many.
type part struct {
	name         string
	lenAt, least int
	toV13        func(dst, msg []byte, off, end int) ([]byte, error)
}

var (
	partPortDesc      = part{"a port", 4, portLen, portToV13}
	partPortStats     = part{"counters of a port", 0, portStatsLen, portStatsToV13}
	partQueueStats    = part{"counters of a queue", 0, 48, queueStatsToV13}
	partFlowDesc      = part{"a flow entry", 0, 24 + 4, flowDescToV13}
	partGroupDesc     = part{"a group", 0, 16, groupDescToV13}
	partTableFeatures = part{"features of a table", 0, 64, tableFeaturesToV13}
)

func replyToV13(dst, msg []byte) ([]byte, error) {
	if err := atLeast(msg, bodyAt); err != nil {
		return dst, err
	}
	v15 := msg[0] == openflow.Version15
	switch p := of13.Part(be.Uint16(msg[8:])); p {
	case of13.PartPortDesc:
		return partPortDesc.reply(dst, msg)
	case of13.PartPortStats:
		return partPortStats.reply(dst, msg)
	case of13.PartQueue:
		return partQueueStats.reply(dst, msg)
	case of13.PartTableFeatures:
		return partTableFeatures.reply(dst, msg)
	case partQueueDesc:
		return queueDescToV13(dst, msg)
	case of13.PartFlow:
		if v15 {
			return partFlowDesc.reply(dst, msg)
		}
	case of13.PartGroupDesc:
		if v15 {
			return partGroupDesc.reply(dst, msg)
		}
	case of13.PartAggregate:
		if v15 {
			return aggregateToV13(dst, msg)
		}
	case of13.PartMeterFeatures:
		if v15 && len(msg) == bodyAt+24 {
			return checked(relabel(dst, msg[:bodyAt+16], of13.Version), len(dst), msg)
		}
	}
	return same(dst, msg)
}

// reply translates the elements. When they do not fit one message any more, there are more of them.
func (p *part) reply(dst, msg []byte) ([]byte, error) {
	start := len(dst) // of all
	n := start        // of the last message
	begin := func() {
		n = len(dst)
		dst = relabel(dst, msg[:bodyAt], of13.Version)
	}
	begin()
	for off := bodyAt; off < len(msg); {
		size, err := sized(msg, off, len(msg), p.lenAt, p.least, p.name)
		before := len(dst)
		if err == nil {
			dst, err = p.toV13(dst, msg, off, off+size)
		}
		if err == nil && len(dst)-before > openflow.MaxMessageLen-bodyAt {
			err = unsupported(msg, off, "%s of this size", p.name)
		}
		if err != nil {
			return dst[:start], err
		}
		if len(dst)-n > openflow.MaxMessageLen {
			element := slices.Clone(dst[before:])
			dst = dst[:before]
			be.PutUint16(dst[n+10:], of13.FlagMore)
			if dst, err = checked(dst, n, msg); err != nil {
				return dst[:start], err
			}
			begin()
			dst = append(dst, element...)
		}
		off += size
	}
	dst, err := checked(dst, n, msg)
	if err != nil {
		dst = dst[:start]
	}
	return dst, err
}

func queueStatsToV13(dst, msg []byte, off, _ int) ([]byte, error) {
	return append(dst, msg[off+8:off+48]...), nil
}

// flowDescToV13 appends an entry of 1.5, whose counters are OXS.
func flowDescToV13(dst, msg []byte, off, end int) ([]byte, error) {
	match, at, err := matchAt(msg, off+24, end)
	if err != nil {
		return dst, err
	}
	s, at, err := statsAt(msg, at, end)
	if err != nil {
		return dst, err
	}
	f := of13.FlowStats{TableID: msg[off+4], Duration: s.duration, Priority: be.Uint16(msg[off+6:]),
		IdleTimeout: be.Uint16(msg[off+8:]),
		HardTimeout: be.Uint16(msg[off+10:]), Flags: be.Uint16(msg[off+12:]), Cookie: be.Uint64(msg[off+16:]),
		PacketCount: s.packets, ByteCount: s.bytes, Match: match}
	n := len(dst)
	if dst, err = instructionsToV13(f.AppendTo(dst), msg, at, end); err != nil {
		return dst, err
	}
	be.PutUint16(dst[n:], uint16(len(dst)-n)) // of more than 16 bits: then it does not fit a message either
	return dst, nil
}

func aggregateToV13(dst, msg []byte) ([]byte, error) {
	s, off, err := statsAt(msg, bodyAt, len(msg))
	if err == nil && off != len(msg) {
		err = fail(msg, off, openflow.BadLength, "%d bytes after the statistics", len(msg)-off)
	}
	if err != nil {
		return dst, err
	}
	n := len(dst)
	a := of13.AggregateStats{PacketCount: s.packets, ByteCount: s.bytes, FlowCount: s.flows}
	return checked(a.AppendTo(relabel(dst, msg[:bodyAt], of13.Version)), n, msg)
}

// tableFeaturesToV13 leaves out the properties that 1.3 does not have.
func tableFeaturesToV13(dst, msg []byte, off, end int) ([]byte, error) {
	const fixed = 64
	n := len(dst)
	dst = append(dst, msg[off:off+fixed]...)
	clear(dst[n+3 : n+8]) // command and features of 1.5
	err := properties(msg, off+fixed, end, func(typ uint16, p []byte) {
		if typ <= of13.TableApplySetFieldMiss || typ >= of13.TableExperimenter {
			dst = pad(append(dst, p...), padded(len(p))-len(p))
		}
	})
	be.PutUint16(dst[n:], uint16(len(dst)-n))
	return dst, err
}

// queueDescToV13 makes a message of its own of each part. It is about the port of the first queue.
func queueDescToV13(dst, msg []byte) ([]byte, error) {
	m := of13.QueueGetConfigReply{Port: of13.PortAny}
	for off := bodyAt; off < len(msg); {
		size, err := sized(msg, off, len(msg), 8, 16, "a queue")
		if err != nil {
			return dst, err
		}
		q := of13.Queue{Port: of13.Port(be.Uint32(msg[off:])), ID: be.Uint32(msg[off+4:])}
		err = properties(msg, off+16, off+size, func(typ uint16, p []byte) {
			if (typ == of13.QueueMinRate || typ == of13.QueueMaxRate) && len(p) == 8 {
				q.Properties = q.Properties.With(of13.QueueProperty{Property: typ, Rate: be.Uint16(p[4:])})
			}
		})
		if err != nil {
			return dst, err
		}
		if off == bodyAt {
			m.Port = q.Port
		}
		if m.Queues = m.Queues.With(q); bodyAt+len(m.Queues) > openflow.MaxMessageLen {
			return dst, unsupported(msg, off, "so many queues in one message")
		}
		off += size
	}
	return m.Append(dst, openflow.XID(msg)), nil
}
