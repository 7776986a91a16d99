package history

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"

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
	model    *model // of the group, which has the operations that are foreseen
	hosted   *replaying.Log
	alone    bool // there are no other groups
	follows  bool // entries are applied, and not executed
	bound    int  // commands of a switch
	inFlight int  // entries that are executed and not yet committed
	inputs   int  // of an entry at most, so that there is room for one more
	size     int  // likewise, in bytes

	time   int64 // of the last entry
	queues map[openflow.DatapathID]*replayQueue
	order  []*replayQueue // all, in the order of their first use

	late overdue
	h    *History
	host Program                        // of the hosted application; it never fails
	born map[openflow.DatapathID]uint64 // number of the hosted input with which a switch's epoch began

	// Of the entry that is looked at.
	position  int // in the log
	term      uint64
	taken     int              // inputs
	crowded   bool             // an application has failed because the leader kept too much for another group
	hosts     bool             // it has a transaction of the hosted application
	executing int              // which of them is executed, from 1; 0: none
	lastBytes int              // length of its last operations, which are OpDones and OpTakens
	item      bool             // the transaction has received an item with commands
	begun     bool             // and has queued the first
	void      *replayQueue     // or has found them void: then this queue had room, unless its epoch is closed next
	strangers [][]ledger.Actor // by transaction: the actors with a key that the leader's directory did not know
	move      []ledger.Record  // what the present transaction has of a move, its input first; none if it is not of one
	forget    []forgotten      // before it is executed
	popped    []ledger.Record  // what streams to other groups forget then
	acked     []ledger.Record  // what they forget after it
	heard     fifo[[]byte]     // messages of its events, of which the log may have only digests
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

func newReplay(cfg GroupConfig, h *History, m *model) (*replay, error) {
	limits := cfg.Limits
	core, hosted, err := newLedger(cfg.Applications, cfg.Identity, limits)
	r := &replay{h: h, model: m, core: core, hosted: hosted, alone: cfg.Directory == nil, follows: cfg.Follows,
		bound:    cmp.Or(limits.QueueCommands, 1<<16),
		inFlight: cmp.Or(limits.InFlight, 4),
		inputs:   cmp.Or(limits.BatchInputs, 1024), size: cmp.Or(limits.BatchBytes, 1<<20),
		queues: map[openflow.DatapathID]*replayQueue{}, born: map[openflow.DatapathID]uint64{}}
	if err == nil && cfg.Directory != nil {
		core.Join(cfg.Number, func(a ledger.Actor) (ledger.Assignment, bool) {
			if n := r.executing; n > 0 && slices.Contains(r.strangers[n-1], a) {
				return ledger.Assignment{}, false
			}
			return cfg.Directory(a)
		})
	}
	return r, err
}

// begin discards what every leader that executes this entry has discarded.
func (r *replay) begin(position int, term uint64) {
	r.crowded, r.hosts = false, false
	r.position, r.term, r.taken, r.lastBytes, r.strangers = position, term, 0, 0, r.strangers[:0]
	for _, q := range r.order {
		for q.dones.len() > 0 && (q.dones.first().term != term || position-q.dones.first().position > r.inFlight) {
			r.pop(q)
		}
	}
}

// hears records the message of the next event of the entry.
func (r *replay) hears(msg []byte) { r.heard.push(msg) }

// foresee updates the queues by an operation of the entry.
func (r *replay) foresee(rec *ledger.Record) error {
	if err := r.foreseeRoom(rec.Op); err != nil {
		return err
	}
	if isInput(rec.Op) {
		r.taken++
		r.strangers = append(r.strangers, nil)
		r.item, r.begun = rec.Op == ledger.OpReceive && parseItem(rec.Bytes).count > 0, false
	}
	switch rec.Op {
	case ledger.OpEvent:
		if rec.Seq == 1 {
			r.reset(rec.Switch, replayQueue{open: true, epoch: rec.Epoch, first: 1, next: 1})
		} else if t, ours := experimenter.Is(rec.Bytes); ours && t == experimenter.TypeSwitchDown {
			r.reset(rec.Switch, replayQueue{})
		}
	case ledger.OpCloseEpoch:
		err := r.full(r.queue(rec.Switch))
		r.reset(rec.Switch, replayQueue{})
		return err
	case ledger.OpForget:
		r.reset(rec.Switch, replayQueue{})
	case ledger.OpCommand:
		q := r.queue(rec.Switch)
		if !r.item || !r.begun { // those of one item are queued together
			r.begun = true
			if err := r.makeRoom(q); err != nil {
				return err
			}
		}
		q.next++
	case ledger.OpReceive:
		if p := parseItem(rec.Bytes).piece; p != nil && p.last && isSwitch(p.actor) {
			r.arrives(p.actor.Switch)
		}
	case ledger.OpDepart:
		if isSwitch(rec.Actor) {
			r.reset(rec.Actor.Switch, replayQueue{})
		}
	case ledger.OpTransaction:
		r.hosts = true
	case ledger.OpFailure:
		r.crowded = r.crowded || strings.Contains(rec.Name, "more are not kept")
	case ledger.OpSend:
		r.foreseeSend(rec.Link)
		if from := rec.Link.From; r.item && from.App == "" && from.Switch != 0 {
			r.void = r.queue(from.Switch)
		}
	case ledger.OpTaken:
		r.acked = append(r.acked, *rec)
		r.lastBytes += takenLen(rec)
	case ledger.OpDone:
		r.lastBytes += doneLen(rec.Seq)
		if q := r.queue(rec.Switch); q.open && q.epoch == rec.Epoch {
			q.dones.push(replayDone{rec.Epoch, rec.Seq, r.position, r.term})
		}
	}
	return nil
}

// foreseeRoom decides how much of a queue was discarded when commands for it were void: an epoch is closed if its queue
// is full then.
func (r *replay) foreseeRoom(next ledger.Op) error {
	q := r.void
	r.void = nil
	if q == nil || next == ledger.OpCloseEpoch {
		return nil
	}
	return r.makeRoom(q)
}

// foreseeSend notes that the leader did not know where the receiver lives: nothing was on its way to it. If it lives
// here, it would have had the message at once.
func (r *replay) foreseeSend(k ledger.Link) {
	if l := r.h.link(k); k.To.App != "" && k.To.Key != (ledger.Key{}) && l.sent == l.taken+1 {
		r.strangers[r.taken-1] = append(r.strangers[r.taken-1], k.To)
	}
}

// isInput reports whether an operation begins a transaction.
func isInput(op ledger.Op) bool {
	switch op {
	case ledger.OpSeen, ledger.OpTransaction, ledger.OpRequest, ledger.OpReceive, ledger.OpCall, ledger.OpLeave,
		ledger.OpDepart, ledger.OpSuspend, ledger.OpForget:
		return true
	}
	return op >= ledger.OpEvent && op <= ledger.OpCloseEpoch
}

// entry executes an entry and compares the result.
func (r *replay) entry(e *entry) error {
	if err := r.foreseeRoom(0); err != nil { // nothing follows
		return err
	}
	if err := r.forgetNow(); err != nil {
		return err
	}
	if (r.crowded || r.follows) && !r.hosts {
		return r.follow(e)
	}
	if err := r.core.LeadAs(e.header); err != nil {
		return err
	}
	if err := r.timely(e); err != nil {
		return err
	}
	if _, err := ledger.Walk(e.data, func(rec *ledger.Record) error { return r.next(rec, e.header.Time) }); err != nil {
		return violated("a single controller does not take its input: %v", err)
	}
	r.moveNow()
	r.executing = 0
	r.popped, r.acked = r.acked, r.popped[:0]
	r.time = e.header.Time
	got, err := r.commit(e.data[:e.body])
	if err != nil {
		return err
	}
	want := e.data[:len(e.data)-r.lastBytes]
	// A leader that has taken a transaction back writes the next commands whole.
	if !bytes.Equal(got[min(e.body, len(got)):], want[e.body:]) && !slices.Equal(operations(got), operations(want)) {
		return violated("a single controller makes something else of its inputs: %s", firstDifference(want, got))
	}
	return nil
}

// follow applies an entry without executing it. How much a leader keeps for another group depends on when its entries
// were committed, and on what its directory knew, so nobody else can tell when that is too much.
func (r *replay) follow(e *entry) error {
	r.heard, r.time = fifo[[]byte]{}, e.header.Time
	r.popped, r.acked = r.acked, r.popped[:0]
	return cmp.Or(r.core.Follow(), r.core.Commit(e.data[:len(e.data)-r.lastBytes]))
}

// timely checks that timers fire. They may wait for room in the batch, and for a group that does not take what it is
// sent: a transaction of the simulated applications sends a few
// items, for which an outbox that is not half full has room.
func (r *replay) timely(e *entry) error {
	due, set := r.core.NextTimer()
	full := r.taken >= r.inputs || len(e.data) >= r.size || !r.core.Room() || r.core.OutboxFilled() >= 50
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

// next takes an operation.
func (r *replay) next(rec *ledger.Record, now int64) error {
	if isInput(rec.Op) {
		r.moveNow()
		r.executing++
	}
	switch {
	case rec.Op == ledger.OpLeave || rec.Op == ledger.OpDepart, rec.Op == ledger.OpSend && len(r.move) > 0:
		r.move = append(r.move, *rec)
		return nil
	}
	return r.input(rec, now)
}

// moveNow executes a transaction of a move. What it sends is as in the log, where logPiece checks it.
func (r *replay) moveNow() {
	if len(r.move) > 0 {
		r.core.Repeat(&r.move[0], r.move[1:])
		r.move = r.move[:0]
	}
}

// input feeds an operation that is an input. The other operations must be produced.
func (r *replay) input(rec *ledger.Record, now int64) error {
	switch rec.Op {
	case ledger.OpEvent, ledger.OpSeen:
		event := r.core.EventByDigest
		if r.h.isDirect(rec.Switch) {
			event = r.core.Event
		}
		err := event(rec.Switch, rec.Epoch, rec.Seq, r.heard.pop())
		if rec.Seq == 1 {
			r.born[rec.Switch] = r.hosted.Hosting().Inputs
		}
		return err
	case ledger.OpTimer:
		return r.fire(rec, now)
	case ledger.OpUnreachable:
		r.core.Unreachable(rec.Switch)
	case ledger.OpReachable:
		r.core.Reachable(rec.Switch, rec.Epoch)
	case ledger.OpRequest:
		r.core.Request(rec.App, rec.Bytes)
	case ledger.OpCall:
		return r.core.Call(ledger.Call{Actor: rec.Actor, Name: rec.Name, Message: rec.Bytes})
	case ledger.OpSuspend:
		return r.core.Suspend(rec.Actor, rec.Early, rec.Name)
	case ledger.OpForget:
		return r.core.Forget(rec.Switch)
	case ledger.OpReceive:
		return r.core.Receive(0, rec.Link, rec.Seq, rec.Bytes)
	default:
		return r.hostedInput(rec)
	}
	return nil
}

// fire executes a timer. Those that do not fit into an outbox wait, and others go first.
func (r *replay) fire(rec *ledger.Record, now int64) error {
	first, err := r.core.Fire(rec, now)
	if err == nil && !first && r.alone {
		return violated("%s goes off, and another was due before it", describe(rec))
	}
	return err
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

// forgetNow discards the commands that are done, and what other groups have received, by an entry of its own.
func (r *replay) forgetNow() error {
	if len(r.forget)+len(r.popped) == 0 {
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
	for i := range r.popped {
		if err := r.core.Acknowledged(r.popped[i].Link, r.popped[i].Seq, false); err != nil {
			return err
		}
	}
	r.forget, r.popped = r.forget[:0], r.popped[:0]
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

// doneLen is the length of an OpDone.
func doneLen(seq uint64) int { return 1 + 8 + 8 + varintLen(seq) }

// takenLen is the length of an OpTaken.
func takenLen(r *ledger.Record) int {
	n := 1 + varintLen(r.Seq)
	for _, a := range []ledger.Actor{r.Link.From, r.Link.To} {
		n += len(a.Append(nil))
	}
	return n
}

func varintLen(v uint64) int { return max(1, (bits.Len64(v)+6)/7) }
