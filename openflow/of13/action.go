package of13

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// ActionType is the type of an action (section 7.2.5).
type ActionType uint16

// The actions.
const (
	ActionOutput       ActionType = 0
	ActionCopyTTLOut   ActionType = 11
	ActionCopyTTLIn    ActionType = 12
	ActionSetMPLSTTL   ActionType = 15
	ActionDecMPLSTTL   ActionType = 16
	ActionPushVLAN     ActionType = 17
	ActionPopVLAN      ActionType = 18
	ActionPushMPLS     ActionType = 19
	ActionPopMPLS      ActionType = 20
	ActionSetQueue     ActionType = 21
	ActionGroup        ActionType = 22
	ActionSetNwTTL     ActionType = 23
	ActionDecNwTTL     ActionType = 24
	ActionSetField     ActionType = 25
	ActionPushPBB      ActionType = 26
	ActionPopPBB       ActionType = 27
	ActionExperimenter ActionType = 0xffff
)

// Values of MaxLen in an output to PortController.
const (
	MaxLenMax      uint16 = 0xffe5 // the largest that still counts bytes
	MaxLenNoBuffer uint16 = 0xffff // send the whole packet
)

// actionTypes has the name of each action, and its length unless the action states it.
var actionTypes = [...]struct {
	name string
	size int
}{
	ActionOutput:     {"output", 16},
	ActionCopyTTLOut: {"copy_ttl_out", 8},
	ActionCopyTTLIn:  {"copy_ttl_in", 8},
	ActionSetMPLSTTL: {"set_mpls_ttl", 8},
	ActionDecMPLSTTL: {"dec_mpls_ttl", 8},
	ActionPushVLAN:   {"push_vlan", 8},
	ActionPopVLAN:    {"pop_vlan", 8},
	ActionPushMPLS:   {"push_mpls", 8},
	ActionPopMPLS:    {"pop_mpls", 8},
	ActionSetQueue:   {"set_queue", 8},
	ActionGroup:      {"group", 8},
	ActionSetNwTTL:   {"set_nw_ttl", 8},
	ActionDecNwTTL:   {"dec_nw_ttl", 8},
	ActionSetField:   {"set_field", 0},
	ActionPushPBB:    {"push_pbb", 8},
	ActionPopPBB:     {"pop_pbb", 8},
}

func (t ActionType) String() string {
	switch {
	case int(t) < len(actionTypes) && actionTypes[t].name != "":
		return actionTypes[t].name
	case t == ActionExperimenter:
		return "experimenter"
	}
	return fmt.Sprintf("action%d", uint16(t))
}

// Action is one action. Its Type determines which fields are used; the others are zero.
type Action struct {
	Type         ActionType
	Port         Port   // output
	MaxLen       uint16 // output to PortController: bytes of the packet to send
	Group        uint32 // group
	Queue        uint32 // set_queue
	EtherType    uint16 // push_vlan, push_mpls, pop_mpls, push_pbb
	TTL          uint8  // set_mpls_ttl, set_nw_ttl
	OXM          OXM    // set_field
	Experimenter uint32 // experimenter
	Raw          []byte // the whole action on the wire; Raw[8:] is the experimenter's
}

// Actions is a list of actions as wire bytes, padded as the specification requires. The
// zero value is empty, and drops the packet.
type Actions []byte

// All iterates over the actions in the order in which they are encoded.
func (a Actions) All() iter.Seq[Action] {
	return func(yield func(Action) bool) {
		for b := a; len(b) >= 8; {
			n := int(u16(b[2:]))
			if !yield(parseAction(b[:n:n])) {
				return
			}
			b = b[n:]
		}
	}
}

// parseAction decodes the action that fills b, which was checked before.
func parseAction(b []byte) Action {
	a := Action{Type: ActionType(u16(b)), Raw: b}
	switch a.Type {
	case ActionOutput:
		a.Port, a.MaxLen = Port(u32(b[4:])), u16(b[8:])
	case ActionGroup:
		a.Group = u32(b[4:])
	case ActionSetQueue:
		a.Queue = u32(b[4:])
	case ActionPushVLAN, ActionPushMPLS, ActionPopMPLS, ActionPushPBB:
		a.EtherType = u16(b[4:])
	case ActionSetMPLSTTL, ActionSetNwTTL:
		a.TTL = b[4]
	case ActionSetField:
		a.OXM, _ = parseOXM(b[4:])
	case ActionExperimenter:
		a.Experimenter = u32(b[4:])
	}
	return a
}

// checkActions checks the actions that fill msg[off:end].
func checkActions(msg []byte, off, end int) error {
	for off < end {
		if end-off < 8 {
			return fail(msg, end, openflow.Truncated, "an action has at least 8 bytes, %d left", end-off)
		}
		t, n := ActionType(u16(msg[off:])), int(u16(msg[off+2:]))
		if n < 8 || n%8 != 0 || n > end-off {
			return fail(msg, off+2, openflow.BadLength, "action %v of %d bytes, %d left", t, n, end-off)
		}
		switch {
		case t == ActionSetField:
			size, err := checkOXM(msg, off+4, off+n)
			if err != nil {
				return err
			}
			if padded(4+size) != n {
				return fail(msg, off+2, openflow.BadLength, "set_field of %d bytes for a field of %d", n, size)
			}
		case t == ActionExperimenter:
		case int(t) >= len(actionTypes) || actionTypes[t].size == 0:
			return fail(msg, off, openflow.Unknown, "action type %d", uint16(t))
		case actionTypes[t].size != n:
			return fail(msg, off+2, openflow.BadLength, "action %v of %d bytes, not %d", t, n, actionTypes[t].size)
		}
		off += n
	}
	return nil
}

// Output appends an output; maxLen matters for PortController only.
func (a Actions) Output(p Port, maxLen uint16) Actions {
	a = append(a, 0, 0, 0, 16)
	a = put32(a, uint32(p))
	a = put16(a, maxLen)
	return pad(a, 6)
}

// Outputs appends an output for each port. The controller receives whole packets.
func (a Actions) Outputs(ports ...Port) Actions {
	for _, p := range ports {
		a = a.Output(p, MaxLenNoBuffer)
	}
	return a
}

// plain appends an action of 8 bytes.
func (a Actions) plain(t ActionType, arg uint32) Actions {
	a = append(a, byte(t>>8), byte(t), 0, 8)
	return binary.BigEndian.AppendUint32(a, arg)
}

// Group appends an action that sends the packet to a group.
func (a Actions) Group(id uint32) Actions { return a.plain(ActionGroup, id) }

// SetQueue appends an action that selects the queue for later outputs.
func (a Actions) SetQueue(id uint32) Actions { return a.plain(ActionSetQueue, id) }

// PushVLAN appends the push of a VLAN header: etherType 0x8100 or 0x88a8.
func (a Actions) PushVLAN(etherType uint16) Actions {
	return a.plain(ActionPushVLAN, uint32(etherType)<<16)
}

// PopVLAN appends the removal of the outermost VLAN header.
func (a Actions) PopVLAN() Actions { return a.plain(ActionPopVLAN, 0) }

// PushMPLS appends the push of an MPLS header: etherType 0x8847 or 0x8848.
func (a Actions) PushMPLS(etherType uint16) Actions {
	return a.plain(ActionPushMPLS, uint32(etherType)<<16)
}

// PopMPLS appends the removal of the outermost MPLS header; etherType is what follows it.
func (a Actions) PopMPLS(etherType uint16) Actions {
	return a.plain(ActionPopMPLS, uint32(etherType)<<16)
}

// PushPBB appends the push of a PBB header: etherType 0x88e7.
func (a Actions) PushPBB(etherType uint16) Actions {
	return a.plain(ActionPushPBB, uint32(etherType)<<16)
}

// PopPBB appends the removal of the outermost PBB header.
func (a Actions) PopPBB() Actions { return a.plain(ActionPopPBB, 0) }

// SetMPLSTTL appends the setting of the MPLS TTL.
func (a Actions) SetMPLSTTL(ttl uint8) Actions { return a.plain(ActionSetMPLSTTL, uint32(ttl)<<24) }

// DecMPLSTTL appends the decrement of the MPLS TTL.
func (a Actions) DecMPLSTTL() Actions { return a.plain(ActionDecMPLSTTL, 0) }

// SetNwTTL appends the setting of the TTL, or hop limit, of IP.
func (a Actions) SetNwTTL(ttl uint8) Actions { return a.plain(ActionSetNwTTL, uint32(ttl)<<24) }

// DecNwTTL appends the decrement of the TTL, or hop limit, of IP.
func (a Actions) DecNwTTL() Actions { return a.plain(ActionDecNwTTL, 0) }

// CopyTTLOut appends the copy of the TTL from the next to the outermost header.
func (a Actions) CopyTTLOut() Actions { return a.plain(ActionCopyTTLOut, 0) }

// CopyTTLIn appends the copy of the TTL from the outermost to the next header.
func (a Actions) CopyTTLIn() Actions { return a.plain(ActionCopyTTLIn, 0) }

// SetField appends the setting of a field, which must have no mask in OpenFlow 1.3.
func (a Actions) SetField(o OXM) Actions {
	n := padded(4 + o.size())
	start := len(a)
	a = append(a, 0, byte(ActionSetField), byte(n>>8), byte(n))
	a = o.append(a)
	return pad(a, start+n-len(a))
}

// SetUint appends the setting of a field of up to 8 bytes to the low bits of v.
func (a Actions) SetUint(f Field, v uint64) Actions {
	var b [8]byte
	return a.SetField(Exact(f, uintBytes(&b, f, v)))
}

// Experimenter appends an experimenter's action; data is padded to a multiple of 8 bytes.
func (a Actions) Experimenter(id uint32, data []byte) Actions {
	n := padded(8 + len(data))
	start := len(a)
	a = append(a, 0xff, 0xff, byte(n>>8), byte(n))
	a = put32(a, id)
	a = append(a, data...)
	return pad(a, start+n-len(a))
}

// Append appends an encoded action, such as one from All.
func (a Actions) Append(x Action) Actions { return append(a, x.Raw...) }
