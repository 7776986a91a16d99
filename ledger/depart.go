package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// departure is the leader's part of a move from here.
type departure struct {
	actor  Actor
	to     uint64
	tables []*table            // that are still to be copied
	cells  gathered            // of the present table, likewise
	cell   tableCell           // the present one
	fields gathered            // of it, likewise
	again  ordered[tableField] // before these: what has changed
	dirty  map[tableField]bool // what has changed since it was copied
	rounds int                 // how often dirty was copied
	begun  bool                // the first piece is sent
	last   uint64              // the item with the newest piece
}

// next returns the next field to copy; false if there is none, or so many keys were put in order that it is the turn of
// other inputs. It takes these keys from left.
func (d *departure) next(c *Core, left *int) (f tableField, ok bool) {
	if f, ok = d.again.next(); ok {
		return f, true
	}
	for *left > 0 {
		*left -= d.fields.some(*left)
		if field, ok := d.fields.next(); ok {
			return tableField{d.cell, field}, true
		}
		if !d.fields.empty() {
			break
		}
		*left -= 1 + d.cells.some(*left)
		if cell, ok := d.cells.next(); ok {
			d.cell.cell = cell
			d.fields = gather(d.cell.table.cells.FieldsInParts(cell), func(Key) bool { return true })
			continue
		}
		if !d.cells.empty() {
			break
		}
		if len(d.tables) == 0 {
			return f, false
		}
		d.cell.table, d.tables = d.tables[0], d.tables[1:]
		d.cells = c.gatherCells(d.cell.table, d.actor)
	}
	return f, false
}

// copied reports whether nothing is left to copy.
func (d *departure) copied() bool {
	return len(d.tables) == 0 && d.cells.empty() && d.fields.empty() && d.again.len() == 0
}

// tableField is a field of a cell.
type tableField struct {
	tableCell
	field Key
}

func (f tableField) compare(o tableField) int {
	if n := f.tableCell.compare(o.tableCell); n != 0 {
		return n
	}
	return f.field.Compare(o.field)
}

// Copying is bounded: the pieces of a move that the other group has not taken, since other inputs of both groups wait
// behind them; and how often what has changed meanwhile is copied, unless it is little, before the actor departs in any
// case.
const (
	maxCopies = 2
	maxRounds = 4
	maxDirty  = 1 << 16
	// maxGathered bounds the keys that are put in order for one piece, which has less, or nothing, when it is reached.
	maxGathered = 1 << 11
)

// little is how many fields are little: so many bytes of a piece have one.
const little = 1 << 8

// leave begins a departure.
func (c *Core) leave(a Actor, to uint64) {
	c.leaving = append(c.leaving, c.departure(a, to))
}

func (c *Core) departure(a Actor, to uint64) *departure {
	return &departure{actor: a, to: to, tables: c.tablesOf(a), dirty: map[tableField]bool{}}
}

// leadMoves is called when this replica begins to lead: all copies begin again.
func (c *Core) leadMoves() {
	c.ended, c.followers, c.unmoved = nil, nil, nil
	for _, a := range slices.SortedFunc(maps.Keys(c.state.moves.leaving), Actor.Compare) {
		c.leave(a, c.state.moves.leaving[a])
	}
}

// changed notes changes of actors that are about to depart.
func (c *Core) changed(changes []undo) {
	for _, u := range changes {
		if u.kind != undoValue {
			continue
		}
		v := u.value
		for _, d := range c.leaving {
			if (Actor{v.table.name.App, c.shardOf(v.table.name, v.cell)}).mover() == d.actor {
				d.dirty[tableField{tableCell{v.table, v.cell}, v.field}] = true
				if len(d.dirty) > maxDirty { // the other group does not take the copy: it begins again
					last := d.last
					*d = *c.departure(d.actor, d.to)
					d.last = last
				}
			}
		}
	}
}

// Moves goes on with the moves of actors from here, while there is Room. It sends one piece of each: other inputs wait
// behind it. It is called again when that is committed.
func (c *Core) Moves() {
	c.follow()
	for i := 0; i < len(c.leaving) && c.Room(); {
		switch d := c.leaving[i]; {
		case c.copies(d):
			i++
		case i == len(c.leaving) || c.leaving[i] != d: // it was given up
		case d.copied() && c.outgoing(d.link(c)).sending.taken >= d.last && c.numbered(d.actor):
			c.depart(d) // and d is no longer in the list
		default: // the other group has not taken everything yet
			i++
		}
	}
}

// numbered reports whether this leader knows the assignment of an actor, which the next one follows. A new leader does
// not if the actor has never moved and its replica of the system group is behind. The directory would ignore a version
// that is not above its own, so the actor waits.
func (c *Core) numbered(a Actor) bool {
	_, known := c.where(a)
	return known
}

func (d *departure) link(c *Core) Link { return Link{theGroup(c.group), theGroup(d.to)} }

// copies sends the next piece of an actor that works, if there is one and the other group takes what it has.
func (c *Core) copies(d *departure) bool {
	out := c.outgoing(d.link(c))
	taken := out.sending.taken >= d.last
	if again := d.copied() && taken && len(d.dirty) > c.limits.PieceBytes/little && d.rounds < maxRounds; again {
		d.rounds++
		d.copyAgain()
	}
	underWay := out.outbox.Last() - out.sending.taken
	if d.begun && d.copied() || underWay >= maxCopies || out.sending.peer.full(c.softBound()) {
		return false
	}
	w := pieceWriter{piece: piece{actor: d.actor, first: !d.begun}, size: c.limits.PieceBytes}
	for left := maxGathered; len(w.ops) < w.size; {
		f, more := d.next(c, &left)
		if !more {
			break
		}
		w.put(f, w.ops)
	}
	if len(w.ops) > maxPiece {
		c.giveUp(d, fmt.Errorf("%w: a value has more than %d bytes", ErrImmovable, maxPiece))
		return false
	}
	d.begun = true
	c.logLeave(d.actor, d.to) // again: it begins the transaction
	c.push(out, w.item(), 0)
	c.finish()
	d.last = out.outbox.Last()
	return true
}

// copyAgain makes the fields that have changed, or are gone, those to be copied.
func (d *departure) copyAgain() {
	d.again = inOrder(slices.Collect(maps.Keys(d.dirty)), tableField.compare)
	clear(d.dirty)
}

// EndedMove is a move that has ended before the actor departed, and why. Err is ErrImmovable or ErrCalledOff.
type EndedMove struct {
	Actor Actor
	To    uint64
	Err   error
}

// handing is an actor that has departed, and of which the other group may not have everything.
type handing struct {
	actor Actor
	link  Link
	last  uint64 // the item with the end of the actor
	since int64  // ledger time of the departure
}

// Handover is the end of a move: the actor worked nowhere from its departure until the other group had committed its
// arrival. Took is at least that time: it has the way of the acknowledgement, too.
type Handover struct {
	Actor Actor
	To    uint64
	Took  time.Duration
}

// Handovers returns those that have ended since the last call, at a leader. Those that began under an earlier leader
// are not among them.
func (c *Core) Handovers() (done []Handover) {
	c.handing = slices.DeleteFunc(c.handing, func(h handing) bool {
		if c.outgoing(h.link).sending.taken < h.last {
			return false
		}
		to, _ := h.link.To.group()
		done = append(done, Handover{h.actor, to, time.Duration(c.clock - h.since)})
		return true
	})
	return done
}

// maxEnded bounds the moves that have ended and were not asked for. Further ones are only logged. It bounds the
// handovers at a time, too: further ones are not told.
const maxEnded = 4096

// endMove ends a move before the actor departs.
func (c *Core) endMove(a Actor, to uint64, err error) {
	c.callOff(a, to)
	if len(c.ended) < maxEnded {
		c.ended = append(c.ended, EndedMove{a, to, err})
	}
}

// EndedMoves returns the moves that have ended since the last call before their actors departed, at a leader.
func (c *Core) EndedMoves() []EndedMove {
	list := c.ended
	c.ended = nil
	return list
}

// giveUp ends a move before the actor departs, because it cannot.
func (c *Core) giveUp(d *departure, err error) {
	c.endMove(d.actor, d.to, err)
	c.keepUnmoved(d.actor, err)
	c.logFailure(Failure{App: d.actor.App, Err: fmt.Errorf("move %v to group %d: %w", d.actor, d.to, err)})
}

// depart sends the rest of an actor, which lives in the other group from then on.
func (c *Core) depart(d *departure) {
	a, at := d.actor, Assignment{}
	at, _ = c.where(a)
	next := Assignment{d.to, at.Version + 1}
	parts := c.partsOf(a)
	pieces, err := c.rest(d, next, parts)
	if err != nil {
		c.giveUp(d, err)
		return
	}
	c.departs(a, next, d.link(c), parts, pieces)
	if len(c.handing) < maxEnded {
		c.handing = append(c.handing, handing{a, d.link(c), c.outgoing(d.link(c)).outbox.Last(), c.clock})
	}
	c.leaving = slices.DeleteFunc(c.leaving, func(o *departure) bool { return o == d })
}

// departs is the transaction in which an actor departs: its cells, which are the parts of tables, timers and ends of
// streams are removed, and pieces follow what was sent of it before.
func (c *Core) departs(a Actor, next Assignment, k Link, parts []part, pieces [][]byte) {
	b := c.beginTransaction()
	staying := c.staying(a)
	if a.isSwitch() {
		b.logSkipped(c.state.switches[a.Switch])
	}
	b.buf = next.append(appendActor(append(b.buf, byte(OpDepart)), a))
	c.dropAll(a, parts)
	out := c.outgoing(k)
	for _, item := range pieces {
		c.push(out, item, 0)
	}
	c.removeActor(a, next)
	c.remember(staying)
	c.finish()
}

// dropAll removes what an actor has: the parts of tables, and timers.
func (c *Core) dropAll(a Actor, parts []part) {
	for _, x := range parts {
		c.drop(x)
	}
	for _, name := range c.timersOf(a) {
		c.tx = Tx{c: c, app: name.actor.App, at: name.actor.Shard}
		c.tx.CancelTimer(name.name)
	}
}

// drop removes what an actor has of a table.
func (c *Core) drop(x part) {
	b := &c.batch
	undone := func(u undo) { b.undo = append(b.undo, u) }
	n := b.table(x.table)
	if x.whole {
		b.buf = binary.AppendUvarint(append(b.buf, byte(OpClear)), n)
		x.table.replace(new(cells.Table), undone)
		return
	}
	slices.SortFunc(x.cells, Key.Compare)
	for _, cell := range x.cells {
		b.buf = cell.Append(binary.AppendUvarint(append(b.buf, byte(OpDrop)), n))
		x.table.drop(cell, undone)
	}
}

// dropBytes is the most that the end of a cell or a timer takes in an entry, without names.
const dropBytes = 48

// dropSize returns the most that dropAll takes in an entry.
func dropSize(parts []part, timers []timerName) (size int) {
	for _, x := range parts {
		size += dropBytes // if it is whole, one operation for all of it
		for _, cell := range x.cells {
			size += dropBytes + len(cell.S)
		}
	}
	for _, name := range timers {
		size += dropBytes + len(name.actor.App) + len(name.actor.Key.S) + len(name.name)
	}
	return size
}

// rest encodes what the other group does not have of an actor.
func (c *Core) rest(d *departure, next Assignment, parts []part) ([][]byte, error) {
	a := d.actor
	w := pieceWriter{piece: piece{actor: a, next: next}, size: c.limits.PieceBytes}
	if a.isSwitch() {
		w.ops = c.state.switches[a.Switch].appendDeparting(w.room())
	}
	for _, f := range slices.SortedFunc(maps.Keys(d.dirty), tableField.compare) {
		w.field(f)
	}
	for _, name := range c.timersOf(a) {
		w.ops = c.state.timers[name].append(w.room(), name)
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.state.links.out), Link.compare) {
		if k.From.mover() == a {
			w.ops = c.state.links.out[k].append(w.room())
		}
	}
	for _, of := range c.state.suspendedOf(a) {
		w.ops = of.suspension.append(w.room(), of.Actor)
	}
	for _, i := range c.knowledge(a) {
		w.ops = i.append(w.room())
	}
	w.last = true
	w.cut()
	size, largest := dropSize(parts, c.timersOf(a)), 0
	for _, i := range c.staying(a) {
		size += dropBytes + len(i.To.App) + len(i.To.Key.S) + len(i.hello)
	}
	for _, item := range w.list {
		size, largest = size+len(item), max(largest, len(item))
	}
	if most := c.limits.EntryBytes - c.limits.BatchBytes; largest > maxPiece || size > most {
		return nil, fmt.Errorf("%w now: %d bytes are to follow at once, at most %d are possible, and %d in one part",
			ErrImmovable, size, most, maxPiece)
	}
	return w.list, nil
}
