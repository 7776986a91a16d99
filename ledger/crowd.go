package ledger

import (
	"cmp"
	"slices"

	"github.com/holdfast-sdn/holdfast/stream"
)

// crowd bounds what all switches of a group hold together: the commands that they have not executed, and the SWITCH_UP
// of each epoch. A peer that claims one datapath id after the other and executes nothing would fill the replicated
// state otherwise. At the bound, the epochs of switches that hold most are closed, first of those that are not
// connected: when such a switch returns, it begins a new epoch. Only the leader decides; that an epoch is closed is in
// the log.
type crowd struct {
	held  int // when it was counted last
	since int // added since then; what was given back is not subtracted
}

// Counting takes time for each switch, so it is done only after 1/crowdPart of the bound was added, and then gives as
// much room at least. At most crowdClosed epochs are closed at a time, because all of that is one entry.
const (
	crowdPart   = 64
	crowdClosed = 64
)

// add counts bytes that a switch holds more.
func (w *crowd) add(n int) { w.since += n }

// addCommands counts commands, until all are counted again, as the most memory that they may take.
func (w *crowd) addCommands(bytes int) { w.add(bytes * stream.MemoryFactor) }

// weight is the memory that a switch holds, in bytes, for its commands and its SWITCH_UP.
func (sw *switchState) weight() int { return sw.queue.Memory() + len(sw.hello) }

// relieveCrowd closes epochs if the switches hold more than they may.
func (c *Core) relieveCrowd() {
	w, bound := &c.crowd, c.limits.SwitchesBytes
	if w.held+w.since <= bound || w.since < bound/crowdPart {
		return
	}
	w.held, w.since = 0, 0
	var open []*switchState
	for _, sw := range c.state.switches {
		w.held += sw.weight()
		if sw.live {
			open = append(open, sw)
		}
	}
	if w.held <= bound {
		return
	}
	slices.SortFunc(open, func(a, b *switchState) int {
		if a.reachable != b.reachable {
			if b.reachable {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.id, b.id))
	})
	for _, sw := range open[:min(len(open), crowdClosed)] {
		if w.held <= bound-bound/crowdPart {
			return
		}
		before := sw.weight()
		c.closeEpoch(sw)
		w.held -= before - sw.weight()
	}
	w.since = bound // not enough: go on with the next transaction
}
