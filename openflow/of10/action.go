package of10

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Types of actions (section 5.2.4). Those from 1 to 10 set fields, except actionStripVLAN; see fields.
const (
	actionOutput     = 0
	actionSetVLANVID = 1
	actionSetVLANPCP = 2
	actionStripVLAN  = 3
	actionSetDLSrc   = 4
	actionSetDLDst   = 5
	actionEnqueue    = 11
	actionVendor     = 0xffff

	actionLen     = 8
	longActionLen = 16 // of actions with an Ethernet address, and of actionEnqueue
)

const etherTypeVLAN = 0x8100

// checkAction returns type and length of the action at msg[off:end].
func checkAction(msg []byte, off, end int) (typ, n int, err error) {
	left := end - off
	if left < actionLen {
		return 0, 0, fail(msg, off, openflow.Truncated, "%d bytes left, an action has at least %d", left, actionLen)
	}
	typ, n = int(be.Uint16(msg[off:])), int(be.Uint16(msg[off+2:]))
	want := actionLen
	if typ == actionSetDLSrc || typ == actionSetDLDst || typ == actionEnqueue {
		want = longActionLen
	}
	switch {
	case typ > actionEnqueue && typ != actionVendor:
		err = fail(msg, off, openflow.Unknown, "action type %d", typ)
	case n > left:
		err = fail(msg, off+2, openflow.Truncated, "action of %d bytes in a list with %d left", n, left)
	case n < want, n > want && typ != actionVendor, n%8 != 0:
		err = fail(msg, off+2, openflow.BadLength, "action type %d with %d bytes", typ, n)
	}
	return typ, n, err
}

// actionsToV13 appends the 1.3 form of the actions in msg[off:end] to list. What an action becomes depends on the
// match of its entry: setting a VLAN id adds a tag in 1.0 where there is none, and a transport port is one of TCP
// or of UDP.
func actionsToV13(list of13.Actions, m match, msg []byte, off, end int) (of13.Actions, error) {
	tagged, queued := m.tagged(), false
	for off < end {
		typ, n, err := checkAction(msg, off, end)
		if err != nil {
			return list, err
		}
		a := msg[off : off+n]
		switch typ {
		case actionOutput:
			if queued {
				return list, unsupported(msg, off, "output after enqueue") // the queue would stay chosen in 1.3
			}
			list = list.Output(portToV13(be.Uint16(a[4:])), be.Uint16(a[6:]))
		case actionEnqueue:
			list = list.SetQueue(be.Uint32(a[12:])).Output(portToV13(be.Uint16(a[4:])), 0)
			queued = true
		case actionStripVLAN:
			list, tagged = list.PopVLAN(), false
		case actionVendor: // the same layout and ids in both versions
			list = append(list, a...)
		default:
			if typ <= actionSetVLANPCP && !tagged {
				list, tagged = list.PushVLAN(etherTypeVLAN), true
			}
			oxm, ok := m.fieldSetBy(typ)
			if !ok {
				return list, unsupported(msg, off, "setting a transport port where the match is neither TCP nor UDP")
			}
			f := &fields[oxm]
			v := number(a[4:4+f.size]) >> f.shift & (1<<f.bits - 1)
			if oxm == of13.FieldVLANVID {
				v = v&0xfff | uint64(of13.VLANPresent)
			}
			list = list.SetUint(oxm, v)
		}
		off += n
	}
	return list, nil
}

// fieldSetBy returns the field that an action of a type sets in packets of m. Only for a transport port it depends
// on m.
func (m match) fieldSetBy(typ int) (of13.Field, bool) {
	for i := range fields {
		if f := &fields[i]; int(f.action) == typ && (f.ipProto == 0 || m.allows(f)) {
			return of13.Field(i), true
		}
	}
	return 0, false
}

// actionsFromV13 appends the 1.0 form of a, which stands at offset in msg. tagged says that the packets have a VLAN
// tag: 1.0 cannot add another one, and would change that.
func actionsFromV13(dst []byte, a of13.Actions, tagged bool, msg []byte, offset int) ([]byte, error) {
	const dangling = "push_vlan without setting vlan_vid or vlan_pcp next"
	queue, queued, pushed := uint32(0), false, false
	for act := range a.All() {
		setsTag := act.Type == of13.ActionSetField && (act.OXM.Field == of13.FieldVLANVID ||
			act.OXM.Field == of13.FieldVLANPCP)
		if pushed && !setsTag {
			return dst, unsupported(msg, offset, dangling)
		}
		pushed, tagged = false, tagged || setsTag
		ok := true
		switch act.Type {
		case of13.ActionOutput:
			port, inRange := portFromV13(act.Port)
			switch {
			case !inRange:
				return dst, wide(msg, offset, act.Port)
			case !queued:
				dst = beginAction(dst, actionOutput, actionLen)
				dst = be.AppendUint16(be.AppendUint16(dst, port), act.MaxLen)
			case port > portMax && port != portInPort:
				return dst, unsupported(msg, offset, "output to %v through a queue", act.Port)
			default:
				dst = be.AppendUint16(beginAction(dst, actionEnqueue, longActionLen), port)
				dst = be.AppendUint32(pad(dst, 6), queue)
			}
		case of13.ActionSetQueue:
			queue, queued = act.Queue, true
		case of13.ActionPushVLAN: // in 1.0 a side effect of the action that has to follow
			if tagged {
				return dst, unsupported(msg, offset, "push_vlan where there is a VLAN tag")
			}
			pushed, ok = true, act.EtherType == etherTypeVLAN
		case of13.ActionPopVLAN:
			tagged = false
			dst = pad(beginAction(dst, actionStripVLAN, actionLen), 4)
		case of13.ActionSetField:
			if dst, ok = setFieldFromV13(dst, act.OXM); !ok {
				return dst, unsupported(msg, offset, "set_field %v", act.OXM)
			}
		case of13.ActionExperimenter:
			dst = append(dst, act.Raw...)
		default:
			ok = false
		}
		if !ok {
			return dst, unsupported(msg, offset, "action %v", act.Type)
		}
		offset += len(act.Raw)
	}
	if pushed {
		return dst, unsupported(msg, offset, dangling)
	}
	return dst, nil
}

// setFieldFromV13 appends the action that sets a field, and reports whether 1.0 has it.
func setFieldFromV13(dst []byte, o of13.OXM) ([]byte, bool) {
	f, v := fieldOf(o.Field), o.Uint64()
	if o.Class != of13.ClassBasic || o.HasMask || f.action == 0 {
		return dst, false
	}
	if o.Field == of13.FieldVLANVID {
		if v&uint64(of13.VLANPresent) == 0 {
			return dst, false
		}
		v &= 0xfff
	}
	size := actionLen
	if f.size == 6 {
		size = longActionLen
	}
	dst = beginAction(dst, uint16(f.action), size)
	n := len(dst)
	dst = pad(dst, size-4)
	putNumber(dst[n:n+int(f.size)], v<<f.shift)
	return dst, true
}

func beginAction(dst []byte, typ uint16, size int) []byte {
	return be.AppendUint16(be.AppendUint16(dst, typ), uint16(size))
}

// instructionsFromV13 appends the 1.0 form of in, which stands at offset in msg: the actions that it applies.
// Clearing the action set does nothing, since only other tables fill it.
func instructionsFromV13(dst []byte, in of13.Instructions, tagged bool, msg []byte, offset int) ([]byte, error) {
	for i := range in.All() {
		switch i.Type {
		case of13.InstructionApplyActions:
			var err error
			if dst, err = actionsFromV13(dst, i.Actions, tagged, msg, offset+8); err != nil {
				return dst, err
			}
		case of13.InstructionClearActions:
		default:
			return dst, unsupported(msg, offset, "instruction %v", i.Type)
		}
		offset += len(i.Raw)
	}
	return dst, nil
}
