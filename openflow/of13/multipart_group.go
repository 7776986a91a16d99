package of13

// Counter has the packets and bytes of a bucket or of a band of a meter.
type Counter struct{ Packets, Bytes uint64 }

func (Counter) shape() shape                 { return shape{name: "counter", least: 16, lenAt: fixed} }
func (Counter) check([]byte, int, int) error { return nil }
func (Counter) parse(b []byte) Counter       { return Counter{u64(b), u64(b[8:])} }

// AppendTo appends the counter as it is on the wire.
func (c Counter) AppendTo(dst []byte) []byte { return put64(put64(dst, c.Packets), c.Bytes) }

// GroupStats are the counters of a group, in PartGroup (section 7.3.5.9).
type GroupStats struct {
	GroupID  uint32
	RefCount uint32 // flow entries and groups that refer to this one
	Total    Counter
	Duration Duration
	Buckets  List[Counter] // in the order of the buckets
}

func (GroupStats) shape() shape { return shape{name: "group statistics", least: 40, lenAt: 0} }

func (GroupStats) check(msg []byte, off, end int) error {
	return checkList[Counter](msg, off+40, end)
}

func (GroupStats) parse(b []byte) GroupStats {
	return GroupStats{u32(b[4:]), u32(b[8:]), Counter{}.parse(b[16:]), durationAt(b[32:]), List[Counter](b[40:])}
}

// AppendTo appends the statistics as they are on the wire.
func (s GroupStats) AppendTo(dst []byte) []byte {
	dst = pad(put16(dst, uint16(40+len(s.Buckets))), 2)
	dst = s.Total.AppendTo(pad(put32(put32(dst, s.GroupID), s.RefCount), 4))
	return append(s.Duration.appendTo(dst), s.Buckets...)
}

// GroupDesc describes a group, in PartGroupDesc (section 7.3.5.10).
type GroupDesc struct {
	GroupType uint8
	GroupID   uint32
	Buckets   Buckets
}

func (GroupDesc) shape() shape { return shape{name: "group description", least: 8, lenAt: 0} }

func (GroupDesc) check(msg []byte, off, end int) error { return checkList[Bucket](msg, off+8, end) }

func (GroupDesc) parse(b []byte) GroupDesc { return GroupDesc{b[2], u32(b[4:]), Buckets(b[8:])} }

// AppendTo appends the description as it is on the wire.
func (d GroupDesc) AppendTo(dst []byte) []byte {
	dst = append(put16(dst, uint16(8+len(d.Buckets))), d.GroupType, 0)
	return append(put32(dst, d.GroupID), d.Buckets...)
}

// Capabilities in GroupFeatures.
const (
	GroupSelectWeight   uint32 = 1 << 0
	GroupSelectLiveness uint32 = 1 << 1
	GroupChaining       uint32 = 1 << 2
	GroupChainingChecks uint32 = 1 << 3
)

// GroupFeatures reports which groups the switch supports, in PartGroupFeatures (section 7.3.5.11). The arrays are
// indexed by group type.
type GroupFeatures struct {
	Types        uint32 // bit t for group type t
	Capabilities uint32
	MaxGroups    [4]uint32
	Actions      [4]uint32 // bit a for action type a
}

func (GroupFeatures) shape() shape                 { return shape{name: "group features", least: 40, lenAt: fixed} }
func (GroupFeatures) check([]byte, int, int) error { return nil }

func (GroupFeatures) parse(b []byte) GroupFeatures {
	f := GroupFeatures{Types: u32(b), Capabilities: u32(b[4:])}
	for i := range 4 {
		f.MaxGroups[i], f.Actions[i] = u32(b[8+4*i:]), u32(b[24+4*i:])
	}
	return f
}

// AppendTo appends the body.
func (f GroupFeatures) AppendTo(dst []byte) []byte {
	dst = put32(put32(dst, f.Types), f.Capabilities)
	for _, a := range [...][4]uint32{f.MaxGroups, f.Actions} {
		for _, v := range a {
			dst = put32(dst, v)
		}
	}
	return dst
}
