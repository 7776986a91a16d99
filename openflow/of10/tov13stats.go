package of10

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// replyWriter appends MULTIPART_REPLY messages, and begins a new one when an entry does not
// fit the last.
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

// noDuration stands where 1.0 does not tell how long a port or queue has been there.
var noDuration = of13.Duration{Sec: 0xffffffff, Nsec: 0xffffffff}

func statsReplyToV13(dst, msg []byte) ([]byte, error) {
	var m StatsReply
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	xid := openflow.XID(msg)
	switch m.StatsType {
	case StatsDesc, StatsAggregate: // number and body are the same in both versions
		w := newReply(dst, of13.Part(m.StatsType), xid)
		w.add(append(w.dst, m.Body...))
		return w.finish(m.Flags), nil
	case StatsFlow:
		return flowStatsToV13(dst, msg, &m)
	case StatsTable:
		w := newReply(dst, of13.PartTable, xid)
		for t := range m.Tables() {
			w.add(of13.TableStats{TableID: t.TableID, ActiveCount: t.Active, LookupCount: t.Lookup,
				MatchedCount: t.Matched}.AppendTo(w.dst))
		}
		return w.finish(m.Flags), nil
	case StatsPort:
		w := newReply(dst, of13.PartPortStats, xid)
		for p := range m.Ports() {
			w.add(p.toV13().AppendTo(w.dst))
		}
		return w.finish(m.Flags), nil
	case StatsQueue:
		w := newReply(dst, of13.PartQueue, xid)
		for q := range m.Queues() {
			w.add(of13.QueueStats{Port: q.Port.toV13(), Queue: q.Queue, TxBytes: q.TxBytes, TxPackets: q.TxPackets,
				TxErrors: q.TxErrors, Duration: noDuration}.AppendTo(w.dst))
		}
		return w.finish(m.Flags), nil
	}
	return dst, unsupported(msg, 8, "%v statistics", m.StatsType)
}

func (p *PortStats) toV13() of13.PortStats {
	return of13.PortStats{Port: p.Port.toV13(), RxPackets: p.RxPackets, TxPackets: p.TxPackets, RxBytes: p.RxBytes,
		TxBytes:   p.TxBytes,
		RxDropped: p.RxDropped, TxDropped: p.TxDropped, RxErrors: p.RxErrors, TxErrors: p.TxErrors,
		RxFrameErrors: p.RxFrameErr, RxOverErrors: p.RxOverErr, RxCRCErrors: p.RxCRCErr, Collisions: p.Collisions,
		Duration: noDuration}
}

// flowStatsToV13 gives every entry the table 0, since a 1.0 command cannot name its table.
func flowStatsToV13(dst, msg []byte, m *StatsReply) ([]byte, error) {
	w, offset := newReply(dst, of13.PartFlow, openflow.XID(msg)), statsLen
	var fields [matchRoom]byte
	var list of13.Actions
	for f := range m.Flows() {
		var err error
		if list, err = f.Actions.toV13(list[:0], &f.Match, msg, offset+flowStatsLen); err != nil {
			return dst, err
		}
		if replyHeader+flowStatsLen+matchRoom+len(list) > openflow.MaxMessageLen {
			return dst, unsupported(msg, offset, "a flow entry with %d bytes of actions", len(f.Actions))
		}
		var instructions of13.Instructions
		if len(list) > 0 {
			instructions = instructions.Apply(list)
		}
		w.add(of13.FlowStats{Duration: of13.Duration{Sec: f.DurationSec, Nsec: f.DurationNsec},
			Priority: f.Priority, IdleTimeout: f.IdleTimeout, HardTimeout: f.HardTimeout,
			Cookie: f.Cookie, PacketCount: f.Packets, ByteCount: f.Bytes,
			Match: f.Match.toV13(fields[:0]), Instructions: instructions}.AppendTo(w.dst))
		offset += flowStatsLen + len(f.Actions)
	}
	return w.finish(m.Flags), nil
}
