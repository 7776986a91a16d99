package vswitch

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// partLimit is the most that one reply carries; longer answers are split.
const partLimit = 60000

// parts collects the body of an answer, and sends it in pieces between elements.
type parts struct {
	s    *Switch
	c    *conn
	part of13.Part
	xid  uint32
	body []byte
	mark int // where the current element begins
}

// flush sends the complete elements, and keeps the rest. more says that another part follows.
func (p *parts) flush(end int, more bool) {
	m := of13.MultipartReply{Part: p.part, Body: p.body[:end]}
	if more {
		m.Flags = of13.FlagMore
	}
	p.s.send(p.c, &m, p.xid)
	p.body = p.body[:copy(p.body, p.body[end:])]
	p.mark = 0
}

// end completes an element that was appended to body.
func (p *parts) end() {
	if len(p.body) > partLimit && p.mark > 0 {
		p.flush(p.mark, true)
	}
	p.mark = len(p.body)
}

// multipart answers a MULTIPART_REQUEST (section 7.3.5).
func (s *Switch) multipart(c *conn, m *of13.MultipartRequest, xid uint32) error {
	if m.Flags&of13.FlagMore != 0 { // only table features could be that long, and they cannot be set
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestMultipartBufferOverflow)
	}
	p := &parts{s: s, c: c, part: m.Part, xid: xid}
	var err error
	switch m.Part {
	case of13.PartDesc:
		p.body = s.config.Desc.AppendTo(p.body)
	case of13.PartFlow, of13.PartAggregate:
		r, _ := m.Flow()
		err = s.flowStats(p, r)
	case of13.PartTable:
		for _, t := range s.tables {
			p.body = of13.TableStats{TableID: t.id, ActiveCount: uint32(t.count), LookupCount: t.lookups,
				MatchedCount: t.matched}.AppendTo(p.body)
			p.end()
		}
	case of13.PartPortStats:
		no, _ := m.Port()
		err = s.portStats(p, no)
	case of13.PartPortDesc:
		for _, port := range s.inOrder {
			p.body = port.AppendTo(p.body)
			p.end()
		}
	case of13.PartQueue:
		q, _ := m.Queue()
		switch {
		case q.Port != of13.PortAny && s.ports[q.Port] == nil:
			err = refuse(of13.ErrTypeQueueOpFailed, of13.QueueOpFailedBadPort)
		case q.Queue != of13.QueueAll:
			err = refuse(of13.ErrTypeQueueOpFailed, of13.QueueOpFailedBadQueue)
		}
	case of13.PartTableFeatures:
		if len(m.Body) > 0 {
			return refuse(of13.ErrTypeTableFeaturesFailed, of13.TableFeaturesFailedEPerm)
		}
		for _, t := range s.tables {
			p.body = s.tableFeatures(t).AppendTo(p.body)
			p.end()
		}
	case of13.PartExperimenter:
		err = refuse(of13.ErrTypeBadRequest, of13.BadRequestBadExperimenter)
	default:
		err = s.groupOrMeter(p, m)
	}
	if err == nil {
		p.flush(len(p.body), false)
	}
	return err
}

// flowStats appends the entries that r selects, or their sum.
func (s *Switch) flowStats(p *parts, r of13.FlowStatsRequest) error {
	if int(r.TableID) >= len(s.tables) && r.TableID != of13.TableAll {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadTableID)
	}
	if err := r.Match.Validate(); err != nil {
		return err
	}
	var sum of13.AggregateStats
	selection := of13.FlowMod{Command: of13.FlowModify, TableID: r.TableID, Cookie: r.Cookie, CookieMask: r.CookieMask,
		Match: r.Match}
	for f := range s.selected(&selection) {
		if !f.program.refersTo(r.OutPort, r.OutGroup) {
			continue
		}
		if p.part == of13.PartAggregate {
			sum.FlowCount++
			sum.PacketCount += f.packets
			sum.ByteCount += f.bytes
			continue
		}
		p.body = of13.FlowStats{
			TableID: f.table, Duration: since(f.created, s.now), Priority: f.priority, IdleTimeout: f.idle,
			HardTimeout: f.hard,
			Flags:       f.flags, Cookie: f.cookie, PacketCount: f.packets, ByteCount: f.bytes, Match: f.match,
			Instructions: f.instructions,
		}.AppendTo(p.body)
		p.end()
	}
	if p.part == of13.PartAggregate {
		p.body = sum.AppendTo(p.body)
	}
	return nil
}

func (s *Switch) portStats(p *parts, no of13.Port) error {
	if no != of13.PortAny && s.ports[no] == nil {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadPort)
	}
	for _, port := range s.inOrder {
		if no == of13.PortAny || port.Port == no {
			st := port.stats
			st.Port, st.Duration = port.Port, since(port.created, s.now)
			p.body = st.AppendTo(p.body)
			p.end()
		}
	}
	return nil
}

// groupOrMeter appends the requested information about groups and meters.
func (s *Switch) groupOrMeter(p *parts, m *of13.MultipartRequest) error {
	switch m.Part {
	case of13.PartGroup:
		id, _ := m.Group()
		return s.groupStats(p, id)
	case of13.PartGroupDesc:
		for _, g := range s.sortedGroups() {
			p.body = of13.GroupDesc{GroupType: g.kind, GroupID: g.id, Buckets: g.wire}.AppendTo(p.body)
			p.end()
		}
	case of13.PartGroupFeatures:
		f := of13.GroupFeatures{Types: 0xf,
			Capabilities: of13.GroupSelectWeight | of13.GroupSelectLiveness | of13.GroupChaining |
				of13.GroupChainingChecks}
		for i := range f.Actions {
			f.MaxGroups[i], f.Actions[i] = uint32(s.config.MaxGroups), actionBits()
		}
		p.body = f.AppendTo(p.body)
	case of13.PartMeter, of13.PartMeterConfig:
		id, _ := m.Meter()
		return s.meterStats(p, id)
	case of13.PartMeterFeatures:
		p.body = of13.MeterFeatures{
			MaxMeter: uint32(s.config.MaxMeters), BandTypes: 1<<of13.BandDrop | 1<<of13.BandDSCPRemark,
			Capabilities: uint32(of13.MeterKbps | of13.MeterPktps | of13.MeterBurst | of13.MeterStats),
			MaxBands:     maxBands,
		}.AppendTo(p.body)
	default:
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadMultipart)
	}
	return nil
}

func (s *Switch) groupStats(p *parts, id uint32) error {
	if id != of13.GroupAll && s.groups[id] == nil {
		return refuse(of13.ErrTypeGroupModFailed, of13.GroupModFailedUnknownGroup)
	}
	refs := s.groupReferences()
	for _, g := range s.sortedGroups() {
		if id != of13.GroupAll && g.id != id {
			continue
		}
		st := of13.GroupStats{GroupID: g.id, Total: g.total, Duration: since(g.created, s.now), RefCount: refs[g.id]}
		for i := range g.buckets {
			st.Buckets = st.Buckets.With(g.buckets[i].count)
		}
		p.body = st.AppendTo(p.body)
		p.end()
	}
	return nil
}

// groupReferences counts the entries and groups that refer to each group.
func (s *Switch) groupReferences() map[uint32]uint32 {
	refs := map[uint32]uint32{}
	var seen []uint32 // one entry or group counts once
	note := func(ops []op) {
		for i := range ops {
			if o := &ops[i]; o.kind == of13.ActionGroup && !slices.Contains(seen, o.group) {
				refs[o.group]++
				seen = append(seen, o.group)
			}
		}
	}
	for _, t := range s.tables {
		for f := range t.all {
			seen = seen[:0]
			note(f.program.apply)
			note(f.program.write)
		}
	}
	for _, g := range s.groups {
		seen = seen[:0]
		for i := range g.buckets {
			note(g.buckets[i].ops)
		}
	}
	return refs
}

func (s *Switch) meterStats(p *parts, id uint32) error {
	if id != of13.MeterAll && s.meters[id] == nil {
		return refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedUnknownMeter)
	}
	users := map[uint32]uint32{}
	for _, t := range s.tables {
		for f := range t.all {
			users[f.program.meter]++
		}
	}
	for _, m := range s.sortedMeters() {
		if id != of13.MeterAll && m.id != id {
			continue
		}
		if p.part == of13.PartMeterConfig {
			p.body = of13.MeterConfig{Flags: m.flags, MeterID: m.id, Bands: m.wire}.AppendTo(p.body)
			p.end()
			continue
		}
		st := of13.MeterStatistics{MeterID: m.id, In: m.in, FlowCount: users[m.id], Duration: since(m.created, s.now)}
		for i := range m.bands {
			st.Bands = st.Bands.With(m.bands[i].count)
		}
		p.body = st.AppendTo(p.body)
		p.end()
	}
	return nil
}

var (
	knownActions = []of13.ActionType{of13.ActionOutput, of13.ActionPushVLAN, of13.ActionPopVLAN, of13.ActionSetQueue,
		of13.ActionGroup, of13.ActionSetNwTTL, of13.ActionDecNwTTL, of13.ActionSetField}
	knownInstructions = []of13.InstructionType{of13.InstructionGotoTable, of13.InstructionWriteMetadata,
		of13.InstructionWriteActions,
		of13.InstructionApplyActions, of13.InstructionClearActions, of13.InstructionMeter}
)

func actionBits() (bits uint32) {
	for _, a := range knownActions {
		bits |= 1 << a
	}
	return bits
}

// tableFeatures describes a table: the same features for all, with the later tables as next tables. What holds for the
// table-miss entry too is not repeated (section 7.3.5.5.2).
func (s *Switch) tableFeatures(t *table) of13.TableFeatures {
	var fields, settable []of13.Field
	for f := range of13.Field(numFields) {
		fields = append(fields, f)
		if f > of13.FieldMetadata && f != of13.FieldIPv6ExtHdr {
			settable = append(settable, f)
		}
	}
	var later []uint8
	for i := int(t.id) + 1; i < len(s.tables); i++ {
		later = append(later, uint8(i))
	}
	instructions := knownInstructions
	if len(later) == 0 {
		instructions = slices.DeleteFunc(slices.Clone(instructions),
			func(i of13.InstructionType) bool { return i == of13.InstructionGotoTable })
	}
	return of13.TableFeatures{
		TableID: t.id, MetadataMatch: ^uint64(0), MetadataWrite: ^uint64(0), MaxEntries: uint32(s.config.MaxFlows),
		Properties: of13.List[of13.TableProperty](nil).
			With(of13.TypesProperty(of13.TableInstructions, instructions...)).
			With(of13.NextTablesProperty(of13.TableNextTables, later...)).
			With(of13.TypesProperty(of13.TableWriteActions, knownActions...)).
			With(of13.TypesProperty(of13.TableApplyActions, knownActions...)).
			With(of13.FieldsProperty(of13.TableMatch, true, fields...)).
			With(of13.FieldsProperty(of13.TableWildcards, false, fields...)).
			With(of13.FieldsProperty(of13.TableWriteSetField, false, settable...)).
			With(of13.FieldsProperty(of13.TableApplySetField, false, settable...)),
	}
}
