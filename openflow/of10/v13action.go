package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const etherTypeVLAN = 0x8100

// toV13 appends the 1.3 form of a to list. What an action becomes depends on the match of
// its entry: setting a VLAN id adds a tag in 1.0 where there is none, and a transport port
// is one of TCP or of UDP. a stands at offset in msg.
func (a Actions) toV13(list of13.Actions, m *Match, msg []byte, offset int) (of13.Actions, error) {
	tagged := m.Wildcards&WildDLVLAN == 0 && m.DLVLAN != VLANNone ||
		m.Wildcards&(WildDLVLAN|WildDLVLANPCP) == WildDLVLAN
	queued := false
	for act := range a.All() {
		switch act.Type {
		case ActionOutput:
			if queued {
				return list, unsupported(msg, offset, "output after enqueue") // the queue would stay chosen in 1.3
			}
			list = list.Output(act.Port.toV13(), act.MaxLen)
		case ActionEnqueue:
			list = list.SetQueue(act.Queue).Output(act.Port.toV13(), 0)
			queued = true
		case ActionSetVLANVID, ActionSetVLANPCP:
			if !tagged {
				list = list.PushVLAN(etherTypeVLAN)
			}
			if tagged = true; act.Type == ActionSetVLANVID {
				list = list.SetUint(of13.FieldVLANVID, uint64(act.Value&0xfff)|uint64(of13.VLANPresent))
			} else {
				list = list.SetUint(of13.FieldVLANPCP, uint64(act.Value&7))
			}
		case ActionStripVLAN:
			list, tagged = list.PopVLAN(), false
		case ActionSetDLSrc:
			list = list.SetField(of13.Exact(of13.FieldEthSrc, act.DL[:]))
		case ActionSetDLDst:
			list = list.SetField(of13.Exact(of13.FieldEthDst, act.DL[:]))
		case ActionSetNWSrc:
			list = list.SetUint(of13.FieldIPv4Src, uint64(act.Value))
		case ActionSetNWDst:
			list = list.SetUint(of13.FieldIPv4Dst, uint64(act.Value))
		case ActionSetNWTOS:
			list = list.SetUint(of13.FieldIPDSCP, uint64(act.Value>>2))
		case ActionSetTPSrc, ActionSetTPDst:
			f, ok := m.portField(act.Type)
			if !ok {
				return list, unsupported(msg, offset, "setting a transport port where the match is neither TCP nor UDP")
			}
			list = list.SetUint(f, uint64(act.Value))
		case ActionVendor: // the same layout and ids in both versions
			list = list.Experimenter(act.Vendor, act.Raw[8:])
		}
		offset += len(act.Raw)
	}
	return list, nil
}

// portField returns the 1.3 field that ActionSetTPSrc or ActionSetTPDst sets in packets of m.
func (m *Match) portField(t ActionType) (of13.Field, bool) {
	if m.Wildcards&(WildDLType|WildNWProto) != 0 || m.DLType != dlTypeIPv4 {
		return 0, false
	}
	switch {
	case m.NWProto == nwProtoTCP && t == ActionSetTPSrc:
		return of13.FieldTCPSrc, true
	case m.NWProto == nwProtoTCP:
		return of13.FieldTCPDst, true
	case m.NWProto == nwProtoUDP && t == ActionSetTPSrc:
		return of13.FieldUDPSrc, true
	case m.NWProto == nwProtoUDP:
		return of13.FieldUDPDst, true
	}
	return 0, false
}

// actionsFromV13 appends the 1.0 form of a, which stands at offset in msg, to list.
func actionsFromV13(list Actions, a of13.Actions, msg []byte, offset int) (Actions, error) {
	queue, queued, pushed := uint32(0), false, false
	for act := range a.All() {
		setsTag := act.Type == of13.ActionSetField && (act.OXM.Field == of13.FieldVLANVID ||
			act.OXM.Field == of13.FieldVLANPCP)
		if pushed && !setsTag {
			return list, unsupported(msg, offset, "push_vlan without setting vlan_vid or vlan_pcp next")
		}
		pushed = false
		ok := true
		switch act.Type {
		case of13.ActionOutput:
			var port Port
			if port, ok = portFromV13(act.Port); !ok {
				return list, unsupported(msg, offset, "port %v: port numbers have 16 bits", act.Port)
			}
			if !queued {
				list = list.Output(port, act.MaxLen)
				break
			}
			if port > PortMax && port != PortInPort {
				return list, unsupported(msg, offset, "output to %v through a queue", port)
			}
			list = list.Enqueue(port, queue)
		case of13.ActionSetQueue:
			queue, queued = act.Queue, true
		case of13.ActionPushVLAN: // in 1.0 a side effect of the action that has to follow
			pushed, ok = true, act.EtherType == etherTypeVLAN
		case of13.ActionPopVLAN:
			list = list.StripVLAN()
		case of13.ActionSetField:
			list, ok = list.setField(act.OXM)
		case of13.ActionExperimenter:
			list = list.Vendor(act.Experimenter, act.Raw[8:])
		default:
			ok = false
		}
		if !ok {
			if act.Type == of13.ActionSetField {
				return list, unsupported(msg, offset, "set_field %v", act.OXM)
			}
			return list, unsupported(msg, offset, "action %v", act.Type)
		}
		offset += len(act.Raw)
	}
	if pushed {
		return list, unsupported(msg, offset, "push_vlan without setting vlan_vid or vlan_pcp next")
	}
	return list, nil
}

// setField appends the action that sets a field, and reports whether 1.0 has it.
func (a Actions) setField(f of13.OXM) (Actions, bool) {
	if f.Class != of13.ClassBasic || f.HasMask {
		return a, false
	}
	v := f.Uint64()
	switch f.Field {
	case of13.FieldEthDst:
		return a.SetDLDst([6]byte(f.Value)), true
	case of13.FieldEthSrc:
		return a.SetDLSrc([6]byte(f.Value)), true
	case of13.FieldVLANVID:
		return a.SetVLANVID(uint16(v) & 0xfff), uint16(v)&of13.VLANPresent != 0
	case of13.FieldVLANPCP:
		return a.SetVLANPCP(uint8(v)), true
	case of13.FieldIPDSCP:
		return a.SetNWTOS(uint8(v) << 2), true
	case of13.FieldIPv4Src:
		return a.SetNWSrc(uint32(v)), true
	case of13.FieldIPv4Dst:
		return a.SetNWDst(uint32(v)), true
	case of13.FieldTCPSrc, of13.FieldUDPSrc:
		return a.SetTPSrc(uint16(v)), true
	case of13.FieldTCPDst, of13.FieldUDPDst:
		return a.SetTPDst(uint16(v)), true
	}
	return a, false
}

// instructionsFromV13 appends the 1.0 form of in, which stands at offset in msg: the actions
// that it applies. Clearing the action set does nothing, since only other tables fill it.
func instructionsFromV13(list Actions, in of13.Instructions, msg []byte, offset int) (Actions, error) {
	for i := range in.All() {
		switch i.Type {
		case of13.InstructionApplyActions:
			var err error
			if list, err = actionsFromV13(list, i.Actions, msg, offset+8); err != nil {
				return list, err
			}
		case of13.InstructionClearActions:
		default:
			return list, unsupported(msg, offset, "instruction %v", i.Type)
		}
		offset += len(i.Raw)
	}
	return list, nil
}

// matchEnd returns the offset behind the match of n bytes of fields whose struct ofp_match
// stands at offset.
func matchEnd(offset, n int) int { return offset + (4+n+7)&^7 }
