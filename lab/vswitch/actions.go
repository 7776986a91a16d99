package vswitch

import (
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// op is one compiled action.
type op struct {
	kind   of13.ActionType
	port   of13.Port
	maxLen uint16
	group  uint32
	ether  uint16
	ttl    uint8
	field  of13.Field
	size   uint8
	value  [16]byte
}

// compileActions compiles validated actions. It refuses those that this switch does not support.
func compileActions(a of13.Actions) ([]op, error) {
	var ops []op
	for x := range a.All() {
		o := op{kind: x.Type, port: x.Port, maxLen: x.MaxLen, group: x.Group, ether: x.EtherType, ttl: x.TTL}
		switch x.Type {
		case of13.ActionOutput:
			if x.Port == of13.PortNormal {
				return nil, refuse(of13.ErrTypeBadAction, of13.BadActionBadOutPort)
			}
		case of13.ActionSetField:
			o.field, o.size = x.OXM.Field, uint8(copy(o.value[:], x.OXM.Value))
		case of13.ActionSetQueue:
			continue // there are no queues
		case of13.ActionGroup, of13.ActionPushVLAN, of13.ActionPopVLAN, of13.ActionSetNwTTL, of13.ActionDecNwTTL:
		case of13.ActionExperimenter:
			return nil, refuse(of13.ErrTypeBadAction, of13.BadActionBadExperimenter)
		default:
			return nil, refuse(of13.ErrTypeBadAction, of13.BadActionBadType)
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// refersTo reports whether one of ops outputs to port, or to group; PortAny and GroupAny are no restriction.
func refersTo(ops []op, port of13.Port, group uint32) bool {
	byPort, byGroup := port == of13.PortAny, group == of13.GroupAny
	for i := range ops {
		byPort = byPort || ops[i].kind == of13.ActionOutput && ops[i].port == port
		byGroup = byGroup || ops[i].kind == of13.ActionGroup && ops[i].group == group
	}
	return byPort && byGroup
}

// program is the compiled instructions of a flow entry.
type program struct {
	meter              uint32 // 0 is none
	apply, write       []op
	clear              bool
	metadata, metaMask uint64
	next               int // table to go to, -1 is none
}

// compileProgram validates and compiles the instructions of an entry of table with match m.
func (s *Switch) compileProgram(table uint8, m of13.Match, in of13.Instructions) (*program, error) {
	p := &program{next: -1}
	seen := 0
	for x := range in.All() {
		if x.Type == of13.InstructionExperimenter {
			return nil, refuse(of13.ErrTypeBadInstruction, of13.BadInstructionBadExperimenter)
		}
		if seen&(1<<x.Type) != 0 { // section 5.9: at most one of each type
			return nil, refuse(of13.ErrTypeBadInstruction, of13.BadInstructionUnsupInst)
		}
		seen |= 1 << x.Type
		var err error
		switch x.Type {
		case of13.InstructionGotoTable:
			if x.Table <= table || int(x.Table) >= len(s.tables) {
				err = refuse(of13.ErrTypeBadInstruction, of13.BadInstructionBadTableID)
			}
			p.next = int(x.Table)
		case of13.InstructionWriteMetadata:
			p.metadata, p.metaMask = x.Metadata&x.MetadataMask, x.MetadataMask
		case of13.InstructionApplyActions:
			p.apply, err = s.compileFlowActions(m, x.Actions)
		case of13.InstructionWriteActions:
			p.write, err = s.compileFlowActions(m, x.Actions)
		case of13.InstructionClearActions:
			p.clear = true
		case of13.InstructionMeter:
			if p.meter = x.Meter; s.meters[x.Meter] == nil {
				err = refuse(of13.ErrTypeMeterModFailed, of13.MeterModFailedUnknownMeter)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// compileFlowActions compiles the actions of a flow entry with match m.
func (s *Switch) compileFlowActions(m of13.Match, a of13.Actions) ([]op, error) {
	if err := a.ValidateFor(m); err != nil {
		return nil, err
	}
	if err := s.checkTargets(a, false); err != nil {
		return nil, err
	}
	return compileActions(a)
}

// checkTargets refuses groups that do not exist, and OFPP_TABLE except in a packet-out (section 4.5). A port that does
// not exist is accepted, since it may be added later; until then packets to it are dropped.
func (s *Switch) checkTargets(a of13.Actions, packetOut bool) error {
	for x := range a.All() {
		switch {
		case x.Type == of13.ActionOutput && x.Port == of13.PortTable && !packetOut:
			return refuse(of13.ErrTypeBadAction, of13.BadActionBadOutPort)
		case x.Type == of13.ActionGroup && s.groups[x.Group] == nil:
			return refuse(of13.ErrTypeBadAction, of13.BadActionBadOutGroup)
		}
	}
	return nil
}

// refersTo reports whether the entry outputs to port, or to group.
func (p *program) refersTo(port of13.Port, group uint32) bool {
	if port == of13.PortAny && group == of13.GroupAny {
		return true
	}
	return refersTo(p.apply, port, group) || refersTo(p.write, port, group)
}

// Places of the actions of an action set, in the order of their execution (section 5.10). Set-field actions come
// between setSlot and outSlot.
const (
	slotPop = iota
	slotPush
	slotDecTTL
	slotSetTTL
	slotSet
	slotGroup = slotSet + numFields
	slotOut   = slotGroup + 1
	numSlots  = slotOut + 1
)

// actionSet holds at most one action of each type, and of set-field one for each field.
type actionSet struct {
	slots [numSlots]*op
	used  bool
}

func (a *actionSet) clear() {
	if a.used {
		*a = actionSet{}
	}
}

// merge writes ops into the set; each replaces the previous op of its place.
func (a *actionSet) merge(ops []op) {
	for i := range ops {
		o := &ops[i]
		slot := slotOut
		switch o.kind {
		case of13.ActionPopVLAN:
			slot = slotPop
		case of13.ActionPushVLAN:
			slot = slotPush
		case of13.ActionDecNwTTL:
			slot = slotDecTTL
		case of13.ActionSetNwTTL:
			slot = slotSetTTL
		case of13.ActionSetField:
			slot = slotSet + int(o.field)
		case of13.ActionGroup:
			slot = slotGroup
		}
		a.slots[slot], a.used = o, true
	}
}

// executeSet executes the action set of p. An output is ignored if there is a group. depth counts the groups that the
// packet is in.
func (s *Switch) executeSet(p *packet, depth int) {
	if !p.set.used {
		return
	}
	last := slotOut
	if p.set.slots[slotGroup] != nil {
		last = slotGroup
	}
	for _, o := range p.set.slots[:last+1] {
		if o != nil && !s.execute(p, o, depth) {
			return
		}
	}
}

// executeAll executes ops in order. It returns false if the packet was dropped.
func (s *Switch) executeAll(p *packet, ops []op, depth int) bool {
	for i := range ops {
		if !s.execute(p, &ops[i], depth) {
			return false
		}
	}
	return true
}

func (s *Switch) execute(p *packet, o *op, depth int) bool {
	if s.budget--; s.budget < 0 {
		return false
	}
	switch o.kind {
	case of13.ActionOutput:
		s.output(p, o.port, o.maxLen)
	case of13.ActionGroup:
		s.executeGroup(p, o.group, depth)
	case of13.ActionSetField:
		p.setField(o.field, o.value[:o.size])
	case of13.ActionPushVLAN:
		p.pushVLAN(o.ether)
	case of13.ActionPopVLAN:
		p.popVLAN()
	case of13.ActionSetNwTTL:
		p.setTTL(o.ttl)
	case of13.ActionDecNwTTL:
		if !p.decTTL() {
			s.packetIn(p, of13.PacketInInvalidTTL, s.config.missSendLen)
			return false
		}
	}
	return true
}
