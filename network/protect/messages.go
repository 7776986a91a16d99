package protect

import (
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Messages returns the change as OpenFlow, in the order in which it is safe.
func (c Change) Messages() []of13.Message {
	var msgs []of13.Message
	for _, g := range c.AddGroups {
		msgs = append(msgs, g.mod(of13.GroupAdd))
	}
	for _, e := range c.Add {
		msgs = append(msgs, e.mod(of13.FlowAdd))
	}
	for _, e := range c.Set {
		msgs = append(msgs, e.mod(of13.FlowModifyStrict))
	}
	for _, e := range c.Delete {
		msgs = append(msgs, e.mod(of13.FlowDeleteStrict))
	}
	for _, g := range c.DeleteGroups {
		msgs = append(msgs, g.mod(of13.GroupDelete))
	}
	return msgs
}

func (g GroupID) mod(command uint16) *of13.GroupMod {
	m := &of13.GroupMod{Command: command, GroupType: g.Type(), GroupID: uint32(g)}
	if command != of13.GroupDelete {
		m.Buckets = g.Buckets()
	}
	return m
}

// Type returns the type of the group.
func (g GroupID) Type() uint8 {
	if g == Live {
		return of13.GroupTypeIndirect
	}
	return of13.GroupTypeFastFailover
}

// Buckets returns the buckets of the group. If neither port is live, the last one sends by the primary port all the
// same: nothing is lost that would not be lost anyway, and nothing at all if the alarms are false.
func (g GroupID) Buckets() of13.Buckets {
	bucket := func(watch of13.Port, group GroupID, a of13.Actions) []byte {
		return of13.Bucket{WatchPort: watch, WatchGroup: uint32(group), Actions: a}.AppendTo(nil)
	}
	const none = GroupID(of13.GroupAny)
	if g == Live {
		return bucket(of13.PortAny, none, nil)
	}
	var backup of13.Actions
	if g.Once() {
		backup = detour(backup)
	}
	if g.Back() {
		backup = backup.Output(of13.PortInPort, 0)
	} else {
		backup = backup.Output(g.Backup(), 0)
	}
	primary := of13.Actions(nil).Output(g.Primary(), 0)
	buckets := append(bucket(g.Primary(), none, primary), bucket(g.Backup(), none, backup)...)
	return append(buckets, bucket(of13.PortAny, Live, primary)...)
}

// detour appends the actions that give a frame DetourVLAN.
func detour(a of13.Actions) of13.Actions {
	return a.PushVLAN(0x8100).SetUint(of13.FieldVLANVID, uint64(of13.VLANPresent|DetourVLAN))
}

func (e Entry) mod(command uint8) *of13.FlowMod {
	m := &of13.FlowMod{
		Cookie: Cookie, TableID: e.Table, Command: command, Priority: e.Priority,
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny, Match: e.Match.OXM(),
	}
	if command != of13.FlowDeleteStrict {
		m.Instructions = e.Instructions()
	}
	return m
}

// OXM returns the match as it is on the wire.
func (m Match) OXM() of13.Match {
	var x of13.Match
	if m.InPort != 0 {
		x = x.WithInPort(m.InPort)
	}
	if m.Dest != 0 {
		x = x.WithMetadata(uint64(m.Dest), ^uint64(0))
	}
	if m.Host != (of13.MAC{}) {
		x = x.WithEthDst(m.Host)
	}
	switch m.Tag {
	case NoTag:
		x = x.WithNoVLAN()
	case Detoured:
		x = x.WithVLAN(DetourVLAN)
	case NotReturned:
		x = x.WithVLAN(DetourVLAN).WithUint(of13.FieldVLANPCP, 0)
	}
	return x
}

// Instructions returns the instructions of the entry as they are on the wire.
func (e Entry) Instructions() of13.Instructions {
	a := e.Action
	if a.Dest != 0 {
		return of13.Instructions(nil).WriteMetadata(uint64(a.Dest), ^uint64(0)).Goto(e.Table + 1)
	}
	var actions of13.Actions
	switch {
	case a.Untag:
		actions = actions.PopVLAN()
	case a.Return && e.Match.Tag == NoTag:
		actions = detour(actions)
	}
	switch {
	case a.Return:
		actions = actions.SetUint(of13.FieldVLANPCP, returnedPCP).Output(of13.PortInPort, 0)
	case a.Group != 0:
		actions = actions.Group(uint32(a.Group))
	default:
		actions = actions.Output(a.Port, 0)
	}
	return of13.Instructions(nil).Apply(actions)
}

// Hidden yields matches of frames which have another tag beneath DetourVLAN. Switches see nothing beneath two tags. So
// an application that decides what passes drops these frames, which hosts can send, too.
func Hidden() iter.Seq[of13.Match] {
	return func(yield func(of13.Match) bool) {
		for _, tag := range []uint16{0x8100, 0x88a8} { // IEEE 802.1Q: of a customer, and of a provider
			if !yield(of13.Match(nil).WithVLAN(DetourVLAN).WithEthType(tag)) {
				return
			}
		}
	}
}
