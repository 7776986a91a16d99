package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/stream"
)

// ErrMoved is returned for an event of a switch that has moved to another group. Nothing has changed: the event is
// delivered again to the leader of that group, when that has claimed the switch.
var ErrMoved = errors.New("the switch has moved to another group")

// movable returns an error if a switch cannot move to a group.
func (c *Core) movable(id openflow.DatapathID, to uint64) error {
	if !c.state.knows(id) {
		return fmt.Errorf("%w: it has not connected yet", ErrImmovable)
	}
	if c.replayed == nil || !c.replayed.Present() {
		return nil
	}
	// Followers replay the events of their group at once, so they would overtake those on the stream.
	if at, known := c.where(c.replayedActor()); known && at.Group == to && to != c.group {
		return fmt.Errorf("%w: group %d has the applications of Ryu, to which a switch cannot move", ErrImmovable, to)
	}
	return nil
}

// appendDeparting encodes the state of a switch that departs. Commands that are complete and not yet logged as such are
// left out: the next leader would repeat requests among them.
func (sw *switchState) appendDeparting(b []byte) []byte {
	v := sw.save()
	queue := stream.OutboxAfter(max(sw.master.doneSeen, v.queue.Acked()))
	for n := queue.Acked() + 1; n <= v.queue.Last(); n++ {
		queue.Push(v.queue.Item(n))
	}
	v.queue = queue
	b = binary.BigEndian.AppendUint64(append(b, byte(OpSwitch)), uint64(sw.id))
	return v.append(b)
}

// endSwitch ends the leader's part of a switch that is not here any more. What is committed of it is still released.
func (c *Core) endSwitch(sw *switchState) {
	is := func(o *switchState) bool { return o == sw }
	c.acked, c.stalled = slices.DeleteFunc(c.acked, is), slices.DeleteFunc(c.stalled, is)
	c.duplicates = slices.DeleteFunc(c.duplicates, is)
}

// staying returns the receiver's ends of the streams from a switch that departs to actors that stay: with what they
// know about it, because they have received its events without a stream. It is empty for any other actor.
func (c *Core) staying(a Actor) []*incoming {
	if !a.isSwitch() {
		return nil
	}
	ends := map[Link]*incoming{}
	for k, i := range c.state.links.in {
		if k.From == a && k.To.mover() != a && i.used() {
			ends[k] = &incoming{Link: k, received: i.received}
		}
	}
	apps := make([]string, 0, len(c.apps)+1)
	for _, app := range c.apps {
		apps = append(apps, app.Name())
	}
	if c.replayed != nil {
		apps = append(apps, c.replayed.Name())
	}
	for _, app := range apps {
		if k := (Link{a, Actor{App: app}}); ends[k] == nil && c.here(k.To) { // it may ask for all switches
			ends[k] = &incoming{Link: k}
		}
	}
	var list []*incoming
	for _, k := range slices.SortedFunc(maps.Keys(ends), Link.compare) {
		c.learn(ends[k], c.state.switches[a.Switch])
		list = append(list, ends[k])
	}
	return list
}

// remember logs what actors that stay know of a switch that departs, as staying has returned it.
func (c *Core) remember(ends []*incoming) {
	b := &c.batch
	for _, end := range ends {
		i := c.state.links.incoming(end.Link)
		b.undo = append(b.undo, undo{kind: undoReceive, link: &oldLink{in: i, received: i.received}})
		i.received = end.received
		b.buf = i.append(b.buf)
	}
}

// commitSwitches takes note of the switches that have departed, or arrived, with a committed batch.
func (c *Core) commitSwitches(b *batch) {
	c.departed = append(c.departed, b.departed...)
	c.forgotten, c.floor = append(c.forgotten, b.forgotten...), max(c.floor, b.floor)
	for _, a := range b.arrived {
		if sw := c.state.switches[a.Switch]; a.isSwitch() && sw != nil {
			sw.master.arriving = false
			c.arrivals = append(c.arrivals, a.Switch)
		}
	}
}

// Arrivals returns the switches whose arrival in this group is committed since the last call, at a leader.
func (c *Core) Arrivals() []openflow.DatapathID {
	list := c.arrivals
	c.arrivals = nil
	return list
}

// Departed returns the switches whose departure from this group is committed since the last call, at any replica.
func (c *Core) Departed() []openflow.DatapathID {
	list := c.departed
	c.departed = nil
	return list
}

// restoreDeparted makes Departed return all switches that have moved from here: the snapshot may be of after that.
func (c *Core) restoreDeparted() {
	c.departed = nil
	for a, at := range c.state.moves.at {
		if a.isSwitch() && at.Group != c.group {
			c.departed = append(c.departed, a.Switch)
		}
	}
	slices.Sort(c.departed)
}

// Left returns where a switch has moved from this group, as far as that is committed; false if it has not.
func (c *Core) Left(id openflow.DatapathID) (Assignment, bool) {
	own, moved := c.state.moves.at[theSwitch(id)]
	if !moved || own.Group == c.group || slices.Contains(c.batch.departed, id) {
		return Assignment{}, false
	}
	for i := range c.inflight {
		if slices.Contains(c.inflight[i].departed, id) {
			return Assignment{}, false
		}
	}
	return own, true
}

// Here reports whether a switch lives in this group and may be claimed: its arrival, if it has moved here, is
// committed.
func (c *Core) Here(id openflow.DatapathID) bool {
	if sw := c.state.find(id); sw != nil {
		return !sw.master.arriving
	}
	own, moved := c.state.moves.at[theSwitch(id)]
	return !(moved && own.Group != c.group) && c.here(theSwitch(id)) // the directory may be ahead of the log
}

// Arrived reports whether this log has the assignment of a switch with a version, or a later one.
func (c *Core) Arrived(id openflow.DatapathID, version uint64) bool {
	return c.state.moves.at[theSwitch(id)].Version >= version
}

// Continues reports whether the next event of a switch that this log gets follows the last one that the log of another
// group had, when the switch departed from there with an assignment of that version. That is not known after a
// snapshot.
func (c *Core) Continues(id openflow.DatapathID, version uint64) bool {
	own := c.state.moves.at[theSwitch(id)]
	if own.Version != version {
		return own.Version < version
	}
	sw := c.state.switches[id]
	switch {
	case sw == nil:
		return false
	case c.leading && !sw.master.arriving:
		return sw.arrived == sw.master.committed
	}
	return sw.arrived == sw.logged()
}
