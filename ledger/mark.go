package ledger

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/tally"
)

// point is a point within a transaction. A transaction has one before each application.
type point struct {
	savepoint
	bestEffort bestEffortSavepoint
	tally      int
}

func (tx *Tx) point(p *point) {
	tx.c.savepoint(&p.savepoint)
	p.tally = tx.c.markTally()
	if tx.bestEffort != nil {
		p.bestEffort = tx.bestEffort.savepoint()
	}
}

// Mark is a point within one call of Application.Handle, to which Tx.Rewind returns.
type Mark struct {
	point
	crossings []crossing          // a copy
	buf       int                 // of crossings
	passed    int                 // of Core.passed
	entered   bool                // see counted
	actor     *tally.Actor[Actor] // on whose behalf it went on; likewise
}

// Mark returns the present point of the transaction.
func (tx *Tx) Mark() Mark {
	x := &tx.c.crossings
	m := Mark{crossings: slices.Clone(x.list), buf: len(x.buf), passed: len(tx.c.passed),
		entered: tx.counted.entered, actor: tx.counted.actor}
	tx.point(&m.point)
	return m
}

// Begun returns the point at which the call began.
func (tx *Tx) Begun() Mark { return Mark{point: tx.begun} }

// Rewind undoes what the application did since a Mark of the same call: writes, timers, commands and messages. After an
// error the application must fail.
func (tx *Tx) Rewind(m Mark) error {
	c := tx.c
	if c.sample != nil {
		c.sample.Rewind(m.tally)
	}
	k := &tx.counted
	k.entered = m.entered
	if k.actor != m.actor {
		tx.endTimed()
		k.actor = m.actor
	}
	x := &c.crossings
	x.list, x.buf = append(x.list[:0], m.crossings...), x.buf[:min(m.buf, len(x.buf))]
	c.passed = c.passed[:m.passed]
	return tx.rewind(m.point)
}

func (tx *Tx) rewind(p point) error {
	if tx.bestEffort != nil {
		tx.bestEffort.rewind(p.bestEffort)
	}
	return tx.c.rewind(p.savepoint)
}
