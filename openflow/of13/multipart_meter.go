package of13

// MeterStatistics are the counters of a meter, in PartMeter (section 7.3.5.12).
type MeterStatistics struct {
	MeterID   uint32
	FlowCount uint32 // flow entries that use it
	In        Counter
	Duration  Duration
	Bands     List[Counter] // in the order of the bands
}

func (MeterStatistics) shape() shape { return shape{name: "meter statistics", least: 40, lenAt: 4} }

func (MeterStatistics) check(msg []byte, off, end int) error {
	return checkList[Counter](msg, off+40, end)
}

func (MeterStatistics) parse(b []byte) MeterStatistics {
	return MeterStatistics{u32(b), u32(b[12:]), Counter{}.parse(b[16:]), durationAt(b[32:]), List[Counter](b[40:])}
}

// AppendTo appends the statistics as they are on the wire.
func (s MeterStatistics) AppendTo(dst []byte) []byte {
	dst = pad(put16(put32(dst, s.MeterID), uint16(40+len(s.Bands))), 6)
	dst = s.In.AppendTo(put32(dst, s.FlowCount))
	return append(s.Duration.appendTo(dst), s.Bands...)
}

// MeterConfig describes a meter, in PartMeterConfig (section 7.3.5.13).
type MeterConfig struct {
	Flags   uint16
	MeterID uint32
	Bands   Bands
}

func (MeterConfig) shape() shape { return shape{name: "meter configuration", least: 8, lenAt: 0} }

func (MeterConfig) check(msg []byte, off, end int) error { return checkList[Band](msg, off+8, end) }

func (MeterConfig) parse(b []byte) MeterConfig {
	return MeterConfig{u16(b[2:]), u32(b[4:]), Bands(b[8:])}
}

// AppendTo appends the configuration as it is on the wire.
func (c MeterConfig) AppendTo(dst []byte) []byte {
	dst = put16(put16(dst, uint16(8+len(c.Bands))), c.Flags)
	return append(put32(dst, c.MeterID), c.Bands...)
}

// MeterFeatures reports which meters the switch supports, in PartMeterFeatures (section 7.3.5.14).
type MeterFeatures struct {
	MaxMeter     uint32
	BandTypes    uint32 // bit t for band type t
	Capabilities uint32 // meter flags
	MaxBands     uint8
	MaxColor     uint8
}

func (MeterFeatures) shape() shape                 { return shape{name: "meter features", least: 16, lenAt: fixed} }
func (MeterFeatures) check([]byte, int, int) error { return nil }

func (MeterFeatures) parse(b []byte) MeterFeatures {
	return MeterFeatures{u32(b), u32(b[4:]), u32(b[8:]), b[12], b[13]}
}

// AppendTo appends the body.
func (f MeterFeatures) AppendTo(dst []byte) []byte {
	dst = put32(put32(put32(dst, f.MaxMeter), f.BandTypes), f.Capabilities)
	return append(dst, f.MaxBands, f.MaxColor, 0, 0)
}
