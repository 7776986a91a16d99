package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// An actor moves from its group to another one in transactions of both, which a stream between the groups connects:
//
//	leave   in the log of its group: the move begins
//	copy    its cells become items for the other group, while it works; several times
//	depart  what has changed since, its timers and its ends of streams follow, and it lives here no longer
//	arrive  in the log of the other group: with the last of the items the actor lives there
//
// A switch moves in the same way, with all actors at it: its epoch, watermarks and queue of commands are part of what
// follows when it departs. Its events are refused from then on, and its leader in the other group claims it once it has
// arrived.
//
// No permission is needed, because the group in which an actor lives is the only one that can move it, and its log
// orders that. The group in which it arrives tells the directory; see Unpublished. What is sent to the actor meanwhile
// is kept by its senders, since nobody acknowledges it. Until it departs, a move can be called off. A new leader begins
// the copy again.

// theGroup is a group as an end of a stream, on which actors move.
func theGroup(number uint64) Actor { return Actor{Shard: Shard{Key: Key{A: number, B: 1}}} }

// group returns the number of a group; false if the actor is none.
func (a Actor) group() (number uint64, is bool) {
	return a.Key.A, a.App == "" && a.Key.B == 1
}

// Moves reports whether actors move on the stream: its ends are groups.
func (l Link) Moves() bool {
	_, is := l.From.group()
	return is
}

// Sharder is an Application whose cells belong to several actors. Those of any other belong to the zero Shard.
type Sharder interface {
	Application
	// Shard returns the shard that has a cell. A shard with a key has the cell of that key and no other, unless the
	// application is a Spreader. It may be called from any goroutine.
	Shard(table string, cell Key) Shard
}

// Spreader is a Sharder whose shards with a key have cells of other keys too. To find them, all cells are looked at.
type Spreader interface {
	Sharder
	SpreadsCells()
}

// Errors of Move.
var (
	// ErrElsewhere is returned if the actor does not live in this group.
	ErrElsewhere = errors.New("the actor does not live in this group")
	// ErrImmovable is returned for an actor that cannot move.
	ErrImmovable = errors.New("the actor cannot move")
	// ErrCalledOff is why a move has ended that somebody called off.
	ErrCalledOff = errors.New("the move was called off")
)

// Move begins to move an actor to another group. If that is this group, it calls off a move that has begun. The
// caller has checked Room, and calls Moves to go on. After an error nothing has changed. A move that has begun may be
// given up, because too much of the actor changes or a value is too large, or be called off: see EndedMoves.
func (c *Core) Move(a Actor, to uint64) error {
	at, known := c.where(a)
	switch {
	case !c.leading:
		return errNotLeading
	case !c.sharded() || a != a.mover() || !a.isSwitch() && c.appOf(a.App) < 0 || to == 0:
		return fmt.Errorf("move %v: %w: only switches and shards of applications move, and those of a switch with it",
			a, ErrImmovable)
	case !known || at.Group != c.group || !c.here(a):
		return fmt.Errorf("move %v: %w", a, ErrElsewhere)
	}
	if a.isSwitch() {
		if err := c.movable(a.Switch, to); err != nil {
			return fmt.Errorf("move %v: %w", a, err)
		}
	}
	if was, leaving := c.state.moves.leaving[a]; leaving && was != to {
		c.endMove(a, was, fmt.Errorf("%w: somebody has asked for a move to group %d since", ErrCalledOff, to))
	}
	if _, leaving := c.state.moves.leaving[a]; !leaving && to != c.group {
		c.logLeave(a, to)
		c.finish()
		c.leave(a, to)
	}
	return nil
}

// callOff ends a move before the actor departs. The other group forgets what it has.
func (c *Core) callOff(a Actor, to uint64) {
	c.logLeave(a, 0)
	c.push(c.outgoing(Link{theGroup(c.group), theGroup(to)}), (&piece{actor: a, first: true}).item(), 0)
	c.leaving = slices.DeleteFunc(c.leaving, func(d *departure) bool { return d.actor == a })
	c.finish()
}

// logLeave begins a transaction in which an actor begins to move to a group; 0 is none.
func (c *Core) logLeave(a Actor, to uint64) {
	b := c.beginTransaction()
	b.buf = Assignment{Group: to}.append(appendActor(append(b.buf, byte(OpLeave)), a))
	b.undo = append(b.undo, undo{kind: undoMove, move: c.state.oldMove(a, 0)})
	c.state.moves.leave(a, to)
}

// tableCell is a cell of a table.
type tableCell struct {
	table *table
	cell  Key
}

func (x tableCell) compare(y tableCell) int {
	if n := x.table.name.compare(y.table.name); n != 0 {
		return n
	}
	return x.cell.Compare(y.cell)
}

// tablesOf returns the tables in which an actor may have cells, by name.
func (c *Core) tablesOf(a Actor) (list []*table) {
	for name, t := range c.state.tables {
		if name.App == a.App || a.isSwitch() {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(t, u *table) int { return t.name.compare(u.name) })
	return list
}

// cellsIn yields the cells of a table that belong to an actor, in any order. The body of the loop must not change the
// table.
func (c *Core) cellsIn(t *table, a Actor) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		belongs := c.belongs(t, a)
		if c.hasOneCell(t, a) {
			if belongs(a.Key) && t.cells.Count(a.Key) > 0 {
				yield(a.Key)
			}
			return
		}
		for cell := range t.cells.Cells() {
			if belongs(cell) && !yield(cell) {
				return
			}
		}
	}
}

// gatherCells puts these cells in order.
func (c *Core) gatherCells(t *table, a Actor) gathered {
	if !c.hasOneCell(t, a) {
		return gather(t.cells.CellsInParts(), c.belongs(t, a))
	}
	list := gathered{orderedKeys: noKeys()}
	for cell := range c.cellsIn(t, a) {
		list.add(cell)
	}
	return list
}

// hasOneCell reports whether an actor has at most one cell of a table: that with its key.
func (c *Core) hasOneCell(t *table, a Actor) bool {
	_, spreads := c.sharder(t.name.App).(Spreader)
	return a.Key != (Key{}) && !spreads
}

func (c *Core) belongs(t *table, a Actor) func(cell Key) bool {
	by := c.sharder(t.name.App)
	return func(cell Key) bool { return shardBy(by, t.name, cell) == a.Shard }
}

// part is what an actor has of a table.
type part struct {
	table *table
	whole bool  // nobody else has any cell
	cells []Key // otherwise, in any order
}

// partsOf returns what an actor has of each table, by name.
func (c *Core) partsOf(a Actor) (list []part) {
	for _, t := range c.tablesOf(a) {
		n := 0
		for range c.cellsIn(t, a) {
			n++
		}
		switch n {
		case 0:
		case t.cells.Len():
			list = append(list, part{table: t, whole: true})
		default:
			list = append(list, part{table: t, cells: slices.Collect(c.cellsIn(t, a))})
		}
	}
	return list
}

// sharder returns an application of this ledger whose cells belong to several actors; nil if it is none.
func (c *Core) sharder(app string) Sharder {
	if i := c.appOf(app); i >= 0 {
		s, _ := c.apps[i].(Sharder)
		return s
	}
	return nil
}

// shardOf returns the shard that has a cell.
func (c *Core) shardOf(table TableName, cell Key) Shard {
	return shardBy(c.sharder(table.App), table, cell)
}

func shardBy(s Sharder, table TableName, cell Key) Shard {
	if s == nil {
		return Shard{}
	}
	return s.Shard(table.Name, cell)
}

// Assignable returns the actors that a directory has a row of: the switches that the ledger has seen, and the actors
// with a key that have cells or timers here.
func (c *Core) Assignable() []Actor {
	found := map[Actor]bool{}
	for id, sw := range c.state.switches {
		found[theSwitch(id)] = sw.epoch != 0
	}
	for name, t := range c.state.tables {
		for cell := range t.cells.Cells() {
			a := Actor{name.App, c.shardOf(name, cell)}
			found[a] = found[a] || a.Key != Key{}
		}
	}
	for name := range c.state.timers {
		found[name.actor] = found[name.actor] || name.actor.Key != Key{}
	}
	maps.DeleteFunc(found, func(_ Actor, is bool) bool { return !is })
	return slices.SortedFunc(maps.Keys(found), Actor.Compare)
}

func (c *Core) timersOf(a Actor) (list []timerName) {
	for name := range c.state.timers {
		if name.actor.mover() == a {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, timerName.compare)
	return list
}

// removeActor is the leader's part of OpDepart.
func (c *Core) removeActor(a Actor, next Assignment) {
	left := c.state.depart(a, next)
	c.batch.undo = append(c.batch.undo, undo{kind: undoMove, move: left})
	for _, o := range left.out {
		if p := o.sending.peer; p != nil {
			p.remove(o)
		}
		c.taken = slices.DeleteFunc(c.taken, func(t *outgoing) bool { return t == o })
		c.senders[o.To] = slices.DeleteFunc(c.senders[o.To], func(s *outgoing) bool { return s == o })
	}
	maps.DeleteFunc(c.late, func(name timerName, _ uint64) bool { return name.actor.mover() == a })
	if left.sw != nil {
		c.endSwitch(left.sw)
		c.batch.departed = append(c.batch.departed, left.sw.id)
	}
	c.relieved++
	c.Relocated(a)
}

// knowledge returns the receiver's ends of the streams to an actor, as they are to be where it moves: with what it
// knows about switches of this group, whose events it has received without a stream.
func (c *Core) knowledge(a Actor) []*incoming {
	ends := map[Link]*incoming{}
	for k, i := range c.state.links.in {
		if k.To.mover() == a && i.used() {
			ends[k] = &incoming{Link: k, received: i.received}
		}
	}
	for id, sw := range c.state.switches {
		if k := (Link{theSwitch(id), a}); ends[k] == nil && a.Shard == (Shard{}) && sw.live {
			ends[k] = &incoming{Link: k} // it may ask for all switches
		}
	}
	var list []*incoming
	for _, k := range slices.SortedFunc(maps.Keys(ends), Link.compare) {
		i := ends[k]
		if sw := c.state.switches[k.From.Switch]; sw != nil && k.From.isSwitch() {
			c.learn(i, sw)
		}
		list = append(list, i)
	}
	return list
}

// learn makes the state of a switch what the actor knows of it. One that handles no SwitchUp will not be told of the
// next epoch, so it gets no hello: then it can send on after commands of this epoch were void.
func (c *Core) learn(i *incoming, sw *switchState) {
	i.epoch, i.live, i.hello = sw.epoch, sw.live && sw.reachable, nil
	if !c.deaf[i.To.App] {
		i.hello = sw.hello
	}
}

// DeafOf returns the names of the applications that say that they handle no SwitchUp.
func DeafOf(apps []Application) map[string]bool {
	deaf := map[string]bool{}
	for _, a := range apps {
		if e, explains := a.(Explainer); explains {
			deaf[a.Name()] = !slices.ContainsFunc(e.Explain(), func(m Mapping) bool { return m.Kind == SwitchUp })
		}
	}
	return deaf
}

// moves is what a group knows of actors that have moved to it or from it. It is replicated.
type moves struct {
	at       map[Actor]Assignment // the newest assignments
	leaving  map[Actor]uint64     // to which group
	arriving map[origin]*arrival
}

// origin is an actor that arrives, and the group from which it does. A move from another group may have been called off
// before, and that may become known here while the actor arrives.
type origin struct {
	actor Actor
	from  uint64
}

func (o origin) compare(p origin) int {
	return cmp.Or(o.actor.Compare(p.actor), cmp.Compare(o.from, p.from))
}

// oldMove is what a move has changed, to undo it.
type oldMove struct {
	origin   // from is 0 unless it arrives
	at       Assignment
	existed  bool   // at
	leaving  uint64 // 0: it was not
	arriving [][]byte
	gone     bool // out, in and sw were removed, and not added
	out      []*outgoing
	in       []*incoming
	sw       *switchState // likewise
	// of the actor and those that move with it, likewise; or that of the actor, which has changed
	suspended []suspendedActor
}

func (s *state) oldMove(a Actor, from uint64) *oldMove {
	old := &oldMove{origin: origin{a, from}, leaving: s.moves.leaving[a]}
	if has := s.moves.arriving[old.origin]; has != nil {
		old.arriving = slices.Clip(has.pieces)
	}
	old.at, old.existed = s.moves.at[a]
	return old
}

// depart applies OpDepart, and returns what was there before.
func (s *state) depart(a Actor, next Assignment) *oldMove {
	old := s.oldMove(a, 0)
	old.gone = true
	for k, o := range s.links.out {
		if k.From.mover() == a {
			old.out = append(old.out, o)
			delete(s.links.out, k)
		}
	}
	// Not as the map has them: a simulated run is to repeat.
	slices.SortFunc(old.out, func(a, b *outgoing) int { return a.Link.compare(b.Link) })
	for k, i := range s.links.in {
		if k.To.mover() == a {
			old.in = append(old.in, i)
			delete(s.links.in, k)
		}
	}
	if a.isSwitch() {
		old.sw = s.switches[a.Switch]
		s.setSwitch(a.Switch, nil)
	}
	old.suspended = s.suspendedOf(a)
	for _, of := range old.suspended {
		delete(s.suspended, of.Actor)
	}
	s.moves.leave(a, 0)
	s.moves.set(a, next)
	return old
}

// leave notes that an actor begins to move to a group; 0 is none.
func (m *moves) leave(a Actor, to uint64) {
	if to == 0 {
		delete(m.leaving, a)
		return
	}
	if m.leaving == nil {
		m.leaving = map[Actor]uint64{}
	}
	m.leaving[a] = to
}

func (m *moves) set(a Actor, at Assignment) {
	if m.at == nil {
		m.at = map[Actor]Assignment{}
	}
	m.at[a] = at
}

// revertMove undoes a departure, or the arrival of a piece.
func (s *state) revertMove(old *oldMove) {
	for _, o := range old.out {
		if delete(s.links.out, o.Link); old.gone {
			s.links.out[o.Link] = o
		}
	}
	for _, i := range old.in {
		if delete(s.links.in, i.Link); old.gone {
			s.links.in[i.Link] = i
		}
	}
	for _, of := range old.suspended {
		if delete(s.suspended, of.Actor); old.gone {
			s.suspend(of.Actor, of.suspension)
		}
	}
	if old.sw != nil && old.gone {
		s.setSwitch(old.sw.id, old.sw)
	} else if old.sw != nil {
		s.setSwitch(old.sw.id, nil)
	}
	if delete(s.moves.at, old.actor); old.existed {
		s.moves.at[old.actor] = old.at
	}
	s.moves.leave(old.actor, old.leaving)
	if delete(s.moves.arriving, old.origin); old.arriving != nil {
		s.moves.arriveLater(old.origin, &arrival{pieces: old.arriving})
	}
}
