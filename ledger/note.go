package ledger

import (
	"cmp"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Commanded names a command.
type Commanded struct {
	Switch openflow.DatapathID
	Epoch  uint64
	Seq    uint64
}

// maxNoted bounds what is noted. Commands beyond it are executed as all others.
const maxNoted = 1024

// notes are what an event has led to, for a caller that follows it.
type notes struct {
	on     bool
	logged bool
	list   []Commanded
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

func (n *notes) add(sw *switchState) {
	if n.on && len(n.list) < maxNoted {
		n.list = append(n.list, Commanded{sw.id, sw.epoch, sw.queue.Last()})
	}
}
