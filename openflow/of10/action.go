package of10

import (
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// ActionType is the type of an action (section 5.2.4).
type ActionType uint16

// The actions.
const (
	ActionOutput     ActionType = 0
	ActionSetVLANVID ActionType = 1
	ActionSetVLANPCP ActionType = 2
	ActionStripVLAN  ActionType = 3
	ActionSetDLSrc   ActionType = 4
	ActionSetDLDst   ActionType = 5
	ActionSetNWSrc   ActionType = 6
	ActionSetNWDst   ActionType = 7
	ActionSetNWTOS   ActionType = 8
	ActionSetTPSrc   ActionType = 9
	ActionSetTPDst   ActionType = 10
	ActionEnqueue    ActionType = 11
	ActionVendor     ActionType = 0xffff
)

// Action is one action, decoded. Which fields count depends on Type.
type Action struct {
	Type   ActionType
	Port   Port    // Output, Enqueue
	MaxLen uint16  // Output to PortController: bytes of the packet to send
	Value  uint32  // SetVLANVID, SetVLANPCP, SetNWSrc, SetNWDst, SetNWTOS, SetTPSrc, SetTPDst
	DL     [6]byte // SetDLSrc, SetDLDst
	Queue  uint32  // Enqueue
	Vendor uint32  // Vendor
	Raw    []byte  // the action's bytes, header included
}

// Actions is a list of actions as it stands on the wire. One that a Decode returned is
// valid; builders return the longer list.
type Actions []byte

// All walks the list. It stops where the list is not valid.
func (a Actions) All() iter.Seq[Action] {
	return func(yield func(Action) bool) {
		for len(a) >= 4 {
			n := int(be.Uint16(a[2:]))
			if n < actionLen(a) || n > len(a) || !yield(parseAction(a[:n:n])) {
				return
			}
			a = a[n:]
		}
	}
}

// actionLen returns the smallest size of the action at the start of a, of at least 4 bytes.
func actionLen(a []byte) int {
	switch ActionType(be.Uint16(a)) {
	case ActionSetDLSrc, ActionSetDLDst, ActionEnqueue:
		return 16
	}
	return 8
}

// validate checks the list, which stands at offset in msg.
func (a Actions) validate(msg []byte, offset int) error {
	for len(a) > 0 {
		if len(a) < 8 {
			return fail(msg, offset, openflow.Truncated, "%d bytes left, an action has at least 8", len(a))
		}
		t, n, want := ActionType(be.Uint16(a)), int(be.Uint16(a[2:])), actionLen(a)
		switch {
		case t > ActionEnqueue && t != ActionVendor:
			return fail(msg, offset, openflow.Unknown, "action type %d", t)
		case n > len(a):
			return fail(msg, offset+2, openflow.Truncated, "action of %d bytes in a list with %d left", n, len(a))
		case n < want, n > want && t != ActionVendor, n%8 != 0:
			return fail(msg, offset+2, openflow.BadLength, "action type %d with %d bytes", t, n)
		}
		a, offset = a[n:], offset+n
	}
	return nil
}

// parseAction reads the one action that is b, of checked length.
func parseAction(b []byte) Action {
	act := Action{Type: ActionType(be.Uint16(b)), Raw: b}
	switch act.Type {
	case ActionOutput:
		act.Port, act.MaxLen = Port(be.Uint16(b[4:])), be.Uint16(b[6:])
	case ActionSetVLANVID, ActionSetTPSrc, ActionSetTPDst:
		act.Value = uint32(be.Uint16(b[4:]))
	case ActionSetVLANPCP, ActionSetNWTOS:
		act.Value = uint32(b[4])
	case ActionSetNWSrc, ActionSetNWDst:
		act.Value = be.Uint32(b[4:])
	case ActionSetDLSrc, ActionSetDLDst:
		act.DL = [6]byte(b[4:])
	case ActionEnqueue:
		act.Port, act.Queue = Port(be.Uint16(b[4:])), be.Uint32(b[12:])
	case ActionVendor:
		act.Vendor = be.Uint32(b[4:])
	}
	return act
}

func (a Actions) begin(t ActionType, size uint16) Actions {
	return be.AppendUint16(be.AppendUint16(a, uint16(t)), size)
}

func (a Actions) short(t ActionType, v uint16) Actions {
	return append(be.AppendUint16(a.begin(t, 8), v), 0, 0)
}

func (a Actions) word(t ActionType, v uint32) Actions {
	return be.AppendUint32(a.begin(t, 8), v)
}

func (a Actions) mac(t ActionType, mac [6]byte) Actions {
	return append(append(a.begin(t, 16), mac[:]...), 0, 0, 0, 0, 0, 0)
}

// Output sends the packet out of port; maxLen is for PortController, in bytes.
func (a Actions) Output(port Port, maxLen uint16) Actions {
	return be.AppendUint16(be.AppendUint16(a.begin(ActionOutput, 8), uint16(port)), maxLen)
}

// SetVLANVID sets the VLAN id, and adds a tag if there is none.
func (a Actions) SetVLANVID(vid uint16) Actions { return a.short(ActionSetVLANVID, vid) }

// SetVLANPCP sets the VLAN priority, and adds a tag if there is none.
func (a Actions) SetVLANPCP(pcp uint8) Actions { return a.short(ActionSetVLANPCP, uint16(pcp)<<8) }

// StripVLAN takes the VLAN tag away.
func (a Actions) StripVLAN() Actions { return a.word(ActionStripVLAN, 0) }

// SetDLSrc sets the Ethernet source.
func (a Actions) SetDLSrc(mac [6]byte) Actions { return a.mac(ActionSetDLSrc, mac) }

// SetDLDst sets the Ethernet destination.
func (a Actions) SetDLDst(mac [6]byte) Actions { return a.mac(ActionSetDLDst, mac) }

// SetNWSrc sets the IPv4 source.
func (a Actions) SetNWSrc(addr uint32) Actions { return a.word(ActionSetNWSrc, addr) }

// SetNWDst sets the IPv4 destination.
func (a Actions) SetNWDst(addr uint32) Actions { return a.word(ActionSetNWDst, addr) }

// SetNWTOS sets the type of service: the DSCP in the high 6 bits.
func (a Actions) SetNWTOS(tos uint8) Actions { return a.short(ActionSetNWTOS, uint16(tos)<<8) }

// SetTPSrc sets the TCP or UDP source port.
func (a Actions) SetTPSrc(port uint16) Actions { return a.short(ActionSetTPSrc, port) }

// SetTPDst sets the TCP or UDP destination port.
func (a Actions) SetTPDst(port uint16) Actions { return a.short(ActionSetTPDst, port) }

// Enqueue sends the packet out of port through one of its queues.
func (a Actions) Enqueue(port Port, queue uint32) Actions {
	a = be.AppendUint16(a.begin(ActionEnqueue, 16), uint16(port))
	return be.AppendUint32(append(a, 0, 0, 0, 0, 0, 0), queue)
}

// Vendor appends a vendor action; data is filled with zeros to a multiple of 8 bytes.
func (a Actions) Vendor(id uint32, data []byte) Actions {
	pad := -len(data) & 7
	a = be.AppendUint32(a.begin(ActionVendor, uint16(8+len(data)+pad)), id)
	return append(append(a, data...), make([]byte, pad)...)
}
