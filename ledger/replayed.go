package ledger

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Replayed is an application whose state is not in tables, and which the ledger therefore does not run: all replicas
// tell it of the same inputs, in the order of the log, and it adds records of its own to the log, which mean nothing to
// the ledger. There is one at most. See docs/decisions/0025.
//
// A leader tells it of inputs and records when it executes them, so before they are committed, and has it take
// them back if it loses its leadership; a follower when it applies them. Both must bring about the same state. No
// method may call the ledger, but for Lead and for what reads.
type Replayed interface {
	// Name is unique among the applications of a cluster, and does not change.
	Name() string
	// Lead says that this replica begins to lead. It may call Transact.
	Lead()
	// Active reports whether the application wants to be told of inputs. If so, the log has the events with their
	// bytes, and not by their digests.
	Active() bool
	// Full reports whether it can take no more inputs for now: then the ledger has no Room.
	Full() bool
	// Input tells of an input: SwitchUp, with Seq if it begins an epoch, SwitchDown, Message, or a Timer of its own.
	// now is ledger time, in ns. The slices of in are valid during the call.
	Input(now int64, in *Input)
	// Record tells of a record, as it was given to Transact or Tx.Record. An error means that this replica has
	// diverged.
	Record(now int64, record []byte) error

	// Position is that after the newest change, of a count that grows with each change and never goes back but by
	// Revert.
	Position() uint64
	// Commit says that the changes up to a position are committed. An error means that this replica has diverged.
	Commit(position uint64) error
	// Revert takes back the changes after a position, which are not committed.
	Revert(position uint64)

	// Freeze returns the committed state in parts for a snapshot. They may be read by another goroutine while the
	// application goes on. Equal states have equal parts, and no part means the state at the beginning.
	Freeze() iter.Seq[[]byte]
	// Restore replaces the state by that of a snapshot, whose parts are valid during the call, or fails and changes
	// nothing.
	Restore(parts [][]byte) error
}

// Replay has the ledger tell r of what is in the log. It is called before anything else.
func (c *Core) Replay(r Replayed) error {
	for _, a := range c.apps {
		if a.Name() == r.Name() {
			return fmt.Errorf("ledger: application %q is there twice", a.Name())
		}
	}
	c.replayed = r
	return nil
}

var errNotReplayed = errors.New("concerns an application that hosts execute, and this ledger was given none")

// replaying reports whether the replayed application is to be told of inputs.
func (c *Core) replaying() bool { return c.replayed != nil && c.replayed.Active() }

// replayedPosition is that after what is executed by now.
func (c *Core) replayedPosition() uint64 {
	if c.replayed == nil {
		return 0
	}
	return c.replayed.Position()
}

// commitReplayed says what is committed. Only a leader has more than that.
func (c *Core) commitReplayed(to uint64) error {
	if c.replayed == nil {
		return nil
	}
	if err := c.replayed.Commit(to); err != nil {
		return fmt.Errorf("ledger: %s: %w: "+diverged, c.replayed.Name(), err)
	}
	return nil
}

func (c *Core) revertReplayed(to uint64) {
	if c.replayed != nil {
		c.replayed.Revert(to)
	}
}

// tellEvent tells the replayed application of an event of a switch.
func (c *Core) tellEvent(sw *switchState, seq uint64, msg []byte, kind message.Kind) {
	if !c.replaying() {
		return
	}
	in := Input{Kind: Message, Switch: sw.id, Epoch: sw.epoch, Seq: seq, Message: msg}
	switch kind {
	case message.Ordinary:
	case message.SwitchUp:
		in.Kind = SwitchUp
	case message.SwitchDown:
		in.Kind = SwitchDown
	default:
		return
	}
	c.tell(in)
}

// tellReachable tells it that a switch is, or is not, within reach.
func (c *Core) tellReachable(sw *switchState) {
	if sw.reachable {
		c.tell(Input{Kind: SwitchUp, Switch: sw.id, Epoch: sw.epoch, Message: sw.hello})
		return
	}
	c.tell(Input{Kind: SwitchDown, Switch: sw.id, Epoch: sw.epoch})
}

// tell tells it of an input.
func (c *Core) tell(in Input) {
	if c.replaying() {
		c.told = in
		c.replayed.Input(c.now(), &c.told)
		c.told = Input{}
	}
}

// now is the ledger time of the present entry.
func (c *Core) now() int64 {
	if c.leading {
		return c.batch.time
	}
	return c.applying
}

// applyReplayed is what a record of an entry of another leader means to the replayed application.
func (c *Core) applyReplayed(r *Record) error {
	switch r.Op {
	case OpTransaction, OpRecord:
		if c.replayed == nil {
			return errNotReplayed
		}
		if err := c.replayed.Record(c.applying, r.Bytes); err != nil {
			return fmt.Errorf("%s: %w: "+diverged, c.replayed.Name(), err)
		}
	case OpEvent:
		if c.replaying() {
			c.tellEvent(c.state.sw(r.Switch), r.Seq, r.Bytes, message.KindOf(r.Bytes))
		}
	case OpSeen:
		if c.replaying() {
			return fmt.Errorf("switch %s: event %d of epoch %d without its bytes, which %s is to execute: "+diverged,
				r.Switch, r.Seq, r.Epoch, c.replayed.Name())
		}
	case OpUnreachable, OpReachable, OpCloseEpoch:
		c.tellReachable(c.state.sw(r.Switch))
	case OpTimer:
		if c.replayed != nil && r.App == c.replayed.Name() {
			c.tell(Input{Kind: Timer, Name: r.Name})
		}
	}
	return nil
}

// TransactRoom reports whether Transact may be called now. When not, Cut and Commit make room. It is not Room, which
// the replayed application itself may have used up. A quarter of a batch is enough to stop at, since what follows is to
// fit into the entry as well.
func (c *Core) TransactRoom() bool {
	return c.leading && c.batch.inputs < c.limits.BatchInputs && len(c.batch.buf) < c.limits.BatchBytes/4
}

// Transact executes a transaction of the replayed application. Its input is a record; do, unless it is nil, adds what
// the transaction does. It reports false, and has done nothing, if this ledger does not lead, or if the record does not
// fit into an entry. Each command of such a transaction is one of its own for its switch: if the switch refuses one,
// the others are done.
func (c *Core) Transact(record []byte, do func(*Tx)) bool {
	if !c.leading || len(c.batch.buf)+len(record) > c.limits.EntryBytes {
		return false
	}
	c.beginTransaction()
	c.tx = Tx{c: c, app: c.replayed.Name(), tag: message.Replayed.XID(), apart: true}
	c.tx.record(OpTransaction, record)
	if do != nil {
		do(&c.tx)
	}
	c.finish()
	return true
}

// Record adds a record to a transaction of the replayed application.
func (tx *Tx) Record(record []byte) { tx.record(OpRecord, record) }

func (tx *Tx) record(op Op, record []byte) {
	b := &tx.c.batch
	b.buf = appendBytes(append(b.buf, byte(op)), record)
	if err := tx.c.replayed.Record(b.time, record); err != nil {
		panic(fmt.Sprintf("application %s does not take its own record: %v", tx.app, err))
	}
}

// Try runs f, and takes back what it did in this transaction if it fails, or if there is more of that than fits into an
// entry. It returns why.
func (tx *Tx) Try(f func() error) error {
	m := tx.c.mark()
	err := f()
	if err == nil {
		err = tx.c.tooLarge(len(tx.c.batch.buf))
	}
	if err != nil {
		err = errors.Join(err, tx.c.rewind(m))
	}
	return err
}

// Fail records a failure of an application in this transaction.
func (tx *Tx) Fail(f Failure) { tx.c.logFailure(f) }

// Up yields the switches that are up and within reach, by datapath id, with the SWITCH_UP that began the epoch.
func (c *Core) Up() iter.Seq2[openflow.DatapathID, []byte] {
	return func(yield func(openflow.DatapathID, []byte) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.state.switches)) {
			if sw := c.state.switches[id]; sw.live && sw.reachable && !yield(id, sw.hello) {
				return
			}
		}
	}
}
