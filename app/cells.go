package app

import (
	"fmt"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Cell is one (table, key) of this application.
type Cell struct {
	table *part
	key   ledger.Key
}

func (c Cell) String() string { return fmt.Sprintf("%s[%s]", c.table.name, c.key) }

func (c *Cell) shard() ledger.Shard { return c.table.split.shard(c.key) }

// in reports whether a shard is that of the cell.
func (c *Cell) in(s *ledger.Shard) bool {
	own := c.shard()
	return own.Switch == s.Switch && same(&own.Key, &s.Key)
}

func (c *Cell) is(o *Cell) bool { return c.table == o.table && same(&c.key, &o.key) }

// same is ==, which takes longer: most keys are numbers.
func same(a, b *ledger.Key) bool {
	return a.A == b.A && a.B == b.B && len(a.S) == len(b.S) && (a.S == "" || a.S == b.S)
}

// Cells is what a map function returns: what a handler needs for a message. It decides which actor handles the message.
// The zero Cells, which is Need(), names no cells: the message is handled by the actor where it is, which for an event
// is the application's actor at the switch.
type Cells struct {
	few   [2]Cell // the usual number, without allocating; few, because Cells are copied for each message
	n     int
	many  []Cell
	parts []*part // of which all cells are needed
	kind  cellsKind
}

type cellsKind uint8

const (
	needed cellsKind = iota
	each             // the message is for all actors with cells of parts[0]
	dropped
)

// part is a table, of which an actor has all cells or a part. There is one for each table.
type part struct {
	name  string
	split split
}

// owner returns the shard whose cells of the table a handler iterates over.
func (p *part) owner(tx *Tx) ledger.Shard {
	if p.split == together {
		return ledger.Shard{}
	}
	return tx.ledger.Shard()
}

// Dictionary is a Table or a Map.
type Dictionary interface{ part() *part }

// Need lists cells. If they belong to several actors, these come to live in one group, and one of them handles the
// message: see "Cells of several actors" in docs/applications.md. At most one of them may belong to a switch.
func Need(cells ...Cell) (c Cells) {
	c.n = copy(c.few[:], cells)
	if len(cells) > len(c.few) {
		c.many = append(c.many, cells[len(c.few):]...)
	}
	return c
}

// Whole names all cells of tables, and those cells besides that With adds. So the messages of such a handler are
// handled one after the other, by the actor that has everything of the application which belongs to no switch and no
// key. The tables must not be divided: Handle panics if one of them is Sharded, has Buckets, or is keyed by a switch
// without being Together.
func Whole(tables ...Dictionary) (c Cells) {
	for _, t := range tables {
		c.parts = append(c.parts, t.part())
	}
	return c
}

// Each makes a message be handled once by each actor that has cells of a table, with those cells. Each of them handles
// it in a transaction of its own, or in that of the message, but if the handler fails for one of them that is undone
// alone. Actors of other groups receive the message on streams, so no move of an actor makes it be handled twice or not
// at all. An actor that gets its first cells of the table meanwhile may be left out.
//
// A message for Each of more than 8,192 actors fails. If they may be more, use Buckets.
func Each(table Dictionary) Cells { return Cells{kind: each, parts: []*part{table.part()}} }

// Drop makes a message be handled by nobody.
func Drop() Cells { return Cells{kind: dropped} }

// With adds cells to those of Whole or Need.
func (c Cells) With(cells ...Cell) Cells {
	have := append(append(c.few[:c.n:c.n], c.many...), cells...)
	with := Need(have...)
	with.parts, with.kind = c.parts, c.kind
	return with
}

func (c *Cells) has(cell *Cell) bool {
	for i := range c.n {
		if c.few[i].is(cell) {
			return true
		}
	}
	for i := range c.many {
		if c.many[i].is(cell) {
			return true
		}
	}
	return c.hasAll(cell.table)
}

// hasAll reports whether all cells of a table are named.
func (c *Cells) hasAll(t *part) bool {
	for _, p := range c.parts {
		if p == t {
			return true
		}
	}
	return false
}

// of returns the shard that has the cells; without cells it is by. ok is false if they are in several.
func (c *Cells) of(by ledger.Shard) (at ledger.Shard, ok bool) {
	list := c.few[:c.n]
	switch {
	case len(c.parts) > 0: // the shard of what is not divided
	case c.n > 0:
		at, list = c.few[0].shard(), list[1:]
	default:
		at = by
	}
	for i := range list {
		if !list[i].in(&at) {
			return at, false
		}
	}
	for i := range c.many {
		if !c.many[i].in(&at) {
			return at, false
		}
	}
	return at, true
}

// divided returns an error if all cells of a table are needed which has them in several actors.
func (c *Cells) divided() error {
	if c.kind != needed {
		return nil
	}
	for _, p := range c.parts {
		if p.split != together {
			return fmt.Errorf("needs all of table %q, which is divided %s: use Each, or make the table Together",
				p.name, p.split.by())
		}
	}
	return nil
}

func (c *Cells) String() string {
	list := []string{}
	for i := range c.n {
		list = append(list, c.few[i].String())
	}
	for _, m := range c.many {
		list = append(list, m.String())
	}
	for _, p := range c.parts {
		list = append(list, "all of "+p.name)
	}
	return strings.Join(list, ", ")
}

// enter reports whether a handler that needs the allowed cells is to run here, and now. If another group has them, the
// input goes there.
func (tx *Tx) enter() (bool, error) {
	c := &tx.allowed
	switch {
	case c.kind == each:
		return tx.enterEach(c.parts[0])
	case c.kind == dropped || tx.ledger.Passed():
		return false, nil
	case tx.whole:
		return tx.enterAt(ledger.Shard{}), nil
	case len(c.parts) > 0:
		if err := c.divided(); err != nil {
			return false, fmt.Errorf("%s %w", tx.handler, err)
		}
	}
	at, ok := c.of(tx.at)
	if !ok && tx.ledger.Sharded() {
		return tx.enterTogether()
	}
	return tx.enterOrStray(at), nil
}

// enterOrStray is enterAt. If the message is for another actor only, it notes that this handler does not handle it.
func (tx *Tx) enterOrStray(at ledger.Shard) bool {
	if tx.enterAt(at) {
		return true
	}
	if _, only := tx.ledger.To(); only {
		tx.astray = tx.handler
	}
	return false
}

// enterEach is enter for a handler that is to run in each actor with cells of a table.
func (tx *Tx) enterEach(p *part) (bool, error) {
	tx.ran = true // also if it has none of the cells
	to, only := tx.ledger.To()
	again, addressed := tx.ledger.Redelivered()
	table := tx.ledger.Table(p.name)
	switch {
	case tx.whole || p.split == together:
		return !tx.ledger.Passed() && tx.enterAt(ledger.Shard{}), nil
	case !only:
		return false, tx.ledger.Each(table, p.split == bySwitch)
	case again && !addressed: // the message was passed to each of them when it came
		return false, nil
	case !tx.ledger.Passed() && !tx.ledger.Here(table, to):
		return false, nil
	}
	return tx.enterAt(to), nil
}

func (tx *Tx) enterAt(at ledger.Shard) bool {
	tx.ledger.Handler(tx.handler)
	if !tx.ledger.Enter(at) {
		tx.ran = tx.ran || tx.ledger.Suspended() != nil // the input has failed
		return false
	}
	tx.entered, tx.ran = at, true
	return true
}

// use fails the handler if it did not declare the cell: the cell might live on another controller.
func (tx *Tx) use(c Cell) {
	allowed := &tx.allowed
	for i := range allowed.n {
		if allowed.few[i].is(&c) && allowed.kind != each && !tx.trial.on { // the usual case; has takes longer
			return
		}
	}
	tx.useOther(c)
}

func (tx *Tx) useOther(c Cell) {
	if tx.trial.on {
		tx.touch(c, c.shard())
		return
	}
	if !tx.allowed.has(&c) || tx.allowed.kind == each && !tx.whole && c.shard() != tx.entered {
		panic(fmt.Sprintf("%s uses cell %s, which its map function does not name: add it to Need(…)", tx.handler, c))
	}
}

// useAll fails the handler if it did not declare the table.
func (tx *Tx) useAll(p *part) {
	if tx.trial.on && (tx.whole || p.split == together) {
		tx.touch(Cell{table: p}, ledger.Shard{})
		return
	}
	if !tx.allowed.hasAll(p) {
		panic(fmt.Sprintf("%s reads all of table %s, which its map function does not name: use Whole or Each",
			tx.handler, p.name))
	}
}
