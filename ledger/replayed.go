package ledger

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/tally"
)

// Replayed is an application that keeps its own state, outside tables, so the ledger does not run it. All replicas pass
// it the same inputs, in the order of the log, and it adds its own records to the log, which the ledger does not
// interpret. There is at most one. See docs/decisions/0025.
//
// A leader passes it inputs and records when it executes them, before they are committed, and reverts them if it loses
// the leadership; a follower passes them when it applies the entry. Both must lead to the same state. No method may
// call the ledger, except Lead, and except to read.
type Replayed interface {
	// Name is unique among the applications of a cluster, and does not change.
	Name() string
	// Lead is called when this replica becomes leader. It may call Transact.
	Lead()
	// Present reports whether the cluster has such an application. In all groups but the one in which it lives, its
	// inputs are sent there.
	Present() bool
	// Active reports whether the application wants inputs. If so, the log contains the bytes of events, and not their
	// digests.
	Active() bool
	// Full reports whether it accepts no more inputs for now. Then the ledger has no Room.
	Full() bool
	// Input passes an input: SwitchUp, with Seq if it begins an epoch, SwitchDown, Message, or a Timer of its own. now
	// is ledger time, in ns. The slices of in are valid during the call.
	Input(now int64, in *Input)
	// Record passes a record that was given to Transact or Tx.Record. An error means that this replica has diverged.
	Record(now int64, record []byte) error

	// Position returns the position after the newest change. Positions count changes, and only Revert lowers them.
	Position() uint64
	// Commit commits the changes up to a position. An error means that this replica has diverged.
	Commit(position uint64) error
	// Revert undoes the changes after a position, which are not committed.
	Revert(position uint64)

	// Freeze returns the committed state in parts for a snapshot. Another goroutine may read them, twice, while the
	// application continues. Equal states have equal parts; no parts mean the initial state.
	Freeze() iter.Seq[[]byte]
	// Restore replaces the state by that of a snapshot, whose parts are valid during the call. If it returns an error,
	// nothing has changed.
	Restore(parts [][]byte) error
}

// Replay registers r as the replayed application. It must be called before any other method.
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

// replaying reports whether the replayed application wants inputs.
func (c *Core) replaying() bool { return c.replayed != nil && c.replayed.Active() }

// replayedPosition returns the position after everything that was executed so far.
func (c *Core) replayedPosition() uint64 {
	if c.replayed == nil {
		return 0
	}
	return c.replayed.Position()
}

// commitReplayed commits changes of the replayed application. Only a leader has uncommitted ones.
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

// tellEvent passes an event of a switch to the replayed application.
func (c *Core) tellEvent(sw *switchState, seq uint64, msg []byte, kind message.Kind) {
	if !c.replaying() && !c.replayedElsewhere() {
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

// tellReachable passes it SwitchUp or SwitchDown for a switch that is reachable again, or unreachable.
func (c *Core) tellReachable(sw *switchState) {
	if sw.reachable {
		c.tell(Input{Kind: SwitchUp, Switch: sw.id, Epoch: sw.epoch, Message: sw.hello})
		return
	}
	c.tell(Input{Kind: SwitchDown, Switch: sw.id, Epoch: sw.epoch})
}

// tell passes it an input.
func (c *Core) tell(in Input) {
	switch {
	case c.replayedElsewhere():
		c.tellElsewhere(in)
	case c.replaying():
		c.countTold(&in)
		c.told = in
		c.replayed.Input(c.now(), &c.told)
		c.told = Input{}
	}
}

func (c *Core) replayedActor() Actor { return Actor{App: c.replayed.Name()} }

// replayedElsewhere reports whether this leader sends inputs to a replayed application in another group.
func (c *Core) replayedElsewhere() bool {
	return c.leading && c.sharded() && c.replayed != nil && c.replayed.Present() && !c.here(c.replayedActor())
}

// tellElsewhere sends an input to the group in which the replayed application lives. Answers to commands reach it as
// those of any actor do.
func (c *Core) tellElsewhere(in Input) {
	if in.Kind == Timer || in.Kind == Message && message.Asker(in.Message) > 0 {
		return
	}
	in.exact = true
	c.forwardNow(c.replayedActor(), &in)
}

// now returns the ledger time of the present entry.
func (c *Core) now() int64 {
	if c.leading {
		return c.batch.time
	}
	return c.applying
}

// applyReplayed passes a record of an entry of another leader to the replayed application.
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
	case OpReceive:
		if c.replaying() && r.Link.To == c.replayedActor() {
			_, it, _, _ := nextItem(r.Bytes) // it was checked
			c.tell(it.input)
		}
	case OpTimer:
		if c.replayed != nil && r.Actor == c.replayedActor() {
			c.tell(Input{Kind: Timer, Name: r.Name})
		}
	}
	return nil
}

// TransactRoom reports whether Transact may be called now. If not, calls of Cut and Commit make room. It differs from
// Room, which the replayed application itself may have used up. It stops at a quarter of a batch, so that what follows
// also fits into the entry.
func (c *Core) TransactRoom() bool {
	return c.leading && c.batch.inputs < c.limits.BatchInputs && len(c.batch.buf) < c.limits.BatchBytes/4 &&
		!c.congested()
}

// Transact executes a transaction of the replayed application. Its input is a record. do, unless it is nil, adds the
// effects of the transaction, what it sends in calls of Tx.Try. It returns false, and has done nothing, if this ledger
// does not lead, or if the record does not fit into an entry. At its switch, each command of such a transaction is a
// separate transaction: if the switch refuses one, the others are executed.
func (c *Core) Transact(record []byte, do func(*Tx)) bool {
	if !c.leading || len(c.batch.buf)+len(record) > c.limits.EntryBytes {
		return false
	}
	c.beginTransaction()
	c.tx = Tx{c: c, app: c.replayed.Name(), tag: message.Replayed.XID(), apart: true}
	c.tx.counted = counted{actor: c.tallied(c.replayedActor()), in: typeOfInput + tally.Type(ReplayedInput)}
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

// Try runs f. If f returns an error, or if what f did does not fit into an entry, it undoes what f did in this
// transaction and returns the error.
func (tx *Tx) Try(f func() error) error {
	var m savepoint
	tx.c.savepoint(&m)
	counted := tx.c.markTally()
	err := f()
	if err == nil {
		err = tx.c.flush()
	}
	if err == nil {
		err = tx.c.tooLarge(tx.c.batch.size())
	}
	if err != nil {
		tx.c.crossings.reset()
		err = errors.Join(err, tx.c.rewind(m))
		tx.c.undoTally(counted)
	}
	return err
}

// Fail records a failure of an application in this transaction.
func (tx *Tx) Fail(f Failure) {
	tx.c.failure = f.Err
	tx.c.logFailure(f)
}

// Up yields the switches that are up and reachable, by datapath id, with the SWITCH_UP that began the epoch. Those of
// other groups are included as the replayed application knows them.
func (c *Core) Up() iter.Seq2[openflow.DatapathID, []byte] {
	up := map[openflow.DatapathID][]byte{}
	for id, sw := range c.state.switches {
		if sw.live && sw.reachable {
			up[id] = sw.hello
		}
	}
	for k, i := range c.state.links.in {
		if k.From.isSwitch() && k.To == c.replayedActor() && i.live && c.state.switches[k.From.Switch] == nil {
			up[k.From.Switch] = i.hello
		}
	}
	return func(yield func(openflow.DatapathID, []byte) bool) {
		for _, id := range slices.Sorted(maps.Keys(up)) {
			if !yield(id, up[id]) {
				return
			}
		}
	}
}
