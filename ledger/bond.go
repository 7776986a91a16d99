package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Actors of an application whose cells a handler names together come to live in one group, where one transaction can
// use them all. They are bonded: each of them has a row that says to which actor it comes, which is the first that it
// was ever named with, directly or through others (see Shard.Before). It goes where that one lives, and it is only ever
// bonded to an earlier one. So actors that are named together in any order end in one group, and stay there.
//
// A row is replicated, is part of snapshots, and moves with its actor.

// BondTable is the table with the bonds of an application. Its cells belong to the actors with their keys.
const BondTable = ".bonds"

// Bond says to which actor another one comes.
type Bond struct {
	To Shard
	By string // the handler that names them together
}

// Before orders the actors to which others come: those at switches first, because they stay with their switch.
func (s Shard) Before(o Shard) bool {
	if at := s.Switch != 0; at != (o.Switch != 0) {
		return at
	}
	return s.compare(o) < 0
}

// Bond returns the bond of an actor of the application; false if it has none, as actors at switches. The actor must be
// Beside this one.
func (tx *Tx) Bond(at Shard) (b Bond, bonded bool) { return tx.c.bond(Actor{tx.app, at}) }

func (c *Core) bond(a Actor) (b Bond, bonded bool) {
	t := c.state.tables[TableName{a.App, BondTable}]
	if t == nil || a.Switch != 0 {
		return b, false
	}
	row, bonded := t.cells.Get(a.Key, Key{})
	if !bonded {
		return b, false
	}
	d := decoder{b: row}
	b = Bond{d.shard(), d.string()}
	return b, d.err == nil // else of another release: it is set again
}

// SetBond sets the bond of an actor of the application, which belongs to no switch. The actor must be Beside this one.
func (tx *Tx) SetBond(at Shard, b Bond) {
	tx.Put(tx.Table(BondTable), at.Key, Key{}, appendString(b.To.append(nil), b.By))
}

// Beside reports whether an actor of the application lives in this group, so that the transaction can use its cells.
func (tx *Tx) Beside(at Shard) bool { return tx.c.here(Actor{tx.app, at}) }

// Pinned makes known a function that reports whether an operator has pinned an actor. It is only asked by a leader. It
// must be called before any other method.
func (c *Core) Pinned(pinned func(Actor) bool) { c.pinned = pinned }

// follower is an actor that is to move to the group of another one.
type follower struct {
	actor Actor
	to    uint64
}

// unmoved is why an actor that was to move stays.
type unmoved struct {
	err   error
	since int64
}

// Who waits for an actor asks again each second, and is to hear why it does not come. When there are more than
// maxUnmoved, all are forgotten.
const (
	rememberUnmoved = 5 * time.Second
	maxUnmoved      = 4096
)

func (c *Core) keepUnmoved(a Actor, err error) {
	if c.unmoved == nil || len(c.unmoved) >= maxUnmoved {
		c.unmoved = map[Actor]unmoved{}
	}
	c.unmoved[a] = unmoved{err, c.clock}
}

// Follow makes the actor of the transaction move to the group where another one of its application lives, as far as
// this leader knows. Moves begins the move. That is not replicated: whoever waits for the actor asks again. Follow
// returns an error if the actor cannot move.
func (tx *Tx) Follow(to Shard) error {
	c, f := tx.c, follower{actor: tx.Actor()}
	at, known := c.where(Actor{tx.app, to})
	was, stays := c.unmoved[f.actor]
	switch {
	case !known || at.Group == c.group || c.degrading:
		return nil
	case stays && c.clock-was.since < int64(rememberUnmoved):
		return fmt.Errorf("%v does not move to group %d: %w", f.actor, at.Group, was.err)
	case c.pinned != nil && c.pinned(f.actor):
		return fmt.Errorf("%v does not move to group %d: an operator has pinned it to group %d", f.actor, at.Group,
			c.group)
	}
	if f.to = at.Group; !slices.Contains(c.followers, f) {
		c.followers = append(c.followers, f)
	}
	return nil
}

// follow begins the moves of actors that follow others.
func (c *Core) follow() {
	for len(c.followers) > 0 && c.Room() {
		f := c.followers[0]
		c.followers = c.followers[1:]
		if c.state.moves.leaving[f.actor] != f.to {
			_ = c.Move(f.actor, f.to) // whoever waits for it asks again, and is told by Follow
		}
	}
}

// wakeBeside makes the timers due that wait for a cell of another actor than their own if one of the two has arrived.
func (c *Core) wakeBeside(arrived Actor) {
	var names []timerName
	for k, waiting := range c.state.waiting {
		owner := Actor{k.App, c.shardOf(k.TableName, k.Key)}
		for n := range waiting {
			if n.actor != owner && (n.actor.mover() == arrived || owner.mover() == arrived) {
				names = append(names, n)
			}
		}
	}
	slices.SortFunc(names, timerName.compare)
	for _, n := range names {
		c.dueNow(n)
	}
}
