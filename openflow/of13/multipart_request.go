package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// FlowStatsRequest selects flow entries, in the requests PartFlow and PartAggregate (section 7.3.5.2).
type FlowStatsRequest struct {
	TableID    uint8  // TableAll for every table
	OutPort    Port   // PortAny is no restriction
	OutGroup   uint32 // GroupAny is no restriction
	Cookie     uint64
	CookieMask uint64 // 0 is no restriction
	Match      Match
}

const flowRequestLen = 32 // up to the match

func checkFlowRequest(msg []byte) error {
	_, off, err := checkMatch(msg, multipartLen+flowRequestLen, len(msg))
	if err != nil {
		return err
	}
	if off != len(msg) {
		return fail(msg, off, openflow.BadLength, "%d bytes after the match", len(msg)-off)
	}
	return nil
}

// AppendTo appends the body.
func (r FlowStatsRequest) AppendTo(dst []byte) []byte {
	dst = append(dst, r.TableID, 0, 0, 0)
	dst = pad(put32(put32(dst, uint32(r.OutPort)), r.OutGroup), 4)
	return r.Match.append(put64(put64(dst, r.Cookie), r.CookieMask))
}

// Flow reads the body of PartFlow and PartAggregate.
func (m *MultipartRequest) Flow() (FlowStatsRequest, bool) {
	if m.Part != PartFlow && m.Part != PartAggregate {
		return FlowStatsRequest{}, false
	}
	b := m.Body
	return FlowStatsRequest{b[0], Port(u32(b[4:])), u32(b[8:]), u64(b[16:]), u64(b[24:]), matchOf(b[flowRequestLen:])},
		true
}

// matchOf returns the fields of the checked struct ofp_match at the start of b.
func matchOf(b []byte) Match { return Match(b[4:u16(b[2:])]) }

// idRequest is the body of a request that contains only the number of a port, group or meter.
type idRequest uint32

func (idRequest) shape() shape                 { return shape{name: "number", least: 8, lenAt: fixed} }
func (r idRequest) AppendTo(dst []byte) []byte { return pad(put32(dst, uint32(r)), 4) }

func (m *MultipartRequest) id(p Part) (uint32, bool) {
	if m.Part != p {
		return 0, false
	}
	return u32(m.Body), true
}

// PortStatsRequest asks for the counters of a port, or of all with PortAny.
func PortStatsRequest(p Port) MultipartRequest {
	return MultipartRequest{Part: PartPortStats, Body: idRequest(p).AppendTo(nil)}
}

// GroupStatsRequest asks for the counters of a group, or of all with GroupAll.
func GroupStatsRequest(id uint32) MultipartRequest {
	return MultipartRequest{Part: PartGroup, Body: idRequest(id).AppendTo(nil)}
}

// MeterStatsRequest asks for the counters of a meter, or of all with MeterAll.
func MeterStatsRequest(id uint32) MultipartRequest {
	return MultipartRequest{Part: PartMeter, Body: idRequest(id).AppendTo(nil)}
}

// MeterConfigRequest asks for the configuration of a meter, or of all with MeterAll.
func MeterConfigRequest(id uint32) MultipartRequest {
	return MultipartRequest{Part: PartMeterConfig, Body: idRequest(id).AppendTo(nil)}
}

// Port reads the body of PartPortStats.
func (m *MultipartRequest) Port() (Port, bool) {
	id, ok := m.id(PartPortStats)
	return Port(id), ok
}

// Group reads the body of PartGroup.
func (m *MultipartRequest) Group() (uint32, bool) { return m.id(PartGroup) }

// Meter reads the body of PartMeter and PartMeterConfig.
func (m *MultipartRequest) Meter() (uint32, bool) {
	if m.Part == PartMeterConfig {
		return m.id(PartMeterConfig)
	}
	return m.id(PartMeter)
}

// QueueStatsRequest asks for the counters of queues, in PartQueue (section 7.3.5.8).
type QueueStatsRequest struct {
	Port  Port   // PortAny for all
	Queue uint32 // QueueAll for all
}

func (QueueStatsRequest) shape() shape                 { return shape{name: "queue request", least: 8, lenAt: fixed} }
func (QueueStatsRequest) check([]byte, int, int) error { return nil }

func (QueueStatsRequest) parse(b []byte) QueueStatsRequest {
	return QueueStatsRequest{Port(u32(b)), u32(b[4:])}
}

// AppendTo appends the body.
func (r QueueStatsRequest) AppendTo(dst []byte) []byte {
	return put32(put32(dst, uint32(r.Port)), r.Queue)
}

// Queue reads the body of PartQueue.
func (m *MultipartRequest) Queue() (QueueStatsRequest, bool) {
	return single[QueueStatsRequest](m.Part, PartQueue, m.Body)
}

// TableFeatures reads the body of PartTableFeatures; an empty body requests them, any other sets them.
func (m *MultipartRequest) TableFeatures() List[TableFeatures] {
	return entries[TableFeatures](m.Part, PartTableFeatures, m.Body)
}

// Experimenter reads the body of PartExperimenter.
func (m *MultipartRequest) Experimenter() (Experimenter, bool) {
	return experimenterPart(m.Part, m.Body)
}

// single reads a body of one element, if it is of the given part.
func single[T element[T]](got, want Part, body []byte) (T, bool) {
	var t T
	if got != want {
		return t, false
	}
	return t.parse(body), true
}

// entries reads a body that is a list, if it is of the given part.
func entries[T element[T]](got, want Part, body []byte) List[T] {
	if got != want {
		return nil
	}
	return List[T](body)
}

func experimenterPart(got Part, b []byte) (Experimenter, bool) {
	if got != PartExperimenter {
		return Experimenter{}, false
	}
	return Experimenter{u32(b), u32(b[4:]), b[8:]}, true
}

// AppendTo appends the body of PartExperimenter.
func (m Experimenter) AppendTo(dst []byte) []byte {
	return append(put32(put32(dst, m.ID), m.ExpType), m.Data...)
}
