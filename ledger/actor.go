package ledger

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Actor handles messages one after the other, and lives in one group. Each shard of an application is one. A switch
// itself is an actor without an application: its events and its commands are the items that it sends and receives.
type Actor struct {
	App string
	Shard
}

// Shard is the part of an application's cells that one actor owns: those that are keyed by a switch, or those of tables
// that are split by key with a key. The zero Shard has all other cells.
type Shard struct {
	Switch openflow.DatapathID
	Key    Key
}

// AtSwitch is the shard of a switch.
func AtSwitch(id openflow.DatapathID) Shard { return Shard{Switch: id} }

// theSwitch is a switch as an actor.
func theSwitch(id openflow.DatapathID) Actor { return Actor{Shard: AtSwitch(id)} }

// Compare orders actors by application, then by switch, then by key.
func (a Actor) Compare(o Actor) int {
	return cmp.Or(strings.Compare(a.App, o.App), a.Shard.compare(o.Shard))
}

func (s Shard) compare(o Shard) int {
	return cmp.Or(cmp.Compare(s.Switch, o.Switch), s.Key.Compare(o.Key))
}

// String names an actor for messages.
func (a Actor) String() string {
	switch {
	case a.isSwitch():
		return "switch " + a.Switch.String()
	case a.Switch != 0:
		return "application " + a.App + " at switch " + a.Switch.String()
	case a.App == "":
		return fmt.Sprint("group ", a.Key.A)
	case a.Key != Key{}:
		return "application " + a.App + " at " + a.Key.String()
	}
	return "application " + a.App
}

// mover returns the actor with which this one moves: the switch to which it belongs, or itself.
func (a Actor) mover() Actor {
	if a.Switch != 0 {
		return theSwitch(a.Switch)
	}
	return a
}

// isSwitch reports whether the actor is a switch itself.
func (a Actor) isSwitch() bool { return a.App == "" && a.Key == Key{} }

// Assignment says in which group an actor lives. Its version grows with each move.
type Assignment struct{ Group, Version uint64 }

// Directory returns the assignment of an actor, which may be older than the newest; false if it has none. It is only
// asked by a leader, which logs what follows from the answer.
type Directory func(Actor) (Assignment, bool)

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
	at, known := c.where(a)
	return known && at.Group == c.group
}

// where returns the newest assignment of an actor that this leader knows. What the log of this group says of an actor
// that it has had is newer than an equal version of the directory: nobody else can move it from here.
func (c *Core) where(a Actor) (Assignment, bool) {
	if group, is := a.group(); is {
		return Assignment{Group: group}, true
	}
	if !c.sharded() {
		return Assignment{}, false // a log that has streams is of a cluster with several groups
	}
	at, known := c.directory(a)
	if len(c.heard) > 0 {
		if heard, is := c.heard[a.mover()]; is && (!known || heard.Version > at.Version) {
			at, known = heard, true
		}
	}
	if own, moved := c.state.moves.at[a.mover()]; moved && (!known || own.Version >= at.Version) {
		return own, true
	}
	return at, known
}

// direct reports whether what goes from one actor to another that lives here, too, may do without a stream. That is
// not so if something is on its way on the stream: one of them has lived in another group, or was not assigned. The
// answer depends on the log only: an item is on its way until an entry says that it is taken.
func (c *Core) direct(k Link) bool {
	// What the directory did not know may be known by now, and still be among what waits nowhere.
	if self, lost := c.peers[c.group], c.peers[nowhere]; (self == nil || self.items == 0) &&
		(lost == nil || lost.items == 0) {
		return true
	}
	o := c.state.links.out[k]
	return o == nil || o.outbox.Last() == o.sending.logged
}

// Enter is called for each handler of an application before it runs, with the shard that has the cells which the
// handler needs. It reports whether the handler is to run now. If the actor lives in another group, the input is sent
// there, once for each actor, after this transaction is committed. If the actor is suspended, the input fails for it:
// see Suspended.
func (tx *Tx) Enter(at Shard) bool {
	tx.pause()
	tx.handler = tx.entering
	ok := tx.enter(at)
	tx.resume(!ok)
	tx.counted.entered = ok
	if ok && tx.c.sample != nil {
		tx.handles()
	}
	return ok
}

func (tx *Tx) enter(at Shard) bool {
	tx.at, tx.suspended = at, nil
	if tx.c.sharded() && !tx.enters() {
		return false
	}
	if len(tx.c.state.suspended) > 0 {
		if s, is := tx.c.state.suspended[tx.Actor()]; is {
			tx.enterSuspended(s)
			return false
		}
	}
	return true
}

func (tx *Tx) enters() bool {
	c, a := tx.c, tx.Actor()
	switch {
	case c.input.exact:
		return a == c.input.to // other actors get the input by themselves
	case c.here(a) && c.direct(Link{c.input.from, a}):
		return true
	}
	tx.forward(a)
	return false
}

// Enters reports whether Enter will return true, for an input that is not for one actor only.
func (tx *Tx) Enters(at Shard) bool {
	a := Actor{tx.app, at}
	return !tx.c.sharded() || tx.c.here(a) && tx.c.direct(Link{tx.c.input.from, a})
}

// Sharded reports whether actors of the application may live in other groups.
func (tx *Tx) Sharded() bool { return tx.c.sharded() }

// Actor returns the actor on whose behalf the transaction goes on: the one that Enter was given, or before that the one
// that the input is for if a handler needs no cells.
func (tx *Tx) Actor() Actor { return Actor{tx.app, tx.at} }

// Shard returns that of Actor.
func (tx *Tx) Shard() Shard { return tx.at }
