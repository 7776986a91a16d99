package of13

// Desc describes the switch, in PartDesc (section 7.3.5.1).
type Desc struct {
	Manufacturer string // this and the next two: at most 255 bytes
	Hardware     string
	Software     string
	Serial       string // at most 31 bytes
	Datapath     string // for people; at most 255 bytes
}

const descLen = 1056

func (Desc) shape() shape                 { return shape{name: "description", least: descLen, lenAt: fixed} }
func (Desc) check([]byte, int, int) error { return nil }

func (Desc) parse(b []byte) Desc {
	return Desc{cString(b[:256]), cString(b[256:512]), cString(b[512:768]), cString(b[768:800]), cString(b[800:1056])}
}

// AppendTo appends the body.
func (d Desc) AppendTo(dst []byte) []byte {
	for _, s := range [...]string{d.Manufacturer, d.Hardware, d.Software} {
		dst = putString(dst, s, 256)
	}
	return putString(putString(dst, d.Serial, 32), d.Datapath, 256)
}

// Duration is the time since something was installed.
type Duration struct{ Sec, Nsec uint32 }

func durationAt(b []byte) Duration { return Duration{u32(b), u32(b[4:])} }

func (d Duration) appendTo(dst []byte) []byte { return put32(put32(dst, d.Sec), d.Nsec) }

// TableStats are the counters of a flow table, in PartTable (section 7.3.5.4).
type TableStats struct {
	TableID      uint8
	ActiveCount  uint32 // entries
	LookupCount  uint64 // packets looked up
	MatchedCount uint64 // packets that matched
}

func (TableStats) shape() shape                 { return shape{name: "table statistics", least: 24, lenAt: fixed} }
func (TableStats) check([]byte, int, int) error { return nil }

func (TableStats) parse(b []byte) TableStats {
	return TableStats{b[0], u32(b[4:]), u64(b[8:]), u64(b[16:])}
}

// AppendTo appends the statistics as they are on the wire.
func (s TableStats) AppendTo(dst []byte) []byte {
	dst = put32(append(dst, s.TableID, 0, 0, 0), s.ActiveCount)
	return put64(put64(dst, s.LookupCount), s.MatchedCount)
}

// PortStats are the counters of a port, in PartPortStats (section 7.3.5.6). A counter
// that the switch does not have is all ones.
type PortStats struct {
	Port                                     Port
	RxPackets, TxPackets                     uint64
	RxBytes, TxBytes                         uint64
	RxDropped, TxDropped                     uint64
	RxErrors, TxErrors                       uint64
	RxFrameErrors, RxOverErrors, RxCRCErrors uint64
	Collisions                               uint64
	Duration                                 Duration
}

func (PortStats) shape() shape                 { return shape{name: "port statistics", least: 112, lenAt: fixed} }
func (PortStats) check([]byte, int, int) error { return nil }

func (PortStats) parse(b []byte) PortStats {
	u := func(i int) uint64 { return u64(b[8+8*i:]) }
	return PortStats{Port(u32(b)), u(0), u(1), u(2), u(3), u(4), u(5), u(6), u(7), u(8), u(9), u(10), u(11),
		durationAt(b[104:])}
}

// AppendTo appends the statistics as they are on the wire.
func (s PortStats) AppendTo(dst []byte) []byte {
	dst = pad(put32(dst, uint32(s.Port)), 4)
	for _, v := range [...]uint64{s.RxPackets, s.TxPackets, s.RxBytes, s.TxBytes, s.RxDropped, s.TxDropped,
		s.RxErrors, s.TxErrors, s.RxFrameErrors, s.RxOverErrors, s.RxCRCErrors, s.Collisions} {
		dst = put64(dst, v)
	}
	return s.Duration.appendTo(dst)
}

// QueueStats are the counters of a queue, in PartQueue (section 7.3.5.8).
type QueueStats struct {
	Port      Port
	Queue     uint32
	TxBytes   uint64
	TxPackets uint64
	TxErrors  uint64
	Duration  Duration
}

func (QueueStats) shape() shape                 { return shape{name: "queue statistics", least: 40, lenAt: fixed} }
func (QueueStats) check([]byte, int, int) error { return nil }

func (QueueStats) parse(b []byte) QueueStats {
	return QueueStats{Port(u32(b)), u32(b[4:]), u64(b[8:]), u64(b[16:]), u64(b[24:]), durationAt(b[32:])}
}

// AppendTo appends the statistics as they are on the wire.
func (s QueueStats) AppendTo(dst []byte) []byte {
	dst = put32(put32(dst, uint32(s.Port)), s.Queue)
	return s.Duration.appendTo(put64(put64(put64(dst, s.TxBytes), s.TxPackets), s.TxErrors))
}
