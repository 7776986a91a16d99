package reconcile

import (
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Reply handles one part of a reply, and returns deletions of entries that may be sent at once. An error ends the
// check. A part may come again before the last one of its reply, for example from a switch that was asked again: then
// the newest counts.
func (c *Check) Reply(m of13.MultipartReply) (deletions []of13.Message, err error) {
	if c.failed != nil {
		return nil, c.failed
	}
	deletions, err = c.take(&m)
	if err != nil {
		c.failed = fmt.Errorf("compare what a switch holds: %w", err)
		return nil, c.failed
	}
	return deletions, nil
}

func (c *Check) take(m *of13.MultipartReply) (deletions []of13.Message, err error) {
	which := flowReply
	switch m.Part {
	case of13.PartFlow:
	case of13.PartGroupDesc:
		which = groupReply
	default:
		return nil, fmt.Errorf("a reply of type %v was not asked for", m.Part)
	}
	if c.done[which] {
		return nil, fmt.Errorf("a part of %v after the last one", m.Part)
	}
	for f := range m.Flows().All() {
		d, err := c.flow(f)
		if err != nil {
			return nil, err
		}
		if d != nil {
			deletions = append(deletions, d)
		}
	}
	for g := range m.GroupDescs().All() {
		if err := c.group(g); err != nil {
			return nil, err
		}
	}
	c.done[which] = m.Flags&of13.FlagMore == 0
	return deletions, nil
}

// flow handles one entry, and returns its deletion if it should not stay.
func (c *Check) flow(f of13.FlowStats) (of13.Message, error) {
	if f.TableID > of13.TableMax { // its deletion would delete from all tables
		return nil, fmt.Errorf("%s: there is no such table", name(f.TableID, f.Priority, f.Match))
	}
	c.buf = c.canon.identity(c.buf[:0], f.TableID, f.Priority, f.Match)
	if i, wanted := c.flows[string(c.buf)]; wanted {
		c.buf = c.canon.flow(c.buf[:0], f.Cookie, f.IdleTimeout, f.HardTimeout, f.Flags, f.Instructions)
		c.compare(i)
		return nil, nil
	}
	owner := Foreign
	if c.policy.Flow != nil {
		owner = c.policy.Flow(f)
	}
	if !c.goes(owner) || c.removals == maxRemovals {
		c.note(of13.GroupAny, instructionGroups(f.Instructions))
		return nil, nil
	}
	c.removals++
	// With the cookie, so that an entry that has replaced it meanwhile stays.
	return &of13.FlowMod{Command: of13.FlowDeleteStrict, TableID: f.TableID, Priority: f.Priority,
		Match: slices.Clone(f.Match), Cookie: f.Cookie, CookieMask: ^uint64(0),
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}, nil
}

// group handles one group. Groups are deleted only at the end, because that deletes all entries that use them.
func (c *Check) group(g of13.GroupDesc) error {
	if g.GroupID > of13.GroupMax { // its deletion might delete all groups
		return fmt.Errorf("group %d: the highest is %d", g.GroupID, of13.GroupMax)
	}
	if i, wanted := c.groups[g.GroupID]; wanted {
		c.buf = c.canon.group(c.buf[:0], g.GroupType, g.Buckets)
		c.compare(len(c.want.Flows) + i)
		return nil
	}
	owner := Foreign
	if c.policy.Group != nil {
		owner = c.policy.Group(g)
	}
	user := of13.GroupAny
	if c.goes(owner) && (len(c.doomed) < maxGroups || slices.Contains(c.doomed, g.GroupID)) {
		user = g.GroupID
		c.doomed = appendOnce(c.doomed, user)
	}
	c.note(user, bucketGroups(g.Buckets))
	return nil
}

// compare records whether c.buf is the content of the i-th wanted.
func (c *Check) compare(i int) {
	at := c.bounds[i]
	c.found[i] = wrong
	if string(c.buf) == c.text[at.content:at.end] {
		c.found[i] = right
	}
}

// goes counts what is not wanted, and reports whether it has to be removed.
func (c *Check) goes(o Owner) bool {
	switch o {
	case Own:
		c.surplus++
		return true
	case Foreign:
		c.foreign++
		return c.policy.RemoveForeign
	}
	return false
}

// note records which groups something uses: what stays (of13.GroupAny), or a group to be removed.
func (c *Check) note(user uint32, groups iter.Seq[uint32]) {
	for id := range groups {
		if _, wanted := c.groups[id]; wanted {
			continue
		}
		if c.uses = appendOnce(c.uses, use{user, id}); len(c.uses) > maxGroups {
			c.uses, c.spill = c.uses[:maxGroups], true
		}
	}
}

func appendOnce[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}

// removeGroups returns the deletions of the groups to be removed that nothing which stays uses, users first: a switch
// may refuse to delete a group that another one uses.
func (c *Check) removeGroups() []of13.Message {
	if len(c.doomed) == 0 || c.spill {
		return nil
	}
	left := make(map[uint32]bool, len(c.doomed))
	for _, id := range c.doomed {
		left[id] = true
	}
	for i := range c.want.Flows {
		for id := range instructionGroups(c.want.Flows[i].Instructions) {
			delete(left, id)
		}
	}
	for i := range c.want.Groups {
		for id := range bucketGroups(c.want.Groups[i].Buckets) {
			delete(left, id)
		}
	}
	for before := -1; before != len(left); { // a group that a remaining group uses remains
		before = len(left)
		for _, u := range c.uses {
			if !left[u.by] {
				delete(left, u.of)
			}
		}
	}
	var msgs []of13.Message
	for before := -1; before != len(msgs); {
		before = len(msgs)
		used := map[uint32]bool{}
		for _, u := range c.uses {
			used[u.of] = used[u.of] || left[u.by]
		}
		for _, id := range c.doomed {
			if left[id] && !used[id] {
				delete(left, id)
				msgs = append(msgs, &of13.GroupMod{Command: of13.GroupDelete, GroupID: id})
			}
		}
	}
	return msgs
}

// instructionGroups walks the groups that instructions use.
func instructionGroups(in of13.Instructions) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for x := range in.All() {
			for a := range x.Actions.All() {
				if a.Type == of13.ActionGroup && !yield(a.Group) {
					return
				}
			}
		}
	}
}

// bucketGroups walks the groups that buckets use, or watch.
func bucketGroups(buckets of13.Buckets) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for b := range buckets.All() {
			if b.WatchGroup != of13.GroupAny && !yield(b.WatchGroup) {
				return
			}
			for a := range b.Actions.All() {
				if a.Type == of13.ActionGroup && !yield(a.Group) {
					return
				}
			}
		}
	}
}
