package node

import (
	"fmt"
	"math/rand/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/reconcile"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// The driver: from entries of the model to flow entries of OpenFlow 1.3.

// The parts of a cookie: the mark of this package, how often the switch had come up, and for what the entry is.
const (
	cookieMark      uint64 = 0x686e << 48 // "hn"
	cookieMarkMask  uint64 = 0xffff << 48
	generationShift        = 32
	generationBits         = 16
)

// cookie is the cookie of an entry. The lower half is the owner's id, for who looks at the switch.
func cookie(generation uint16, id uint64) uint64 {
	return cookieMark | uint64(generation)<<generationShift | id&0xffffffff
}

// vlanType is the EtherType of tags (IEEE 802.1Q).
const vlanType = 0x8100

// compiler makes flow entries. Its slices are used again.
type compiler struct {
	match, canonical of13.Match
	matches          []of13.Match
	actions          of13.Actions
	instructions     of13.Instructions
	keys             []string
}

// compile returns what the flow entries of an entry do, without an owner, and their keys, which are valid until the
// next call.
func (c *compiler) compile(e *model.Entry) (f flow, keys []string, err error) {
	m := c.match[:0]
	if e.In > 0 {
		m = m.WithInPort(e.In)
	}
	if e.Tag > 0 {
		m = m.WithVLAN(e.Tag)
	}
	c.match = m
	tagged := e.Tag > 0 || e.Push > 0
	switch {
	case max(e.Tag, e.Push, e.BackupTag) > maxTag || e.Tag > 0 && e.VLAN != nil:
		return f, nil, fmt.Errorf("tags %d, %d and %d: use 1 to %d, and no VLAN beside a tag", e.Tag, e.Push,
			e.BackupTag, maxTag)
	case e.Backup > 0 && (e.BackupTag == 0 || e.Pop || !tagged):
		return f, nil, fmt.Errorf("backup by port %d with tag %d: it needs a tag, of frames that have or get one",
			e.Backup, e.BackupTag)
	}
	matches := append(c.matches[:0], m)
	if e.Class != (packet.Class{}) { // else it has a tag, as most do
		if matches, err = e.Matches(m); err != nil {
			return f, nil, err
		}
	}
	c.matches = matches
	if len(matches) > model.MaxFlows {
		return f, nil, fmt.Errorf("the entry needs %d flow entries, at most %d are possible: use fewer ranges of "+
			"ports, or ones that begin and end at multiples of powers of two", len(matches), model.MaxFlows)
	}
	c.keys = c.keys[:0]
	for _, m := range matches {
		c.keys = append(c.keys, c.keyOf(e.Priority, m))
	}
	return flow{Out: e.Out, Push: e.Push, Pop: e.Pop, Backup: e.Backup, BackupTag: e.BackupTag}, c.keys, nil
}

// The key of a flow entry is its priority, in two bytes, and its match in canonical form: entries with the same key
// replace each other at a switch.
const keyPriority = 2

func (c *compiler) keyOf(priority uint16, m of13.Match) string {
	c.canonical = reconcile.Canonical(append(c.canonical[:0], byte(priority>>8), byte(priority)), m)
	return string(c.canonical)
}

func priorityOf(key string) uint16 { return uint16(key[0])<<8 | uint16(key[1]) }

// matchOf returns the match in a key, which is valid until the next call.
func (c *compiler) matchOf(key string) of13.Match {
	c.canonical = append(c.canonical[:0], key[keyPriority:]...)
	return c.canonical
}

// instructionsOf returns those of a flow entry, which are valid until the next call.
func (c *compiler) instructionsOf(f *flow, m of13.Match) of13.Instructions {
	if f.Backup > 0 {
		c.actions = c.actions[:0].Group(f.Group)
	} else {
		in, _ := m.InPort()
		c.actions = f.actions(c.actions[:0], in, f.Push, f.Out)
	}
	c.instructions = c.instructions[:0].Apply(c.actions)
	return c.instructions
}

// actions appends what sends a frame that enters by a port out of another one, with a tag; 0: as it is.
func (f *flow) actions(a of13.Actions, in app.Port, tag uint16, out app.Port) of13.Actions {
	if f.Pop {
		a = a.PopVLAN()
	}
	if f.Push > 0 {
		a = a.PushVLAN(vlanType)
	}
	if tag > 0 {
		a = a.SetUint(of13.FieldVLANVID, uint64(tag|of13.VLANPresent))
	}
	if out == in {
		out = of13.PortInPort // OpenFlow sends no frame back by naming its port
	}
	return a.Output(out, 0)
}

const maxTag = 4094

// install sends a flow entry, and before that its group. That is a new one, so that frames never meet a group by half,
// and it does not matter what a switch has executed of attempts before. The first command of both is returned.
func (n *node) install(tx *app.Tx, id app.Switch, generation uint16, key string, f *flow) (first uint32) {
	before, match := f.Group, n.compiler.matchOf(key)
	if f.Backup > 0 {
		f.Group = n.freeGroup(tx, id)
		n.groups.Put(tx, id, f.Group, key)
		first = tx.Send(id, &of13.GroupMod{Command: of13.GroupDelete, GroupID: f.Group}) // a forgotten one
		tx.Send(id, f.group(match))
	}
	xid := tx.FlowMod(id, of13.FlowMod{Command: of13.FlowAdd, Cookie: cookie(generation, f.ID),
		Priority: priorityOf(key), BufferID: of13.NoBuffer, Flags: of13.FlowSendFlowRem, Match: match,
		Instructions: n.compiler.instructionsOf(f, match), OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	n.release(tx, id, before)
	if first == 0 {
		first = xid
	}
	return first
}

// group adds the group of a flow entry, which has a backup.
func (f *flow) group(m of13.Match) *of13.GroupMod {
	in, _ := m.InPort()
	bucket := func(tag uint16, out app.Port) of13.Bucket {
		return of13.Bucket{WatchPort: out, WatchGroup: of13.GroupAny, Actions: f.actions(nil, in, tag, out)}
	}
	return &of13.GroupMod{Command: of13.GroupAdd, GroupType: of13.GroupTypeFastFailover, GroupID: f.Group,
		Buckets: bucket(f.BackupTag, f.Backup).AppendTo(bucket(f.Push, f.Out).AppendTo(nil))}
}

// groupMark is in the ids of all groups of this package, and of none of package protect.
const groupMark uint32 = 0x3fff8000

func isGroup(id uint32) bool { return id&groupMark == groupMark && id <= of13.GroupMax }

// freeGroup returns an id that no group of a switch has. There are 130,000, of which a sixth is in use at most.
func (n *node) freeGroup(tx *app.Tx, id app.Switch) uint32 {
	for {
		group := rand.Uint32() | groupMark
		if _, used := n.groups.Get(tx, id, group); !used && isGroup(group) {
			return group
		}
	}
}

// release deletes a group that no flow entry uses any more; 0: there is none.
func (n *node) release(tx *app.Tx, id app.Switch, group uint32) {
	if group > 0 {
		n.groups.Delete(tx, id, group)
		tx.Send(id, &of13.GroupMod{Command: of13.GroupDelete, GroupID: group})
	}
}

// releaseOthers deletes the groups that no flow entry uses: those of changes that the switch has not confirmed.
func (n *node) releaseOthers(tx *app.Tx, id app.Switch) {
	for group, key := range n.groups.All(tx, id) {
		if f, _ := n.flows.Get(tx, id, key); f.Group != group {
			n.release(tx, id, group)
		}
	}
}

// keyIn returns the key of the flow entry that a command is about; "": of none.
func (n *node) keyIn(tx *app.Tx, id app.Switch, command []byte) string {
	m, err := of13.Decode(command)
	if err != nil {
		return ""
	}
	switch m := m.(type) {
	case *of13.FlowMod:
		return n.compiler.keyOf(m.Priority, m.Match)
	case *of13.GroupMod:
		key, _ := n.groups.Get(tx, id, m.GroupID)
		return key
	}
	return ""
}

// uninstall deletes a flow entry if it is one of this package.
func (n *node) uninstall(tx *app.Tx, id app.Switch, key string) uint32 {
	return tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDeleteStrict, Cookie: cookieMark, CookieMask: cookieMarkMask,
		Priority: priorityOf(key), BufferID: of13.NoBuffer, Match: n.compiler.matchOf(key), OutPort: of13.PortAny,
		OutGroup: of13.GroupAny})
}

// uninstallAll deletes all entries of this package.
func uninstallAll(tx *app.Tx, id app.Switch) {
	tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, Cookie: cookieMark, CookieMask: cookieMarkMask,
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
}

// uninstallOthers deletes all entries of this package that are not of a generation: those that differ from it in some
// bit.
func uninstallOthers(tx *app.Tx, id app.Switch, generation uint16) {
	for bit := range generationBits {
		mask := uint64(1) << (bit + generationShift)
		tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, Cookie: cookieMark | ^cookie(generation, 0)&mask,
			CookieMask: cookieMarkMask | mask, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	}
}
