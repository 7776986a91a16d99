package of10

import "iter"

// Sizes of the bodies on the wire, without the actions of a flow.
const (
	flowStatsRequestLen = 44
	portStatsRequestLen = 8
	descLen             = 1056
	flowStatsLen        = 88
	aggregateLen        = 24
	tableStatsLen       = 64
	portStatsLen        = 104
	queueStatsLen       = 32
)

// FlowStatsRequest is the body of a request for StatsFlow or StatsAggregate.
type FlowStatsRequest struct {
	Match   Match
	TableID uint8 // AllTables for all
	OutPort Port  // only entries with this output; PortNone for all
}

// Append appends the body.
func (r *FlowStatsRequest) Append(dst []byte) []byte {
	dst = append(r.Match.Append(dst), r.TableID, 0)
	return be.AppendUint16(dst, uint16(r.OutPort))
}

// Flow returns the body of a request for StatsFlow or StatsAggregate; false if it is not one.
func (m *StatsRequest) Flow() (r FlowStatsRequest, ok bool) {
	if m.StatsType != StatsFlow && m.StatsType != StatsAggregate || len(m.Body) != flowStatsRequestLen {
		return r, false
	}
	r.Match.parse(m.Body)
	r.TableID, r.OutPort = m.Body[40], Port(be.Uint16(m.Body[42:]))
	return r, true
}

// PortStatsRequest is the body of a request for StatsPort; PortNone asks for all.
type PortStatsRequest struct{ Port Port }

// Append appends the body.
func (r PortStatsRequest) Append(dst []byte) []byte {
	return append(be.AppendUint16(dst, uint16(r.Port)), 0, 0, 0, 0, 0, 0)
}

// Port returns the body of a request for StatsPort; false if it is not one.
func (m *StatsRequest) Port() (PortStatsRequest, bool) {
	if m.StatsType != StatsPort || len(m.Body) != portStatsRequestLen {
		return PortStatsRequest{}, false
	}
	return PortStatsRequest{Port(be.Uint16(m.Body))}, true
}

// QueueStatsRequest is the body of a request for StatsQueue; PortAll and AllQueues ask for all.
type QueueStatsRequest struct {
	Port  Port
	Queue uint32
}

// Append appends the body.
func (r QueueStatsRequest) Append(dst []byte) []byte {
	return be.AppendUint32(append(be.AppendUint16(dst, uint16(r.Port)), 0, 0), r.Queue)
}

// Queue returns the body of a request for StatsQueue; false if it is not one.
func (m *StatsRequest) Queue() (QueueStatsRequest, bool) {
	if m.StatsType != StatsQueue || len(m.Body) != portStatsRequestLen {
		return QueueStatsRequest{}, false
	}
	return QueueStatsRequest{Port(be.Uint16(m.Body)), be.Uint32(m.Body[4:])}, true
}

// Desc describes a switch. Each text ends at its first zero byte.
type Desc struct {
	Manufacturer, Hardware, Software [256]byte
	Serial                           [32]byte
	Datapath                         [256]byte
}

// Append appends the body.
func (d *Desc) Append(dst []byte) []byte {
	dst = append(append(append(dst, d.Manufacturer[:]...), d.Hardware[:]...), d.Software[:]...)
	return append(append(dst, d.Serial[:]...), d.Datapath[:]...)
}

// Desc returns the body of a StatsDesc reply; false if it is not one.
func (m *StatsReply) Desc() (Desc, bool) {
	if m.StatsType != StatsDesc || len(m.Body) != descLen {
		return Desc{}, false
	}
	b := m.Body
	return Desc{[256]byte(b), [256]byte(b[256:]), [256]byte(b[512:]), [32]byte(b[768:]), [256]byte(b[800:])}, true
}

// FlowStats is one entry of a StatsFlow reply.
type FlowStats struct {
	TableID                            uint8
	Match                              Match
	DurationSec, DurationNsec          uint32
	Priority, IdleTimeout, HardTimeout uint16 // timeouts in seconds
	Cookie, Packets, Bytes             uint64
	Actions                            Actions
}

// Append appends the entry.
func (f *FlowStats) Append(dst []byte) []byte {
	dst = be.AppendUint16(dst, uint16(flowStatsLen+len(f.Actions)))
	dst = f.Match.Append(append(dst, f.TableID, 0))
	dst = be.AppendUint32(dst, f.DurationSec)
	dst = be.AppendUint32(dst, f.DurationNsec)
	for _, v := range [...]uint16{f.Priority, f.IdleTimeout, f.HardTimeout, 0, 0, 0} {
		dst = be.AppendUint16(dst, v)
	}
	for _, v := range [...]uint64{f.Cookie, f.Packets, f.Bytes} {
		dst = be.AppendUint64(dst, v)
	}
	return append(dst, f.Actions...)
}

// Flows walks the entries of a StatsFlow reply.
func (m *StatsReply) Flows() iter.Seq[FlowStats] {
	return func(yield func(FlowStats) bool) {
		if m.StatsType != StatsFlow {
			return
		}
		for b := m.Body; len(b) >= flowStatsLen; {
			n := int(be.Uint16(b))
			if n < flowStatsLen || n > len(b) {
				return
			}
			f := FlowStats{TableID: b[2], DurationSec: be.Uint32(b[44:]), DurationNsec: be.Uint32(b[48:]),
				Priority: be.Uint16(b[52:]), IdleTimeout: be.Uint16(b[54:]), HardTimeout: be.Uint16(b[56:]),
				Cookie: be.Uint64(b[64:]), Packets: be.Uint64(b[72:]), Bytes: be.Uint64(b[80:]),
				Actions: Actions(b[flowStatsLen:n:n])}
			f.Match.parse(b[4:])
			if !yield(f) {
				return
			}
			b = b[n:]
		}
	}
}

// Aggregate is the body of a StatsAggregate reply.
type Aggregate struct {
	Packets, Bytes uint64
	Flows          uint32
}

// Append appends the body.
func (a Aggregate) Append(dst []byte) []byte {
	dst = be.AppendUint64(be.AppendUint64(dst, a.Packets), a.Bytes)
	return append(be.AppendUint32(dst, a.Flows), 0, 0, 0, 0)
}

// Aggregate returns the body of a StatsAggregate reply; false if it is not one.
func (m *StatsReply) Aggregate() (Aggregate, bool) {
	if m.StatsType != StatsAggregate || len(m.Body) != aggregateLen {
		return Aggregate{}, false
	}
	return Aggregate{be.Uint64(m.Body), be.Uint64(m.Body[8:]), be.Uint32(m.Body[16:])}, true
}

// TableStats is one entry of a StatsTable reply.
type TableStats struct {
	TableID         uint8
	Name            [32]byte
	Wildcards       Wildcards // those that the table supports
	MaxEntries      uint32
	Active          uint32
	Lookup, Matched uint64 // packets
}

// Append appends the entry.
func (t *TableStats) Append(dst []byte) []byte {
	dst = append(append(dst, t.TableID, 0, 0, 0), t.Name[:]...)
	for _, v := range [...]uint32{uint32(t.Wildcards), t.MaxEntries, t.Active} {
		dst = be.AppendUint32(dst, v)
	}
	return be.AppendUint64(be.AppendUint64(dst, t.Lookup), t.Matched)
}

// Tables walks the entries of a StatsTable reply.
func (m *StatsReply) Tables() iter.Seq[TableStats] {
	return entries(m, StatsTable, tableStatsLen, func(b []byte) TableStats {
		return TableStats{b[0], [32]byte(b[4:]), Wildcards(be.Uint32(b[36:])), be.Uint32(b[40:]), be.Uint32(b[44:]),
			be.Uint64(b[48:]), be.Uint64(b[56:])}
	})
}

// PortStats is one entry of a StatsPort reply; a counter of all ones is not kept.
type PortStats struct {
	Port                            Port
	RxPackets, TxPackets            uint64
	RxBytes, TxBytes                uint64
	RxDropped, TxDropped            uint64
	RxErrors, TxErrors              uint64
	RxFrameErr, RxOverErr, RxCRCErr uint64
	Collisions                      uint64
}

func (p *PortStats) counters() [12]*uint64 {
	return [...]*uint64{&p.RxPackets, &p.TxPackets, &p.RxBytes, &p.TxBytes, &p.RxDropped, &p.TxDropped,
		&p.RxErrors, &p.TxErrors, &p.RxFrameErr, &p.RxOverErr, &p.RxCRCErr, &p.Collisions}
}

// Append appends the entry.
func (p *PortStats) Append(dst []byte) []byte {
	dst = append(be.AppendUint16(dst, uint16(p.Port)), 0, 0, 0, 0, 0, 0)
	for _, c := range p.counters() {
		dst = be.AppendUint64(dst, *c)
	}
	return dst
}

// Ports walks the entries of a StatsPort reply.
func (m *StatsReply) Ports() iter.Seq[PortStats] {
	return entries(m, StatsPort, portStatsLen, func(b []byte) PortStats {
		p := PortStats{Port: Port(be.Uint16(b))}
		for i, c := range p.counters() {
			*c = be.Uint64(b[8+8*i:])
		}
		return p
	})
}

// QueueStats is one entry of a StatsQueue reply.
type QueueStats struct {
	Port                         Port
	Queue                        uint32
	TxBytes, TxPackets, TxErrors uint64
}

// Append appends the entry.
func (q *QueueStats) Append(dst []byte) []byte {
	dst = QueueStatsRequest{q.Port, q.Queue}.Append(dst)
	for _, v := range [...]uint64{q.TxBytes, q.TxPackets, q.TxErrors} {
		dst = be.AppendUint64(dst, v)
	}
	return dst
}

// Queues walks the entries of a StatsQueue reply.
func (m *StatsReply) Queues() iter.Seq[QueueStats] {
	return entries(m, StatsQueue, queueStatsLen, func(b []byte) QueueStats {
		return QueueStats{Port(be.Uint16(b)), be.Uint32(b[4:]), be.Uint64(b[8:]), be.Uint64(b[16:]), be.Uint64(b[24:])}
	})
}

// entries walks the entries of a reply of type t, each of size bytes.
func entries[T any](m *StatsReply, t StatsType, size int, parse func([]byte) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		if m.StatsType != t {
			return
		}
		for b := m.Body; len(b) >= size; b = b[size:] {
			if !yield(parse(b)) {
				return
			}
		}
	}
}
