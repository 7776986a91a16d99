package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Every controller has a replica of the system group. A home group may have replicas on some controllers only: the
// cluster file says on which, and all controllers have the same file.

// several reports whether the cluster has several groups.
func (c *Controller) several() bool { return len(c.cfg.Groups) > 1 }

// membersOf returns the ids of the controllers that have a replica of a group, in order; nil if there is no such group.
// It does not depend on whether this controller has one.
func (c *Controller) membersOf(group uint64) []uint64 {
	if group >= uint64(len(c.cfg.Groups)) {
		return nil
	}
	var ids []uint64
	for replica := range maps.Keys(c.cfg.Groups[group].Consensus.Members) {
		ids = append(ids, wire.ControllerOf(replica))
	}
	slices.Sort(ids)
	return ids
}

// isHere reports whether this controller has a replica of a group. One that joins is not among the first members.
func (c *Controller) isHere(g GroupConfig) bool {
	_, founded := g.Consensus.Members[c.cfg.Consensus.ID]
	return founded || g.Consensus.Join
}

// replica returns this controller's part of a group; nil if it has none.
func (c *Controller) replica(number uint64) *group {
	for _, g := range c.groups {
		if g.cfg.Consensus.Group == number {
			return g
		}
	}
	return nil
}

// homesHere returns the home groups of which this controller has a replica, that at home here first.
func (c *Controller) homesHere() []uint64 {
	var list []uint64
	for _, g := range c.groups[1:] {
		if n := g.cfg.Consensus.Group; g.cfg.Home == c.cfg.Consensus.ID {
			list = slices.Insert(list, 0, n)
		} else {
			list = append(list, n)
		}
	}
	return list
}

// elsewhereError says that a switch belongs to a group that has no replica here.
type elsewhereError struct {
	id      openflow.DatapathID
	group   uint64
	members []Peer // of the group
}

func (e *elsewhereError) Error() string {
	var at []string
	for _, p := range e.members {
		at = append(at, p.OpenFlow)
	}
	return fmt.Sprintf("switch %s belongs to group %d, of which this controller has no replica: set %s as its "+
		"controllers",
		e.id, e.group, strings.Join(at, ", "))
}

func (c *Controller) elsewhere(id openflow.DatapathID, group uint64) error {
	e := &elsewhereError{id: id, group: group}
	ids := c.membersOf(group)
	for _, p := range c.cfg.Peers {
		if slices.Contains(ids, p.ID) {
			e.members = append(e.members, p)
		}
	}
	return e
}
