package of13

import "fmt"

// String lists the actions as ovs-ofctl does; "drop" when there are none.
func (a Actions) String() string { return string(a.text(nil)) }

func (a Actions) text(dst []byte) []byte {
	if len(a) == 0 {
		return append(dst, "drop"...)
	}
	first := true
	for x := range a.All() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = x.text(dst)
	}
	return dst
}

// String returns the action as in Actions.String.
func (a Action) String() string { return string(a.text(nil)) }

func (a Action) text(dst []byte) []byte {
	switch a.Type {
	case ActionOutput:
		if a.Port == PortController {
			return fmt.Appendf(dst, "CONTROLLER:%d", a.MaxLen)
		}
		if a.Port >= PortInPort {
			return append(dst, a.Port.String()...)
		}
		return fmt.Appendf(dst, "output:%d", uint32(a.Port))
	case ActionGroup:
		return fmt.Appendf(dst, "group:%d", a.Group)
	case ActionSetQueue:
		return fmt.Appendf(dst, "set_queue:%d", a.Queue)
	case ActionPushVLAN, ActionPushMPLS, ActionPopMPLS, ActionPushPBB:
		return fmt.Appendf(dst, "%v:%#x", a.Type, a.EtherType)
	case ActionSetMPLSTTL, ActionSetNwTTL:
		return fmt.Appendf(dst, "%v:%d", a.Type, a.TTL)
	case ActionSetField:
		return fmt.Appendf(dst, "set_field:%v", a.OXM)
	case ActionExperimenter:
		return fmt.Appendf(dst, "experimenter:%#x", a.Experimenter)
	}
	return append(dst, a.Type.String()...)
}
