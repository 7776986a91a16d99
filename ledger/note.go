package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Commanded names a command.
type Commanded struct {
	Switch openflow.DatapathID
	Epoch  uint64
	Seq    uint64
}

// Turn is what one actor has done because of an event, until its handlers returned.
type Turn struct {
	Actor        Actor
	Began, Ended time.Duration // by the function that Instrument has got
	Failed       bool          // it was taken back
}

// Sent names an item of a stream to another group.
type Sent struct {
	Group uint64 // of the receiver
	Link
	Seq uint64
}

// maxNoted bounds what is noted: commands, turns, and items. What is beyond is executed as all others.
const maxNoted = 1024

// notes are what an event has led to, for a caller that follows it.
type notes struct {
	on     bool
	logged bool
	list   []Commanded
	turns  []Turn
	items  []Sent
}

// Note begins to note what an event leads to, or ends it.
func (c *Core) Note(on bool) { c.notes = notes{on: on} }

// Noted returns what has happened since Note: whether an event was executed and will be logged, which duplicates are
// not, and its commands, of transactions that were not taken back.
func (c *Core) Noted() (commands []Commanded, logged bool) {
	slices.SortFunc(c.notes.list, func(a, b Commanded) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	return slices.DeleteFunc(slices.Compact(c.notes.list), func(n Commanded) bool {
		sw := c.state.find(n.Switch)
		return sw == nil || sw.epoch != n.Epoch || sw.queue.Last() < n.Seq
	}), c.notes.logged
}

// Turns returns which actors have handled something since Note, in that order. It is empty without Instrument.
func (c *Core) Turns() []Turn { return c.notes.turns }

// NotedItems returns the items that were sent to other groups since Note, of transactions that were not taken back.
func (c *Core) NotedItems() []Sent {
	return slices.DeleteFunc(c.notes.items, func(n Sent) bool {
		o := c.state.links.out[n.Link]
		return o == nil || o.outbox.Last() < n.Seq
	})
}

// OnReceive calls begin for each item of another group that this leader executes, and then what that returns. nil: it
// calls nothing.
func (c *Core) OnReceive(begin func(k Link, seq uint64) (end func())) { c.onReceive = begin }

// Received returns the number of the last item of a stream that this leader knows to be committed.
func (c *Core) Received(k Link) uint64 {
	if i := c.state.links.in[k]; i != nil {
		return i.receiving.committed
	}
	return 0
}

// turn notes what an application does from now on, until the returned function is called. If no actor handles the
// input, nothing is noted.
func (c *Core) turn() (end func(err error)) {
	if !c.notes.on || c.elapsed == nil || len(c.notes.turns) >= maxNoted {
		return func(error) {}
	}
	began := c.elapsed()
	return func(err error) {
		if c.tx.counted.entered {
			c.notes.turns = append(c.notes.turns, Turn{c.tx.Actor(), began, c.elapsed(), err != nil})
		}
	}
}

// sends notes the last item of a stream.
func (n *notes) sends(o *outgoing) {
	if p := o.sending.peer; n.on && p != nil && len(n.items) < maxNoted {
		n.items = append(n.items, Sent{p.group, o.Link, o.outbox.Last()})
	}
}

func (n *notes) add(sw *switchState) {
	if n.on && len(n.list) < maxNoted {
		n.list = append(n.list, Commanded{sw.id, sw.epoch, sw.queue.Last()})
	}
}
