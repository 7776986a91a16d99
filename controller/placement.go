package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Every controller has a replica of the system group. A home group may have replicas on some controllers only: the
// directory says on which.

// several reports whether the cluster has several groups.
func (c *Controller) several() bool { return len(c.cfg.Groups) > 1 }

// membersOf returns the ids of the controllers that have a replica of a home group, or may have one, in order; nil if
// there is no such group. It does not depend on whether this controller has one.
func (c *Controller) membersOf(group uint64) []uint64 {
	row, _ := c.assigned.layout().Of(group)
	return row.Members()
}

// home returns the id of the controller that leads a group if it can; 0: none.
func (c *Controller) home(group uint64) uint64 {
	row, _ := c.assigned.layout().Of(group)
	return row.Home
}

// replica returns this controller's part of a group; nil if it has none.
func (c *Controller) replica(number uint64) *group {
	for _, g := range c.groups.all() {
		if g.number() == number {
			return g
		}
	}
	return nil
}

// homesHere returns the home groups that have begun and of which this controller has a replica and keeps it, those at
// home here first.
func (c *Controller) homesHere() []uint64 {
	var own, others []uint64
	layout, me := c.assigned.layout(), c.cfg.Consensus.ID
	for i, row := range layout.Groups {
		switch n := uint64(i) + 1; {
		case len(row.Have) == 0 || row.At(me) == 0 || c.replica(n) == nil:
		case row.Home == me:
			own = append(own, n)
		default:
			others = append(others, n)
		}
	}
	return append(own, others...)
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
