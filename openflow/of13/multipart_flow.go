package of13

// FlowStats is a flow entry with its counters, in PartFlow (section 7.3.5.2).
type FlowStats struct {
	TableID      uint8
	Duration     Duration
	Priority     uint16
	IdleTimeout  uint16
	HardTimeout  uint16
	Flags        uint16
	Cookie       uint64
	PacketCount  uint64
	ByteCount    uint64
	Match        Match
	Instructions Instructions
}

const flowStatsLen = 48 // up to the match

func (FlowStats) shape() shape {
	return shape{name: "flow statistics", least: flowStatsLen + 8, lenAt: 0}
}

func (FlowStats) check(msg []byte, off, end int) error {
	_, next, err := checkMatch(msg, off+flowStatsLen, end)
	if err != nil {
		return err
	}
	return checkInstructions(msg, next, end)
}

func (FlowStats) parse(b []byte) FlowStats {
	m := matchOf(b[flowStatsLen:])
	return FlowStats{
		TableID: b[2], Duration: durationAt(b[4:]),
		Priority: u16(b[12:]), IdleTimeout: u16(b[14:]), HardTimeout: u16(b[16:]), Flags: u16(b[18:]),
		Cookie: u64(b[24:]), PacketCount: u64(b[32:]), ByteCount: u64(b[40:]),
		Match: m, Instructions: Instructions(b[flowStatsLen+padded(4+len(m)):]),
	}
}

// AppendTo appends the statistics as they are on the wire.
func (s FlowStats) AppendTo(dst []byte) []byte {
	n := flowStatsLen + padded(4+len(s.Match)) + len(s.Instructions)
	dst = s.Duration.appendTo(append(put16(dst, uint16(n)), s.TableID, 0))
	for _, v := range [...]uint16{s.Priority, s.IdleTimeout, s.HardTimeout, s.Flags} {
		dst = put16(dst, v)
	}
	dst = put64(put64(put64(pad(dst, 4), s.Cookie), s.PacketCount), s.ByteCount)
	return append(s.Match.append(dst), s.Instructions...)
}

// AggregateStats are the counters of several flow entries together, in PartAggregate (section 7.3.5.3).
type AggregateStats struct {
	PacketCount uint64
	ByteCount   uint64
	FlowCount   uint32
}

func (AggregateStats) shape() shape {
	return shape{name: "aggregate statistics", least: 24, lenAt: fixed}
}
func (AggregateStats) check([]byte, int, int) error { return nil }

func (AggregateStats) parse(b []byte) AggregateStats {
	return AggregateStats{u64(b), u64(b[8:]), u32(b[16:])}
}

// AppendTo appends the body.
func (s AggregateStats) AppendTo(dst []byte) []byte {
	return pad(put32(put64(put64(dst, s.PacketCount), s.ByteCount), s.FlowCount), 4)
}
