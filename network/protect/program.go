package protect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Cookie is the cookie of all entries of this package, and of no others.
const Cookie uint64 = 0x686670726f74 // "hfprot"

// DetourVLAN is the VLAN of a frame that has taken a backup that may be taken only once, or was returned. No other
// frame has it, since IEEE 802.1Q reserves it. The priority (PCP) of one that was returned is returnedPCP, and 0
// otherwise.
const (
	DetourVLAN  uint16 = 4095
	returnedPCP uint64 = 1
)

// Tag is what a match says of the VLAN tag of a frame.
type Tag uint8

// The values of Tag.
const (
	AnyTag      Tag = iota
	NoTag           // the frame has no VLAN tag
	Detoured        // it has DetourVLAN
	NotReturned     // it has DetourVLAN, and was not returned
)

// MaxPort is the highest port number that fits a group id.
const MaxPort of13.Port = 0x7ffe

// Priorities in the two tables, of hosts and of routes. Packets that the switch's own hosts send match the lowest.
const (
	priorityNormal   uint16 = 100
	priorityReturned uint16 = 200 // has come in by the port that is the backup
	priorityDetoured uint16 = 300 // has taken a backup that may be taken only once
	priorityDown     uint16 = 400 // has come down by the primary port
	priorityAgain    uint16 = 500 // that, and has DetourVLAN
)

// Match is what an entry matches. The zero value of a field matches anything.
type Match struct {
	Host   of13.MAC            // destination of the frame; in the table of hosts
	Dest   openflow.DatapathID // the switch that the host is at; in the table of routes
	InPort of13.Port
	Tag    Tag
}

// Action is what happens to a packet: exactly one of Dest, Group, Port and Return is set.
type Action struct {
	Dest   openflow.DatapathID // on to the table of routes
	Group  GroupID
	Port   of13.Port
	Untag  bool // remove DetourVLAN
	Return bool // note that it was returned, and send it back by the port that it came in by
}

// Entry is a flow entry.
type Entry struct {
	Table    uint8
	Priority uint16
	Match    Match
	Action   Action
}

// compareEntries is the order of entries in a program. Entries that compare equal replace each other.
func compareEntries(a, b Entry) int {
	if c := cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Match.Dest, b.Match.Dest),
		slices.Compare(a.Match.Host[:], b.Match.Host[:])); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match.InPort, b.Match.InPort),
		cmp.Compare(b.Match.Tag, a.Match.Tag))
}

// GroupID is the id of a fast-failover group, and encodes all of it: two ports and two bits. So equal groups are one
// group, an id does not depend on who computes it, and a group never changes. Live is the only other group.
type GroupID uint32

// Live is an indirect group that drops what it gets. No entry uses it. It is always live, so the last bucket of each
// fast-failover group watches it: the standard requires such a bucket to watch something, and Open vSwitch refuses one
// that does not.
//
// Its id is below all others, so it is added before them. No port has the number that the id has as its backup port.
const Live GroupID = portMask

const (
	groupBack GroupID = 1 << 31
	groupOnce GroupID = 1 << 30
	portBits          = 15
	portMask          = 1<<portBits - 1
)

// groupOf returns the group of a hop, for packets that came in by its backup port (back) or by another port.
func groupOf(h paths.Hop, back bool) GroupID {
	id := GroupID(h.Primary)<<portBits | GroupID(h.Backup)
	if back {
		id |= groupBack
	}
	if h.Once {
		id |= groupOnce
	}
	return id
}

// Primary returns the port that the first bucket watches, and sends by.
func (g GroupID) Primary() of13.Port { return of13.Port(g >> portBits & portMask) }

// Backup returns the port that the second bucket watches, and sends by.
func (g GroupID) Backup() of13.Port { return of13.Port(g & portMask) }

// Back reports whether packets have come in by Backup. They are then sent back with OFPP_IN_PORT.
func (g GroupID) Back() bool { return g&groupBack != 0 }

// Once reports whether the second bucket tags what it sends with DetourVLAN.
func (g GroupID) Once() bool { return g&groupOnce != 0 }

func (g GroupID) String() string {
	if g == Live {
		return fmt.Sprintf("group %d: always live", uint32(g))
	}
	backup := g.Backup().String()
	if g.Back() {
		backup = "in_port(" + backup + ")"
	}
	if g.Once() {
		backup += " once"
	}
	return fmt.Sprintf("group %d: %v, else %s, else %v", uint32(g), g.Primary(), backup, g.Primary())
}

// Program is what one switch holds, in a fixed order.
type Program struct {
	Entries []Entry
	Groups  []GroupID
}

// appendHop appends the entries of a hop.
func appendHop(dst []Entry, table uint8, dest openflow.DatapathID, h paths.Hop) []Entry {
	if h.Primary == 0 {
		return dst
	}
	add := func(priority uint16, m Match, a Action) {
		m.Dest = dest
		dst = append(dst, Entry{table, priority, m, a})
	}
	if h.Crankback != 0 {
		add(priorityDown, Match{InPort: h.Primary}, Action{Port: h.Crankback})
	} else {
		// Only while the plan changes: the sender, or the packet on its way, had another plan.
		add(priorityAgain, Match{InPort: h.Primary, Tag: NotReturned}, Action{Return: true})
		add(priorityDown, Match{InPort: h.Primary, Tag: NoTag}, Action{Return: true})
	}
	if h.Once {
		add(priorityDetoured, Match{Tag: Detoured}, Action{Port: h.Primary})
	}
	switch {
	case h.Backup == 0:
		add(priorityNormal, Match{}, Action{Port: h.Primary})
	default:
		if h.Back {
			add(priorityReturned, Match{InPort: h.Backup}, Action{Group: groupOf(h, true)})
		} else { // not by a group: it would drop the packet while it takes the primary for dead
			add(priorityReturned, Match{InPort: h.Backup}, Action{Port: h.Primary})
		}
		add(priorityNormal, Match{}, Action{Group: groupOf(h, false)})
	}
	return dst
}

// groupsOf calls found for each group of a hop.
func groupsOf(h paths.Hop, found func(GroupID)) {
	if h.Primary == 0 || h.Backup == 0 {
		return
	}
	found(Live)
	found(groupOf(h, false))
	if h.Back {
		found(groupOf(h, true))
	}
}

// countHop returns how many entries appendHop appends.
func countHop(h paths.Hop) int {
	if h.Primary == 0 {
		return 0
	}
	n := 2
	for _, more := range []bool{h.Crankback == 0, h.Backup != 0, h.Once} {
		if more {
			n++
		}
	}
	return n
}
