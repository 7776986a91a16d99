package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// maxEach bounds the actors to which one handler passes its input.
const maxEach = 8192

// Enumerate makes known a function that returns the shards of an application which the directory has a row of: its
// keys, and all switches. It may be behind. Without it Each reaches actors of this group only. It must be called before
// any other method.
func (c *Core) Enumerate(known func(app string) []Shard) { c.enumerate = known }

// Each passes the present input to each actor of the application that has cells of a table, wherever it lives, and
// which belongs to a switch or not, as ofSwitches says. In this group these are the actors with cells now. An actor of
// another group gets the input if the directory knows it, and finds out by Here whether it has cells. Each of them
// handles the input in a call of its own, so one that fails harms no other. An input that is for one actor already is
// passed to nobody.
//
// It fails if there are too many actors: then fewer are needed, which have more cells each.
func (tx *Tx) Each(t *Table, ofSwitches bool) error {
	c := tx.c
	if c.input.exact {
		return nil
	}
	found := map[Shard]bool{}
	for cell := range t.cells.Cells() {
		found[c.shardOf(t.name, cell)] = true
	}
	if c.sharded() {
		c.addKnown(found, tx.app, ofSwitches)
	}
	if len(found) > maxEach {
		return fmt.Errorf("%d actors of application %s may have cells of table %q; a message is passed to at most %d: "+
			"divide the table into buckets", len(found), tx.app, t.name.Name, maxEach)
	}
	for _, at := range slices.SortedFunc(maps.Keys(found), Shard.compare) {
		tx.pass(Actor{tx.app, at})
	}
	return nil
}

// addKnown adds the shards of an application that may be in other groups: those that the directory knows, those that
// were here, and those that are not assigned yet.
func (c *Core) addKnown(found map[Shard]bool, app string, ofSwitches bool) {
	add := func(at Shard) {
		if at.Switch != 0 == ofSwitches && !found[at] && !c.here(Actor{app, at}) {
			found[at] = true
		}
	}
	if c.enumerate != nil {
		for _, at := range c.enumerate(app) {
			add(at)
		}
	}
	for a := range c.state.moves.at {
		if a.App == app {
			add(a.Shard)
		}
	}
	if lost := c.peers[nowhere]; lost != nil {
		for _, o := range lost.links {
			if o.To.App == app {
				add(o.To.Shard)
			}
		}
	}
}

// pass passes the present input to one actor.
func (tx *Tx) pass(a Actor) {
	c := tx.c
	if c.sharded() && !(c.here(a) && c.direct(Link{c.input.from, a})) {
		tx.forward(a)
		return
	}
	in := c.input
	in.from, in.exact, in.to, in.passed = a, true, a, true
	c.passed = append(c.passed, in)
}

// runPassed runs an application on what it has passed to actors of this group.
func (c *Core) runPassed(app int) {
	list, was := c.passed, c.input
	c.passed = nil
	for i := range list {
		if c.held {
			break
		}
		c.input = list[i]
		_ = c.call(app) // a failure is logged
	}
	c.input = was
}

// To returns the shard to which the input is addressed; false if it is not for one actor only.
func (tx *Tx) To() (at Shard, only bool) { return tx.c.input.to.Shard, tx.c.input.exact }

// Passed reports whether Each has passed the input to an actor of this group, which has the cells.
func (tx *Tx) Passed() bool { return tx.c.input.passed }

// Cells yields the keys of a table's cells that a shard has, in order. The body of the loop may change the table.
func (tx *Tx) Cells(t *Table, at Shard) iter.Seq[Key] {
	var list []Key
	for cell := range t.cells.Cells() {
		if tx.c.shardOf(t.name, cell) == at {
			list = append(list, cell)
		}
	}
	slices.SortFunc(list, Key.Compare)
	return slices.Values(list)
}

// Here reports whether a shard has cells of a table.
func (tx *Tx) Here(t *Table, at Shard) bool {
	for cell := range t.cells.Cells() {
		if tx.c.shardOf(t.name, cell) == at {
			return true
		}
	}
	return false
}
