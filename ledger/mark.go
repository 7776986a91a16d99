package ledger

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/tally"
)

// Mark is a point within one call of Application.Handle, to which Tx.Rewind returns.
type Mark struct {
	savepoint
	crossings  []crossing // a copy
	buf        int        // of crossings
	bestEffort bestEffortSavepoint
	passed     int // of Core.passed
	tally      int
	actor      *tally.Actor[Actor] // on whose behalf it went on
}

// Mark returns the present point of the transaction.
func (tx *Tx) Mark() Mark {
	c := tx.c
	m := Mark{savepoint: c.savepoint(), buf: len(c.crossings.buf), passed: len(c.passed), tally: c.markTally(),
		actor: tx.counted.actor}
	if len(c.crossings.list) > 0 {
		m.crossings = slices.Clone(c.crossings.list)
	}
	if tx.bestEffort != nil {
		m.bestEffort = tx.bestEffort.savepoint()
	}
	return m
}

// Rewind undoes what the application did since a Mark of the same call: writes, timers, commands and messages. After an
// error the application must fail.
func (tx *Tx) Rewind(m Mark) error {
	c := tx.c
	if c.tally != nil {
		c.tally.Rewind(m.tally)
	}
	if tx.counted.actor != m.actor {
		tx.endTimed()
		tx.counted.actor = m.actor
	}
	c.passed = c.passed[:m.passed]
	return tx.rewind(m)
}

func (tx *Tx) rewind(m Mark) error {
	x := &tx.c.crossings
	x.list, x.buf = append(x.list[:0], m.crossings...), x.buf[:min(m.buf, len(x.buf))]
	if tx.bestEffort != nil {
		tx.bestEffort.rewind(m.bestEffort)
	}
	return tx.c.rewind(m.savepoint)
}
