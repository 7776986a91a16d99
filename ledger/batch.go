package ledger

import (
	"fmt"
	"math"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// batch is an entry that is being built, or proposed and not committed.
type batch struct {
	number     uint64
	stamp      uint64 // of the values in buf that may be replaced; see lastPut
	time       int64  // ledger time of all its transactions
	buf        []byte
	replaced   int // bytes, for values in buf that were replaced; see putAgain
	inputs     int
	waits      int // how often Tx.Wait was called
	undo       []undo
	old        oldValues // of undo
	tables     []*table  // that the entry changes; they have numbers while it is being built
	touched    []touch
	dones      []completion
	bestEffort bestEffortCommands // sent after commit
	sends      []sent             // streams to other groups, and from them
	receives   []got
	taken      []taken
	arrived    []Actor
	departed   []openflow.DatapathID
	forgotten  []openflow.DatapathID // switches
	floor      uint64                // with them
	answers    []Answer              // to calls, sent after commit
	replies    int                   // bytes of answers
	observed   []observed
	// skipping are the switches that have, or had, skipped events without a record so far.
	skipping []*switchState
	replayed uint64 // position of the replayed application before the batch
	relay    bool   // followers pass on what it has for other groups
}

// empty reports whether no transaction is in the batch.
func (b *batch) empty() bool { return b.inputs == 0 && len(b.touched) == 0 }

// size is how many bytes the entry has so far, with what was replaced in it; see putAgain.
func (b *batch) size() int { return len(b.buf) + b.replaced }

// touch is a switch that the batch changes, with its watermarks at the cut.
type touch struct {
	sw       *switchState
	events   watermark
	closed   bool   // the ledger has closed the epoch
	commands uint64 // number of the last one
}

// completion says that the commands of an epoch are complete up to a number. It keeps the incarnation, which a newer
// one may have replaced since.
type completion struct {
	of   *incarnation
	upTo uint64
}

// savepoint is a point within a transaction to which the changes of a failed application are undone.
type savepoint struct {
	buf, undo, old, tables, emitted, stalled, waits, observed, exceptions, replaced int
	replayed                                                                        uint64
}

// undoValue is called when a field is written or deleted, with the value that it had.
func (b *batch) undoValue(t *table, cell, field Key, value []byte, existed bool) {
	old := b.old.add(oldValue{table: t, cell: cell, field: field, value: value})
	b.undo = append(b.undo, undo{kind: undoValue, value: old, existed: existed})
}

func (b *batch) table(t *table) uint64 {
	if t.number == 0 {
		b.tables = append(b.tables, t)
		t.number = uint64(len(b.tables))
		b.buf = appendTableName(b.buf, t.name)
	}
	return t.number - 1
}

func (b *batch) touch(sw *switchState) {
	if sw.master.touched != b.number {
		sw.master.touched = b.number
		b.touched = append(b.touched, touch{sw: sw})
	}
}

// undoEpoch is called before an epoch begins or ends.
func (b *batch) undoEpoch(sw *switchState) {
	b.undo = append(b.undo, undo{kind: undoEpoch, sw: sw,
		epoch: &oldEpoch{sw.incarnation, sw.past, sw.events, sw.totalEvents}})
}

// seal notes the watermarks and ends the numbering of tables.
func (b *batch) seal() {
	for _, sw := range b.skipping {
		b.logSkipped(sw)
	}
	for i := range b.touched {
		t := &b.touched[i]
		t.events, t.closed, t.commands = t.sw.logged(), t.sw.closed, t.sw.queue.Last()
	}
	for i := range b.sends {
		b.sends[i].last = b.sends[i].out.outbox.Last()
	}
	for i := range b.receives {
		b.receives[i].last = uint64(b.receives[i].in.watermark)
	}
	b.endNumbers(0)
}

func (b *batch) forgetTables(from int) {
	b.endNumbers(from)
	b.tables = b.tables[:from]
}

func (b *batch) endNumbers(from int) {
	for _, t := range b.tables[from:] {
		t.number = 0
	}
}

// release makes a Release of a committed touch.
func (t *touch) release() Release {
	sw := t.sw
	sw.master.committed = t.events
	r := Release{Switch: sw.id, Epoch: t.events.epoch, Acked: t.events.seq, First: sw.master.released + 1}
	if sw.epoch != t.events.epoch {
		// A newer epoch began in a later, uncommitted batch. The events of the old one are logged; its commands are
		// discarded.
		return r
	}
	sw.master.refused, r.Closed = t.closed, t.closed
	r.First, r.Count, r.Commands = sw.queue.Run(sw.master.released, t.commands, math.MaxInt)
	sw.master.released = t.commands
	return r
}

// resume returns what a new master sends to the switch first: all commands that are not complete.
func (sw *switchState) resume() Release {
	r := sw.acknowledge()
	if sw.epoch != r.Epoch {
		return r // nothing is committed of the epoch that began
	}
	r.Closed, r.Live = sw.master.refused, sw.live
	r.First, r.Count, r.Commands = sw.queue.Run(0, sw.master.released, math.MaxInt)
	return r
}

// acknowledge returns a Release with the committed events of the switch, and nothing else.
func (sw *switchState) acknowledge() Release {
	return Release{Switch: sw.id, Epoch: sw.master.committed.epoch, Acked: sw.master.committed.seq, First: 1}
}

// String names an input for log lines.
func (in *Input) String() string {
	kinds := [...]string{"input", "switch up", "switch down", "message", "timer " + in.Name, "emitted " + in.Name,
		fmt.Sprint("replayed input ", in.Seq), "request", fmt.Sprint("void command ", in.Seq), "call " + in.Name,
		"forgetting"}
	s := kinds[min(int(in.Kind), len(kinds)-1)]
	if in.Switch != 0 {
		s += " of switch " + in.Switch.String()
	}
	return s
}
