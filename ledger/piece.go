package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A piece is an item with a part of an actor that moves: operations, as in a snapshot and in an entry.
type piece struct {
	actor Actor
	next  Assignment // after the move; of the last piece
	first bool       // what was received of the actor before is dropped
	last  bool
	ops   []byte
	rest  bool // of a decoded piece: ops has others than those on tables
}

// maxPiece bounds a piece: a value, or the outbox of a stream, is not divided.
const maxPiece = 1 << 20

const itemPiece = 3

// The flags of a piece.
const (
	pieceLast = 1 << iota
	pieceFirst
)

// item encodes a piece.
func (p *piece) item() []byte {
	flags := byte(0)
	if p.last {
		flags = pieceLast
	}
	if p.first {
		flags |= pieceFirst
	}
	return appendItem(nil, func(b []byte) []byte {
		return append(p.next.append(appendActor(append(b, itemPiece, flags), p.actor)), p.ops...)
	})
}

// pieceWriter divides the operations of an actor into pieces.
type pieceWriter struct {
	piece              // the present one
	size   int         // at which it ends
	tables []TableName // of it
	list   [][]byte    // items
}

// room returns the buffer to which an operation is appended.
func (w *pieceWriter) room() []byte {
	if len(w.ops) >= w.size {
		last := w.last
		w.last = false
		w.cut()
		w.last = last
	}
	return w.ops
}

// field adds a field, or says that it is gone.
func (w *pieceWriter) field(f tableField) { w.put(f, w.room()) }

func (w *pieceWriter) put(f tableField, b []byte) {
	n := slices.Index(w.tables, f.table.name)
	if n < 0 {
		n = len(w.tables)
		w.tables = append(w.tables, f.table.name)
		b = appendTableName(b, f.table.name)
	}
	if value, there := f.table.cells.Get(f.cell, f.field); there {
		w.ops = appendPut(b, uint64(n), f.cell, f.field, value)
		return
	}
	b = binary.AppendUvarint(append(b, byte(OpDelete)), uint64(n))
	w.ops = f.field.Append(f.cell.Append(b))
}

// cut ends a piece.
func (w *pieceWriter) cut() {
	w.list = append(w.list, w.item())
	w.ops, w.tables, w.first = w.ops[:0], w.tables[:0], false
}

// piece reads an item with a piece, after its kind.
func (d *decoder) piece() *piece {
	flags := d.byte()
	p := &piece{last: flags&pieceLast != 0, first: flags&pieceFirst != 0, actor: d.actor(), next: d.assignment()}
	p.ops = d.b
	if d.err == nil {
		d.err = p.walk(func(r *Record) error { return p.checks(r) })
	}
	return p
}

// checkArrival returns an error for a piece that arrive would not accept.
func (s *state) checkArrival(group uint64, k Link, p *piece) error {
	to, isTo := k.To.group()
	if _, isFrom := k.From.group(); !isTo || !isFrom || to != group {
		return fmt.Errorf("%v does not arrive on a stream from group to group", p.actor)
	}
	if old, known := s.moves.at[p.actor]; p.last && (p.next.Group != group || known && old.Version >= p.next.Version) {
		return fmt.Errorf("%v arrives in group %d with assignment %v, which has %v", p.actor, group, p.next, old)
	}
	if !p.rest {
		return nil
	}
	return p.walk(func(r *Record) error {
		switch {
		case r.Op == OpSwitch && s.knows(r.Switch):
			return fmt.Errorf("switch %s: %w", r.Switch, errTwice)
		case r.Op == OpOutgoing && s.links.out[r.Link].used(), r.Op == OpIncoming && s.links.in[r.Link].used():
			return fmt.Errorf("stream %v: %w", r.Link, errTwice)
		}
		return nil
	})
}

// checks returns an error for an operation that is not a part of the actor.
func (p *piece) checks(r *Record) error {
	of, cell := Actor{}, false
	switch r.Op {
	case OpPut, OpDelete:
		return nil // the table was checked
	case OpTable:
		of, cell = Actor{r.Table.App, p.actor.Shard}, true
	case OpSetTimer, OpSuspend:
		of = r.Actor
	case OpOutgoing:
		of = r.Link.From
	case OpIncoming:
		of = r.Link.To
	case OpSwitch:
		of = theSwitch(r.Switch)
	}
	if of.mover() != p.actor || of.App == "" && (of.Switch == 0 || cell) {
		return fmt.Errorf("operation %d of %v is among those of %v, which moves", r.Op, of, p.actor)
	}
	p.rest = p.rest || !cell
	return nil
}

// walk calls f for each operation. The record is valid during the call.
func (p *piece) walk(f func(*Record) error) error {
	d := decoder{b: p.ops}
	var tables []TableName
	var known deltas
	var r Record
	for d.err == nil && len(d.b) > 0 {
		if d.record(&r, &tables, &known); d.err == nil {
			d.err = f(&r)
		}
	}
	return d.err
}

// arrival is the pieces of an actor that has not arrived as a whole.
type arrival struct {
	pieces [][]byte
	// What the first of the pieces contain. It is not replicated, and made again when it is needed.
	built  int
	tables map[TableName]*cells.Table
	others []Record // timers, ends of streams, and the state of a switch
}

// build adds the pieces that are new to what the others contain.
func (a *arrival) build() error {
	for ; a.built < len(a.pieces); a.built++ {
		p := piece{ops: a.pieces[a.built]}
		if err := p.walk(a.add); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrival) add(r *Record) error {
	switch r.Op {
	case OpTable:
		if a.tables == nil {
			a.tables = map[TableName]*cells.Table{}
		}
		if a.tables[r.Table] == nil {
			a.tables[r.Table] = new(cells.Table)
		}
	case OpPut:
		a.tables[r.Table].Put(r.Cell, r.Field, r.Bytes)
	case OpDelete:
		a.tables[r.Table].Delete(r.Cell, r.Field)
	default:
		a.others = append(a.others, *r)
	}
	return nil
}

// arrive adds a piece that has come on a stream from group to group, and with the last one makes the actor live here.
// It passes the inverse of each change to undone.
func (s *state) arrive(k Link, p *piece, undone func(undo)) error {
	from, _ := k.From.group()
	group, _ := k.To.group()
	old := s.oldMove(p.actor, from)
	a := s.moves.arriving[old.origin]
	if p.first || a == nil {
		a = &arrival{}
	}
	delete(s.moves.arriving, old.origin)
	if len(p.ops) > 0 {
		a.pieces = append(a.pieces, bytes.Clone(p.ops))
	}
	if err := a.build(); err != nil {
		return fmt.Errorf("%v arrives: %w", p.actor, err)
	}
	if !p.last {
		if len(a.pieces) > 0 {
			s.moves.arriveLater(old.origin, a)
		}
		undone(undo{kind: undoMove, move: old})
		return nil
	}
	if p.next.Group != group || old.existed && old.at.Version >= p.next.Version {
		return fmt.Errorf("%v arrives in group %d with assignment %v, which has %v: "+diverged, p.actor, group, p.next,
			old.at)
	}
	// as they are numbered in the entry
	for _, name := range slices.SortedFunc(maps.Keys(a.tables), TableName.compare) {
		t := s.table(name)
		t.adopt(a.tables[name], undone)
		t.revision = s.revision
	}
	for i := range a.others {
		if err := s.arriveOp(&a.others[i], old, undone); err != nil {
			return fmt.Errorf("%v arrives: %w", p.actor, err)
		}
	}
	s.moves.set(p.actor, p.next)
	undone(undo{kind: undoMove, move: old})
	return nil
}

func (m *moves) arriveLater(o origin, pieces *arrival) {
	if m.arriving == nil {
		m.arriving = map[origin]*arrival{}
	}
	m.arriving[o] = pieces
}

func (s *state) arriveOp(r *Record, old *oldMove, undone func(undo)) error {
	switch r.Op {
	case OpSetTimer:
		before, existed := s.timers[r.timerName()]
		undone(undo{kind: undoTimer, timer: &oldTimer{r.timerName(), before}, existed: existed})
	case OpSuspend:
		old.suspended = append(old.suspended, suspendedActor{Actor: r.Actor})
	case OpOutgoing:
		if s.links.out[r.Link].used() {
			return errTwice
		}
		delete(s.links.out, r.Link)
		old.out = append(old.out, s.links.outgoing(r.Link))
	case OpIncoming:
		if s.links.in[r.Link].used() {
			return errTwice
		}
		delete(s.links.in, r.Link)
		old.in = append(old.in, s.links.incoming(r.Link))
	case OpSwitch:
		if s.knows(r.Switch) {
			return errTwice
		}
		s.setSwitch(r.Switch, nil)
		old.sw = s.sw(r.Switch)
	}
	if err := s.apply(r); err != nil || r.Op != OpSwitch {
		return err
	}
	old.sw.arrived = old.sw.logged()
	return nil
}

var errTwice = errors.New("what arrives is there already: " + diverged)

// used reports whether anything was ever sent: the first item may have been undone.
func (o *outgoing) used() bool { return o != nil && o.outbox.Last() > 0 }

// used reports whether anything was ever received.
func (i *incoming) used() bool { return i != nil && (i.watermark > 0 || i.epoch != 0) }

// knows reports whether an epoch of a switch has begun.
func (s *state) knows(id openflow.DatapathID) bool {
	sw := s.switches[id]
	return sw != nil && sw.epoch != 0
}

// arrive is the leader's part of the arrival of a piece.
func (c *Core) arrive(k Link, p *piece) error {
	b := &c.batch
	start := len(b.undo)
	if err := c.state.arrive(k, p, func(u undo) { b.undo = append(b.undo, u) }); err != nil {
		return err
	}
	for _, u := range b.undo[start:] {
		switch u.kind {
		case undoValue, undoCell, undoTable:
			b.table(u.value.table) // so that readers learn that it has changed
		case undoTimer:
			c.schedule(c.state.timers[u.timer.name].due, u.timer.name)
		case undoMove:
			c.arrived(u.move, p)
		}
	}
	return nil
}

func (c *Core) arrived(m *oldMove, p *piece) {
	for _, o := range m.out {
		c.connect(o)
	}
	if m.sw != nil {
		m.sw.lead()
		m.sw.master.arriving = true
	}
	for _, i := range m.in {
		i.receiving = receiving{committed: uint64(i.watermark), peer: c.peerOf(i.From), touched: c.batch.number}
		c.batch.receives = append(c.batch.receives, got{in: i, arrived: p.next.Version})
	}
	if p.last {
		c.batch.arrived = append(c.batch.arrived, p.actor)
		c.Relocated(p.actor)
		c.wakeBeside(p.actor)
	}
}

// Arrival returns which actor arrives, and as what, with an item of OpReceive; false if it is not the last of a move.
func Arrival(item []byte) (Actor, Assignment, bool) {
	_, it, _, err := nextItem(item)
	if err != nil || it.piece == nil || !it.piece.last {
		return Actor{}, Assignment{}, false
	}
	return it.piece.actor, it.piece.next, true
}

// Unpublished returns the actors that have arrived in this group, and of which the directory does not know that. It
// returns them again after some time.
func (c *Core) Unpublished() []Actor {
	if len(c.unpublished) == c.published && (c.published == 0 || c.clock-c.publishedAt < int64(resendAfter)) {
		return nil
	}
	c.unpublished = slices.DeleteFunc(c.unpublished, func(a Actor) bool {
		own := c.state.moves.at[a]
		at, known := c.directory(a)
		return own.Group != c.group || known && at.Version >= own.Version
	})
	c.published, c.publishedAt = len(c.unpublished), c.clock
	return c.unpublished
}

// Republish makes Unassigned and Unpublished return everything again: the directory has a new leader, which may not
// have heard of it.
func (c *Core) Republish() {
	c.published = 0
	if p := c.peers[nowhere]; p != nil {
		for _, o := range p.links {
			c.unassign(o)
		}
	}
}

// Assignment returns the newest assignment of an actor that this leader knows.
func (c *Core) Assignment(a Actor) (Assignment, bool) { return c.where(a) }

func (a Assignment) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, a.Group), a.Version)
}

func (d *decoder) assignment() Assignment { return Assignment{d.uvarint(), d.uvarint()} }

// append encodes what moves have left, for snapshots.
func (m *moves) append(b []byte) []byte {
	for _, a := range slices.SortedFunc(maps.Keys(m.at), Actor.Compare) {
		b = m.at[a].append(appendActor(append(b, byte(OpMoved)), a))
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.leaving), Actor.Compare) {
		b = Assignment{Group: m.leaving[a]}.append(appendActor(append(b, byte(OpLeave)), a))
	}
	for _, o := range slices.SortedFunc(maps.Keys(m.arriving), origin.compare) {
		for _, ops := range m.arriving[o].pieces {
			b = binary.AppendUvarint(appendActor(append(b, byte(OpPiece)), o.actor), o.from)
			b = appendBytes(b, ops)
		}
	}
	return b
}
