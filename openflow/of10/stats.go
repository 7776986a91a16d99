package of10

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Lengths on the wire (section 5.3.5), without the actions of a flow entry.
const (
	statsLen      = 12
	descLen       = 1056
	aggregateLen  = 24
	flowStatsLen  = 88
	tableStatsLen = 64
	portStatsLen  = 104
	queueStatsLen = 32
)

// statsReplyToV13 translates statistics; the numbers of their types are the same in both versions.
func statsReplyToV13(dst, msg []byte) ([]byte, error) {
	if err := atLeast(msg, statsLen); err != nil {
		return dst, err
	}
	switch part := of13.Part(be.Uint16(msg[8:])); part {
	case of13.PartDesc:
		return fixedStatsToV13(dst, msg, part, descLen)
	case of13.PartAggregate:
		return fixedStatsToV13(dst, msg, part, aggregateLen)
	case of13.PartFlow:
		return flowStatsToV13(dst, msg)
	case of13.PartTable:
		return listStatsToV13(dst, msg, part, tableStatsLen, tableStatsToV13)
	case of13.PartPortStats:
		return listStatsToV13(dst, msg, part, portStatsLen, portStatsToV13)
	case of13.PartQueue:
		return listStatsToV13(dst, msg, part, queueStatsLen, queueStatsToV13)
	default:
		return dst, unsupported(msg, 8, "statistics of type %d", part)
	}
}

// fixedStatsToV13 translates a body of size bytes that is the same in both versions.
func fixedStatsToV13(dst, msg []byte, part of13.Part, size int) ([]byte, error) {
	if err := exactly(msg, statsLen+size); err != nil {
		return dst, err
	}
	w := newReply(dst, part, openflow.XID(msg))
	w.add(append(w.dst, msg[statsLen:]...))
	return w.finish(be.Uint16(msg[10:])), nil
}

// listStatsToV13 translates a body of entries of size bytes.
func listStatsToV13(dst, msg []byte, part of13.Part, size int, toV13 func(dst, b []byte) []byte) ([]byte, error) {
	if err := listFrom(msg, statsLen, size); err != nil {
		return dst, err
	}
	return entriesToV13(dst, msg, part, be.Uint16(msg[10:]), msg[statsLen:], size, toV13), nil
}

// entriesToV13 appends the replies to which the entries of size bytes in list, a part of msg, become.
func entriesToV13(dst, msg []byte, part of13.Part, flags uint16, list []byte, size int,
	toV13 func(dst, b []byte) []byte) []byte {
	w := newReply(dst, part, openflow.XID(msg))
	for ; len(list) >= size; list = list[size:] {
		w.add(toV13(w.dst, list[:size]))
	}
	return w.finish(flags)
}

func tableStatsToV13(dst, b []byte) []byte {
	return append(append(dst, b[0], 0, 0, 0), b[44:tableStatsLen]...) // how many entries, lookups and matches
}

func portStatsToV13(dst, b []byte) []byte {
	dst = pad(be.AppendUint32(dst, uint32(portToV13(be.Uint16(b)))), 4)
	return append(append(dst, b[8:portStatsLen]...), noDuration[:]...) // the 12 counters have the same order
}

func queueStatsToV13(dst, b []byte) []byte {
	dst = be.AppendUint32(dst, uint32(portToV13(be.Uint16(b))))
	return append(append(dst, b[4:queueStatsLen]...), noDuration[:]...)
}

// noDuration stands where 1.0 does not tell how long a port or queue has been there.
var noDuration = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// flowStatsToV13 gives every entry the table 0, since a 1.0 command cannot name its table.
func flowStatsToV13(dst, msg []byte) ([]byte, error) {
	w := newReply(dst, of13.PartFlow, openflow.XID(msg))
	var oxm [matchRoom]byte
	var list of13.Actions
	for off := statsLen; off < len(msg); {
		b := msg[off:]
		if len(b) < flowStatsLen {
			return dst, fail(msg, off, openflow.Truncated, "%d bytes of an entry of at least %d", len(b), flowStatsLen)
		}
		n := int(be.Uint16(b))
		if n < flowStatsLen || n > len(b) {
			return dst, fail(msg, off, openflow.BadLength, "entry of %d bytes where %d are left", n, len(b))
		}
		m, err := match(b[4:4+matchLen]), error(nil)
		if list, err = actionsToV13(list[:0], m, msg, off+flowStatsLen, off+n); err != nil {
			return dst, err
		}
		if replyHeader+flowStatsLen+matchRoom+len(list) > openflow.MaxMessageLen {
			return dst, unsupported(msg, off, "a flow entry with %d bytes of actions", n-flowStatsLen)
		}
		var instructions of13.Instructions
		if len(list) > 0 {
			instructions = instructions.Apply(list)
		}
		w.add(of13.FlowStats{Duration: of13.Duration{Sec: be.Uint32(b[44:]), Nsec: be.Uint32(b[48:])},
			Priority: be.Uint16(b[52:]), IdleTimeout: be.Uint16(b[54:]), HardTimeout: be.Uint16(b[56:]),
			Cookie: be.Uint64(b[64:]), PacketCount: be.Uint64(b[72:]), ByteCount: be.Uint64(b[80:]),
			Match: m.toV13(oxm[:0]), Instructions: instructions}.AppendTo(w.dst))
		off += n
	}
	return w.finish(be.Uint16(msg[10:])), nil
}

// replyWriter appends MULTIPART_REPLY messages, and begins a new one when an entry does not fit the last.
type replyWriter struct {
	dst   []byte
	start int // of the last message in dst
	part  of13.Part
	xid   uint32
}

const replyHeader = 16 // bytes of a MULTIPART_REPLY before its body

func newReply(dst []byte, part of13.Part, xid uint32) *replyWriter {
	w := &replyWriter{part: part, xid: xid}
	w.begin(dst)
	return w
}

func (w *replyWriter) begin(dst []byte) {
	w.start = len(dst)
	w.dst = (&of13.MultipartReply{Part: w.part}).Append(dst, w.xid)
}

// add takes longer, which is w.dst with one entry appended that fits a message of its own.
func (w *replyWriter) add(longer []byte) {
	before := len(w.dst)
	if len(longer)-w.start > openflow.MaxMessageLen {
		entry := slices.Clone(longer[before:])
		w.dst = longer[:before]
		w.begin(w.finish(of13.FlagMore))
		longer = append(w.dst, entry...)
	}
	w.dst = longer
}

// finish completes the last message and returns all.
func (w *replyWriter) finish(flags uint16) []byte {
	be.PutUint16(w.dst[w.start+10:], flags)
	openflow.SetLength(w.dst[w.start:])
	return w.dst
}
