package ledger

import (
	"cmp"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Actor handles messages one after the other, and lives in one group. An application has an actor for each switch,
// whose cells are keyed by that switch, and one for all its other cells, whose Switch is 0. A switch itself is an actor
// without an application: its events and its commands are the items that it sends and receives.
type Actor struct {
	App    string
	Switch openflow.DatapathID
}

// Compare orders actors by application, then by switch.
func (a Actor) Compare(o Actor) int {
	return cmp.Or(strings.Compare(a.App, o.App), cmp.Compare(a.Switch, o.Switch))
}

// String names an actor for messages.
func (a Actor) String() string {
	switch {
	case a.App == "":
		return "switch " + a.Switch.String()
	case a.Switch == 0:
		return "application " + a.App
	}
	return "application " + a.App + " at switch " + a.Switch.String()
}

// isSwitch reports whether the actor is a switch itself.
func (a Actor) isSwitch() bool { return a.App == "" }

// Directory returns the group in which an actor lives; false if that is not known. It is only asked by a leader, which
// logs what follows from the answer.
type Directory func(Actor) (group uint64, known bool)

// Join makes this the ledger of one group of several. Without it, everything lives in this group. It must be called
// before any other method.
func (c *Core) Join(group uint64, directory Directory) { c.group, c.directory = group, directory }

// sharded reports whether there are other groups.
func (c *Core) sharded() bool { return c.directory != nil }

// here reports whether an actor lives in this group. A switch does that has an event in the log, even if this leader's
// directory does not know it yet.
func (c *Core) here(a Actor) bool {
	if !c.sharded() || a.Switch != 0 && c.state.switches[a.Switch] != nil {
		return true
	}
	g, known := c.directory(a)
	return known && g == c.group
}

// Enter is called for each handler of an application before it runs, with the switch of the actor whose cells the
// handler needs; 0 is the actor of cells that belong to no switch. It reports whether the handler is to run now. If the
// actor lives in another group, the input is sent there, once for each actor, after this transaction is committed.
func (tx *Tx) Enter(at openflow.DatapathID) bool {
	tx.at = at
	return !tx.c.sharded() || tx.enters()
}

func (tx *Tx) enters() bool {
	c, a := tx.c, tx.Actor()
	switch {
	case c.input.exact && tx.at != c.input.to:
		return false // that actor gets the input by itself
	case !c.here(a):
		tx.forward(a)
		return false
	}
	return true
}

// Sharded reports whether actors of the application may live in other groups.
func (tx *Tx) Sharded() bool { return tx.c.sharded() }

// Actor returns the actor on whose behalf the transaction goes on: the one that Enter was given, or before that the one
// that the input is for if a handler needs no cells.
func (tx *Tx) Actor() Actor { return Actor{tx.app, tx.at} }
