package history

import (
	"bytes"
	"cmp"
	"math/bits"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	replaying "github.com/holdfast-sdn/holdfast/ryu/replay"
)

// replay is a single controller that never fails: one ledger, with its own applications, executes the inputs of the log
// in order, and must produce the same operations (Ravana, section 4). It never rolls back, and never applies entries
// that others have executed.
//
// It becomes leader again for each entry. Only so can its clock be set without firing a timer before its place in the
// log.
//
// What its applications do also depends on how many commands are queued for a switch: at the bound, the epoch is
// closed. Leaders discard commands when the entry that says they are done is committed, and execute a few entries
// meanwhile. So here commands are discarded as late as the bound allows, and, when the log has an epoch closed, just
// early enough for the queue to be at the bound then.
type replay struct {
	core     *ledger.Core
	hosted   *replaying.Log
	bound    int // commands of a switch
	inFlight int // entries that are executed and not yet committed
	inputs   int // of an entry at most, so that there is room for one more
	size     int // likewise, in bytes

	time   int64 // of the last entry
	queues map[openflow.DatapathID]*replayQueue
	order  []*replayQueue // all, in the order of their first use

	late overdue
	// whether the log has a switch's events with their messages, whatever their type
	whole func(openflow.DatapathID) bool
	host  Program                        // of the hosted application; it never fails
	born  map[openflow.DatapathID]uint64 // number of the hosted input with which a switch's epoch began

	// Of the entry that is looked at.
	position  int // in the log
	term      uint64
	taken     int          // inputs
	doneBytes int          // length of its OpDones
	forget    []forgotten  // before it is executed
	heard     fifo[[]byte] // messages of its events, of which the log may have only digests
}

// patience is how many ledger times a leader may log after a timer is due. It checks timers whenever it sets its clock,
// unless its batch is full; the entry being built does not count.
const patience = 8

// overdue is a timer that is due and has not fired.
type overdue struct {
	due   int64
	term  uint64
	times int // that were logged since
}

// forgotten is the last command that a leader has discarded.
type forgotten struct {
	id         openflow.DatapathID
	epoch, seq uint64
}

// replayQueue counts the commands of a switch that a leader still has.
type replayQueue struct {
	id          openflow.DatapathID
	open        bool
	epoch       uint64
	first, next uint64
	dones       fifo[replayDone] // that the replay has not reached
}

// replayDone is a watermark of commands that are done.
type replayDone struct {
	epoch, seq uint64
	position   int
	term       uint64
}

func newReplay(apps []ledger.Application, identity string, limits ledger.Limits,
	whole func(openflow.DatapathID) bool) (*replay, error) {
	core, hosted, err := newLedger(apps, identity, limits)
	return &replay{core: core, hosted: hosted, bound: cmp.Or(limits.QueueCommands, 1<<16),
		inFlight: cmp.Or(limits.InFlight, 4),
		inputs:   cmp.Or(limits.BatchInputs, 1024), size: cmp.Or(limits.BatchBytes, 1<<20),
		queues: map[openflow.DatapathID]*replayQueue{}, whole: whole,
		born: map[openflow.DatapathID]uint64{}}, err
}

// begin discards what every leader that executes this entry has discarded.
func (r *replay) begin(position int, term uint64) {
	r.position, r.term, r.taken, r.doneBytes = position, term, 0, 0
	for _, q := range r.order {
		for q.dones.len() > 0 && (q.dones.first().term != term || position-q.dones.first().position > r.inFlight) {
			r.pop(q)
		}
	}
}

// hears records the message of the next event of the entry.
func (r *replay) hears(msg []byte) { r.heard.push(msg) }

func (r *replay) pop(q *replayQueue) {
	done := q.dones.pop()
	q.first = max(q.first, done.seq+1)
	r.forget = append(r.forget, forgotten{q.id, done.epoch, done.seq})
}

// foresee updates the queues by an operation of the entry.
func (r *replay) foresee(rec *ledger.Record) error {
	if rec.Op >= ledger.OpEvent && rec.Op <= ledger.OpCloseEpoch {
		r.taken++
	}
	switch rec.Op {
	case ledger.OpSeen, ledger.OpTransaction:
		r.taken++
	case ledger.OpEvent:
		if rec.Seq == 1 {
			return r.reset(rec.Switch, replayQueue{open: true, epoch: rec.Epoch, first: 1, next: 1}, false)
		}
		if t, ours := experimenter.Is(rec.Bytes); ours && t == experimenter.TypeSwitchDown {
			return r.reset(rec.Switch, replayQueue{}, false)
		}
	case ledger.OpCloseEpoch:
		return r.reset(rec.Switch, replayQueue{}, true)
	case ledger.OpCommand:
		r.queue(rec.Switch).next++
	case ledger.OpDone: // these are the last operations
		if r.doneBytes == 0 {
			if err := r.settleAll(); err != nil {
				return err
			}
		}
		r.doneBytes += doneLen(rec.Seq)
		if q := r.queue(rec.Switch); q.open && q.epoch == rec.Epoch {
			q.dones.push(replayDone{rec.Epoch, rec.Seq, r.position, r.term})
		}
	}
	return nil
}

func (r *replay) queue(id openflow.DatapathID) *replayQueue {
	q := r.queues[id]
	if q == nil {
		q = &replayQueue{id: id}
		r.queues[id] = q
		r.order = append(r.order, q)
	}
	return q
}

// reset ends an epoch and sets its queue.
func (r *replay) reset(id openflow.DatapathID, to replayQueue, closed bool) error {
	q := r.queue(id)
	err := r.settle(q, closed)
	to.id = id
	*q = to
	return err
}

func (r *replay) settleAll() error {
	for _, q := range r.order {
		if err := r.settle(q, false); err != nil {
			return err
		}
	}
	return nil
}

// settle decides how much of a queue was discarded by now, so that it kept its bound; closed: so that it had just
// reached it.
func (r *replay) settle(q *replayQueue, closed bool) error {
	for q.dones.len() > 0 && q.len() > r.bound {
		r.pop(q)
	}
	switch n := q.len(); {
	case n > r.bound:
		return violated("switch %s, epoch %d: %d commands are logged and not done; the bound is %d", q.id, q.epoch, n,
			r.bound)
	case closed && n < r.bound:
		return violated("switch %s: the ledger closes epoch %d when %d commands are not done; the bound is %d", q.id,
			q.epoch, n, r.bound)
	}
	return nil
}

func (q *replayQueue) len() int { return int(q.next - q.first) }

// entry executes an entry and compares the result.
func (r *replay) entry(e *entry) error {
	if r.doneBytes == 0 {
		if err := r.settleAll(); err != nil {
			return err
		}
	}
	if err := r.forgetNow(); err != nil {
		return err
	}
	if err := r.core.Lead(leadTerm(e.header), e.header.Time); err != nil {
		return err
	}
	if err := r.timely(e); err != nil {
		return err
	}
	if _, err := ledger.Walk(e.data, func(rec *ledger.Record) error {
		return r.input(rec,
			e.header.Time)
	}); err != nil {
		return violated("a single controller does not take its input: %v", err)
	}
	r.time = e.header.Time
	got, err := r.commit(e.data[:e.body])
	if err != nil {
		return err
	}
	want := e.data[:len(e.data)-r.doneBytes]
	if !bytes.Equal(got[min(e.body, len(got)):], want[e.body:]) {
		return violated("a single controller makes something else of its inputs: %s", firstDifference(want, got))
	}
	return nil
}

// timely checks that timers fire.
func (r *replay) timely(e *entry) error {
	due, set := r.core.NextTimer()
	full := r.taken >= r.inputs || len(e.data) >= r.size || !r.core.Room()
	if !set || full || due >= e.header.Time || due != r.late.due || e.term != r.late.term {
		r.late = overdue{due: due, term: e.term}
		return nil
	}
	if e.header.Time > r.time {
		r.late.times++
	}
	if r.late.times > patience {
		return violated("a timer was due %d ns ago, in this term, and does not go off", e.header.Time-due)
	}
	return nil
}

// input feeds an operation that is an input. The other operations must be produced.
func (r *replay) input(rec *ledger.Record, now int64) error {
	switch rec.Op {
	case ledger.OpEvent, ledger.OpSeen:
		event := r.core.EventByDigest
		if r.whole(rec.Switch) {
			event = r.core.Event
		}
		err := event(rec.Switch, rec.Epoch, rec.Seq, r.heard.pop())
		if rec.Seq == 1 {
			r.born[rec.Switch] = r.hosted.Hosting().Inputs
		}
		return err
	case ledger.OpTimer:
		r.core.Tick(now)
	case ledger.OpUnreachable:
		r.core.Unreachable(rec.Switch)
	case ledger.OpReachable:
		r.core.Reachable(rec.Switch, rec.Epoch)
	case ledger.OpRequest:
		r.core.Request(rec.App, rec.Bytes)
	default:
		return r.hostedInput(rec)
	}
	return nil
}

// hostedInput is input for the hosted application.
func (r *replay) hostedInput(rec *ledger.Record) error {
	switch rec.Op {
	case ledger.OpTransaction:
		return r.transaction(rec.Bytes)
	case ledger.OpCommand:
		if number, ok := noted(rec.Bytes); ok && number < r.born[rec.Switch] {
			return violated("switch %s gets a command because of hosted input %d, and came with input %d", rec.Switch,
				number, r.born[rec.Switch])
		}
	}
	return nil
}

// transaction executes a transaction of the hosted application.
func (r *replay) transaction(record []byte) error {
	t, err := replaying.ParseRecord(record)
	switch {
	case err != nil:
		return violated("%v", err)
	case t.Kind == replaying.Begin:
		r.hosted.Begin(t.Seed)
		clear(r.born)
	case t.Kind == replaying.Request:
		r.hosted.Request(t.Request)
	case t.Kind == replaying.Skip:
		r.hosted.Skip(t.Number)
	case t.Kind == replaying.Result:
		result, err := r.host.follow(r.hosted, t.Number)
		if err != nil {
			return violated("result of hosted input %d: %v", t.Number, err)
		}
		return r.hosted.Result(result)
	}
	return nil
}

// commit cuts an entry and commits it. If the inputs had no effect, the entry is the header, which sets the time.
func (r *replay) commit(header []byte) ([]byte, error) {
	data, ok := r.core.Cut()
	if !ok {
		data = header
		if err := r.core.Follow(); err != nil {
			return nil, err
		}
	}
	return data, r.core.Commit(data)
}

// forgetNow discards the commands that are done, by an entry of its own.
func (r *replay) forgetNow() error {
	if len(r.forget) == 0 {
		return nil
	}
	if err := r.core.Lead(1, r.time); err != nil {
		return err
	}
	for _, done := range r.forget {
		if err := r.core.Done(done.id, done.epoch, done.seq); err != nil {
			return err
		}
	}
	r.forget = r.forget[:0]
	if data, ok := r.core.Cut(); ok {
		return r.core.Commit(data)
	}
	return nil
}

// finish compares the state with that of the replicas.
func (r *replay) finish(want []byte) error {
	for _, q := range r.order {
		for q.dones.len() > 0 {
			r.pop(q)
		}
	}
	if err := r.forgetNow(); err != nil {
		return err
	}
	got, err := r.core.Snapshot()
	if err == nil && !bytes.Equal(got, want) {
		err = violated("the final state of the log is not that of a single controller: %s", firstDifference(want, got))
	}
	return err
}

// leadTerm is a term whose first entry has a header of length h: the room in a batch depends on it.
func leadTerm(h ledger.Header) uint64 {
	return 1 << (7 * (varintLen(h.Term) + varintLen(h.Batch) - 2))
}

// doneLen is the length of an OpDone.
func doneLen(seq uint64) int { return 1 + 8 + 8 + varintLen(seq) }

func varintLen(v uint64) int { return max(1, (bits.Len64(v)+6)/7) }
