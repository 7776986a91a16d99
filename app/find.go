package app

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A handler without a map function is mapped by running it (Beehive, section 3, "automatically generated map
// functions"). It belongs to the actor that has the cell which it touches first, or, if it touches none, to that where
// the message is. So it is run where the message is. When it touches a cell of another actor, everything that it did is
// taken back, and it is run by that actor: here, or in the group of that actor, to which the message is sent.
//
// Nothing is read before the first touch. So what a handler touches first depends on the message only, as a map
// function must, unless it decides by chance, by the time, or by a Go variable. And since the run up to there is taken
// back, the outcome is that of a handler with such a map function.

// trial is the run of a handler without a map function.
type trial struct {
	on      bool
	place   ledger.Shard // in which it runs
	pinned  bool         // it has to run there
	foreign bool         // only the first cell tells whether it is the right one; otherwise the run is void
	blind   bool         // and its cells are elsewhere, so that any cell makes the run void
	touched bool
	first   Cell // that it has touched; zero: all switches
	owner   ledger.Shard
	strayed bool           // the first cell belongs to another actor: the run is void
	owners  []ledger.Shard // whose cells it uses, if they are several
	apart   error          // these are not in one group: the run is taken back, and the message waits or fails
}

// void reports whether the run is taken back.
func (t *trial) void() bool { return t.strayed || t.foreign && !t.touched }

// errStrayed ends a run that is void.
type errStrayed struct{}

// find runs a handler without a map function, if this is where it belongs.
func (f *function[M]) find(tx *Tx, m *M, run func(*Tx, M) error) error {
	l, at := tx.ledger, tx.at
	if tx.whole {
		at = ledger.Shard{}
	}
	to, only := l.To()
	switch {
	case l.Passed():
		return nil
	case only:
		return f.try(tx, m, run, to, to != at)
	}
	before, here := l.Mark(), l.Enters(at)
	if here {
		tx.enterAt(at)
	}
	err := f.run(tx, m, run, trial{place: at, foreign: !here, blind: !here})
	if here && !tx.trial.strayed {
		return tx.admitRun(before, err)
	}
	if tx.trial.touched {
		at = tx.trial.owner
	}
	if err := l.Rewind(before); err != nil {
		return err
	}
	return f.pin(tx, m, run, at)
}

// pin runs a handler in an actor, or sends the message there.
func (f *function[M]) pin(tx *Tx, m *M, run func(*Tx, M) error, at ledger.Shard) error {
	var before ledger.Mark
	if tx.limited() {
		before = tx.ledger.Mark()
	}
	if !tx.enterAt(at) {
		return nil
	}
	return tx.admitRun(before, f.run(tx, m, run, trial{place: at, pinned: true}))
}

// try runs a handler in the one actor that a message is for. It may be for this actor because of another handler: then
// this one uses a cell of another actor first, or none although the message was elsewhere (foreign), and the run is
// taken back.
func (f *function[M]) try(tx *Tx, m *M, run func(*Tx, M) error, to ledger.Shard, foreign bool) error {
	before, ran := tx.ledger.Mark(), tx.ran
	if !tx.enterAt(to) {
		return nil
	}
	err := f.run(tx, m, run, trial{place: to, foreign: foreign})
	if !tx.trial.strayed && (tx.trial.touched || !foreign) {
		return tx.admitRun(before, err)
	}
	tx.ran, tx.astray = ran, f.handler
	return tx.ledger.Rewind(before)
}

// addressed runs a handler of a message that its sender has addressed to one actor, which has all cells that the
// handler uses.
func (f *function[M]) addressed(tx *Tx, m *M, run func(*Tx, M) error) error {
	tx.handler = f.handler
	return f.pin(tx, m, run, tx.at)
}

// run runs a handler. A run that is void returns no error.
func (f *function[M]) run(tx *Tx, m *M, run func(*Tx, M) error, t trial) (err error) {
	t.on = true
	tx.trial = t
	defer func() {
		t := &tx.trial
		t.on = false
		if t.void() {
			_ = recover() // also of a handler that failed before it touched anything: it fails where it belongs
			err, tx.asks = nil, nil
		} else if t.apart != nil {
			_ = recover()
			err, tx.asks = t.apart, nil
		}
	}()
	return run(tx, *m)
}

// touch notes that the handler uses a cell of an actor.
func (tx *Tx) touch(c Cell, owner ledger.Shard) {
	t := &tx.trial
	if tx.whole {
		owner = ledger.Shard{}
	}
	switch {
	case t.strayed || t.apart != nil:
		panic(errStrayed{}) // the handler has recovered from it
	case !t.touched:
		t.touched, t.first, t.owner = true, c, owner
		switch {
		case owner == t.place && !t.blind:
		case t.pinned:
			panic(fmt.Sprintf(
				"%s uses %s, which belongs to %v, and is run by %v: give it a map function, or make what "+
					"it uses first depend on the message only", tx.handler, c.of(), tx.actor(owner), tx.actor(t.place)))
		default:
			t.strayed = true
			panic(errStrayed{})
		}
	case owner != t.owner && tx.ledger.Sharded():
		tx.touchOther(c, owner)
	}
}

// touchOther notes that the handler uses a cell of a second actor, or of a later one.
func (tx *Tx) touchOther(c Cell, owner ledger.Shard) {
	t := &tx.trial
	if slices.Contains(t.owners, owner) {
		return
	}
	if tx.alone {
		panic(fmt.Sprintf("%s uses %s, which belongs to %v, and %s, which belongs to %v: an answer is handled with "+
			"the cells of one actor; emit another message for the second one, or make the tables Together", tx.handler,
			t.first.of(), tx.actor(t.owner), c.of(), tx.actor(owner)))
	}
	if len(t.owners) == 0 {
		t.owners = append(t.owners, t.owner)
	}
	t.owners = append(t.owners, owner)
	cells := func() string { return t.first.of() + ", " + c.of() }
	if t.apart = tx.checkTogether(t.owners, cells); t.apart == nil {
		t.apart = tx.join(t.owners)
	}
	if t.apart != nil {
		panic(errStrayed{})
	}
}

func (tx *Tx) actor(at ledger.Shard) ledger.Actor {
	return ledger.Actor{App: tx.ledger.Actor().App, Shard: at}
}

// of names a cell that was touched.
func (c Cell) of() string {
	if c.table == nil {
		return "the switches of the network"
	}
	return "cell " + c.String()
}
