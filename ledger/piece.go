package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A piece is an item with a part of an actor that moves: operations, as in a snapshot.
type piece struct {
	actor Actor
	next  Assignment // after the move
	last  bool
	ops   []byte
}

// pieceBytes is the size at which a piece ends, and maxPiece bounds one: a value, or the outbox of a stream, is not
// divided.
const (
	pieceBytes = 64 << 10
	maxPiece   = 1 << 20
)

const itemPiece = 3

// pieces encodes an actor that is to move.
func (c *Core) pieces(a Actor, next Assignment, cells []tableCell) ([][]byte, error) {
	p := pieceWriter{next: next, actor: a}
	for _, k := range cells {
		for _, field := range k.table.fields(k.cell) {
			value, _ := k.table.get(k.cell, field)
			p.put(k.table.name, k.cell, field, value)
		}
	}
	for _, name := range c.timersOf(a) {
		p.add(c.state.timers[name].append(p.room(), name))
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.state.links.out), Link.compare) {
		if k.From == a {
			p.add(c.state.links.out[k].append(p.room()))
		}
	}
	for _, i := range c.knowledge(a) {
		p.add(i.append(p.room()))
	}
	p.cut(true)
	size := 0
	for _, item := range p.list {
		size += len(item)
	}
	if most := c.limits.EntryBytes - c.limits.BatchBytes; p.largest > maxPiece || size > most {
		return nil, fmt.Errorf("%w now: it has %d bytes, at most %d are possible, and %d in one part", ErrImmovable,
			size, most, maxPiece)
	}
	return p.list, nil
}

// pieceWriter divides the operations of an actor into pieces.
type pieceWriter struct {
	actor   Actor
	next    Assignment
	ops     []byte
	tables  []TableName // of this piece
	list    [][]byte    // items
	largest int
}

// room returns the buffer to which an operation is appended.
func (p *pieceWriter) room() []byte {
	if len(p.ops) >= pieceBytes {
		p.cut(false)
	}
	return p.ops
}

func (p *pieceWriter) add(ops []byte) { p.ops = ops }

func (p *pieceWriter) put(table TableName, cell, field Key, value []byte) {
	b := p.room()
	n := slices.Index(p.tables, table)
	if n < 0 {
		n = len(p.tables)
		p.tables = append(p.tables, table)
		b = appendTableName(b, table)
	}
	p.add(appendPut(b, uint64(n), cell, field, value))
}

func (p *pieceWriter) cut(last bool) {
	p.largest = max(p.largest, len(p.ops))
	p.list = append(p.list, appendItem(nil, func(b []byte) []byte {
		b = append(b, itemPiece, flag(last))
		return append(p.next.append(appendActor(b, p.actor)), p.ops...)
	}))
	p.ops, p.tables = p.ops[:0], p.tables[:0]
}

// piece reads an item with a piece, after its kind.
func (d *decoder) piece() *piece {
	p := &piece{last: d.byte() != 0, actor: d.actor(), next: d.assignment(), ops: d.b}
	if d.err == nil {
		d.err = p.walk(func(r *Record) error { return p.checks(r) })
	}
	return p
}

// checks returns an error for an operation that is not a part of the actor.
func (p *piece) checks(r *Record) error {
	of := Actor{}
	switch r.Op {
	case OpTable, OpPut:
		of = Actor{r.Table.App, p.actor.Shard}
	case OpSetTimer:
		of = r.Actor
	case OpOutgoing:
		of = r.Link.From
	case OpIncoming:
		of = r.Link.To
	}
	if of != p.actor {
		return fmt.Errorf("operation %d of %v is among those of %v, which moves", r.Op, of, p.actor)
	}
	return nil
}

// walk calls f for each operation. The record is valid during the call.
func (p *piece) walk(f func(*Record) error) error {
	d := decoder{b: p.ops}
	var tables []TableName
	var known deltas
	for d.err == nil && len(d.b) > 0 {
		var r Record
		if d.record(&r, &tables, &known); d.err == nil {
			d.err = f(&r)
		}
	}
	return d.err
}

// arrive adds a piece, and with the last one makes the actor live here. It passes the inverse of each change to undo.
func (s *state) arrive(group uint64, p *piece, undone func(undo)) error {
	old := s.oldMove(p.actor)
	all := append(slices.Clip(old.arriving), bytes.Clone(p.ops))
	delete(s.moves.arriving, p.actor)
	if !p.last {
		if s.moves.arriving == nil {
			s.moves.arriving = map[Actor][][]byte{}
		}
		s.moves.arriving[p.actor] = all
		undone(undo{kind: undoMove, move: old})
		return nil
	}
	if p.next.Group != group || old.existed && old.at.Version >= p.next.Version {
		return fmt.Errorf("%v arrives in group %d with assignment %v, which has %v: "+diverged, p.actor, group, p.next,
			old.at)
	}
	for _, ops := range all {
		q := piece{ops: ops}
		if err := q.walk(func(r *Record) error { return s.arriveOp(r, old, undone) }); err != nil {
			return fmt.Errorf("%v arrives: %w", p.actor, err)
		}
	}
	s.moves.set(p.actor, p.next)
	undone(undo{kind: undoMove, move: old})
	return nil
}

func (s *state) arriveOp(r *Record, old *oldMove, undone func(undo)) error {
	switch r.Op {
	case OpPut:
		t := s.table(r.Table)
		before, existed := t.get(r.Cell, r.Field)
		undone(undo{kind: undoValue, value: &oldValue{t, r.Cell, r.Field, before}, existed: existed})
	case OpSetTimer:
		before, existed := s.timers[r.timerName()]
		undone(undo{kind: undoTimer, timer: &oldTimer{r.timerName(), before}, existed: existed})
	case OpOutgoing:
		if s.links.out[r.Link] != nil {
			return errTwice
		}
		old.out = append(old.out, s.links.outgoing(r.Link))
	case OpIncoming:
		if s.links.in[r.Link] != nil {
			return errTwice
		}
		old.in = append(old.in, s.links.incoming(r.Link))
	}
	return s.apply(r)
}

var errTwice = errors.New("an end of a stream is there already: " + diverged)

// arrive is the leader's part of the arrival of a piece.
func (c *Core) arrive(p *piece) error {
	b := &c.batch
	start := len(b.undo)
	if err := c.state.arrive(c.group, p, func(u undo) { b.undo = append(b.undo, u) }); err != nil {
		return err
	}
	for _, u := range b.undo[start:] {
		switch u.kind {
		case undoValue:
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
	for _, i := range m.in {
		i.receiving = receiving{committed: uint64(i.watermark), peer: c.peerOf(i.From), touched: c.batch.number}
		c.batch.receives = append(c.batch.receives, got{in: i, resend: true})
	}
	if p.last {
		c.batch.arrived = append(c.batch.arrived, p.actor)
		c.Relocated(p.actor)
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
	for _, a := range slices.SortedFunc(maps.Keys(m.arriving), Actor.Compare) {
		for _, ops := range m.arriving[a] {
			b = appendBytes(appendActor(append(b, byte(OpPiece)), a), ops)
		}
	}
	return b
}
