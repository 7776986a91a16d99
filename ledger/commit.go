package ledger

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Done records that a switch has executed its commands up to seq. The next entry contains that. Once it is committed,
// every replica forgets the commands.
func (c *Core) Done(id openflow.DatapathID, epoch, seq uint64) error {
	sw := c.state.switches[id]
	if !c.leading || sw == nil || sw.epoch != epoch || seq <= sw.master.doneSeen {
		return nil
	}
	if seq > sw.master.released {
		return fmt.Errorf("switch %s: acknowledges command %d, %d is the last that it was sent", id, seq,
			sw.master.released)
	}
	if !sw.master.acking {
		sw.master.acking = true
		c.acked = append(c.acked, sw)
	}
	sw.master.doneSeen = seq
	return nil
}

// Waiting is how many inputs wait to be cut.
func (c *Core) Waiting() int { return c.batch.inputs }

// InFlight is how many inputs are proposed and not committed.
func (c *Core) InFlight() (inputs int) {
	for i := range c.inflight {
		inputs += c.inflight[i].inputs
	}
	return inputs
}

// CutTransactions is Cut if a transaction waits. The entry also contains the completions of commands. Nothing waits for
// a completion, so to log those alone Cut need only be called from time to time. The same holds for Unordered events,
// as long as there is Room.
func (c *Core) CutTransactions() ([]byte, bool) {
	if c.batch.inputs == 0 && len(c.batch.buf) < c.limits.BatchBytes {
		return nil, false
	}
	return c.Cut()
}

// Cut returns the next entry to propose, if there is something to log and fewer than Limits.InFlight entries are
// uncommitted. The caller owns the slice.
func (c *Core) Cut() ([]byte, bool) {
	idle := c.batch.empty() && len(c.acked)+len(c.taken) == 0
	if !c.leading || len(c.inflight) >= c.limits.InFlight || idle {
		return nil, false
	}
	c.open()
	b, n := &c.batch, 0
	for ; n < len(c.acked) && len(b.buf) < c.limits.EntryBytes; n++ { // the others are in the next entry
		sw := c.acked[n]
		done := sw.master.doneSeen
		sw.master.acking = false
		if done == 0 {
			continue // its epoch has ended since
		}
		b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(OpDone)), uint64(sw.id))
		b.buf = binary.BigEndian.AppendUint64(b.buf, sw.epoch)
		b.buf = binary.AppendUvarint(b.buf, done)
		b.dones = append(b.dones, completion{sw.incarnation, done})
	}
	c.acked = slices.Delete(c.acked, 0, n)
	c.cutTaken()
	b.seal()
	if b.relay = c.relays(b); b.relay {
		b.buf[flagsAt] |= relayFlag
	}
	if c.compare {
		b.buf[flagsAt] |= compareFlag
		c.compare = false
	}
	entry, scratch := bytes.Clone(b.buf), b.buf // without spare capacity, because the consensus keeps it for long
	b.buf = nil
	c.inflight = append(c.inflight, *b)
	c.begin()
	if cap(scratch) <= 2*c.limits.BatchBytes {
		c.batch.buf = scratch[:0]
	}
	return entry, true
}

// Commit handles the next committed entry. It releases the outputs if this leader proposed the entry, else it applies
// the entry. An error means that this replica cannot continue.
func (c *Core) Commit(data []byte) error {
	c.counters.Entries++
	c.state.revision++
	if c.leading {
		return c.commitOwn(data)
	}
	d := decoder{b: data}
	h := d.header()
	c.applying, c.relay.on = max(c.state.time, h.Time), h.Relay && h.Term == c.relay.term && c.relay.here != nil
	h, err := Walk(data, c.apply)
	if err != nil {
		c.state.writes = cells.Writes{} // they have bytes of the entry
		return err
	}
	c.state.writes.Do()
	c.state.time = max(c.state.time, h.Time)
	return c.commitReplayed(c.replayedPosition())
}

// apply applies a record. What is written to tables, and nobody is told, waits until there is enough of it, or until
// something comes that may have to do with it.
func (c *Core) apply(r *Record) error {
	tell := c.observer(r)
	switch {
	case r.Op == OpPut && tell == nil:
		c.state.put(r)
		return nil
	case r.Op != OpSeen && r.Op != OpCommand && r.Op != OpDone && r.Op != OpSkipped:
		c.state.writes.Do()
	}
	if tell != nil && r.Op == OpPut {
		r.Bytes, r.kept = append([]byte{}, r.Bytes...), true // the table has it, and who is told
	}
	if err := c.state.apply(r); err != nil {
		return err
	}
	if err := c.applyReplayed(r); err != nil {
		return err
	}
	if c.relay.on {
		c.passOn(r)
	}
	switch {
	case r.Op == OpDepart && r.Actor.isSwitch():
		c.departed = append(c.departed, r.Actor.Switch)
	case r.Op == OpForget:
		c.forgotten = append(c.forgotten, r.Switch)
	case c.observe != nil && r.Op == OpEvent:
		c.observe(r.Switch, r.Epoch, r.Seq, r.Bytes)
	case c.observeSkipped != nil && (r.Op == OpSkipped || r.Op == OpSeen):
		c.observeSkipped(r.Switch, r.Epoch, r.Seq, r.Asynchronous)
	case tell != nil:
		tell(Change{r.Table.Name, r.Cell, r.Field, r.Bytes}) // nil if it was deleted
	}
	return nil
}

func (c *Core) commitOwn(data []byte) error {
	d := decoder{b: data}
	h := d.header()
	if d.err != nil || len(c.inflight) == 0 || h.Term != c.term || h.Batch != c.inflight[0].number {
		return fmt.Errorf("ledger: committed entry (term %d, batch %d) is not the one that this leader of term %d "+
			"waits for", h.Term, h.Batch, c.term)
	}
	b := c.inflight[0]
	c.inflight = append(c.inflight[:0], c.inflight[1:]...)
	c.state.time = h.Time
	c.counters.Completions += uint64(len(b.dones))
	for _, done := range b.dones {
		if err := done.of.queue.Ack(done.upTo); err != nil {
			return fmt.Errorf("ledger: commands are complete: %w", err)
		}
	}
	for _, t := range b.tables {
		t.revision = c.state.revision
	}
	if err := c.commitLinks(&b); err != nil {
		return err
	}
	c.committed = append(c.committed, b.touched...)
	c.ordered.move(&b.bestEffort)
	c.answers = append(c.answers, b.answers...)
	c.observeCommitted(&b)
	if err := c.commitReplayed(c.oldest().replayed); err != nil {
		return err
	}
	clear(b.undo)
	b.old.reset()
	clear(b.answers)
	c.free = append(c.free, b)
	return nil
}

// Releases returns the outputs that were committed since the last call, and forgets them. Valid until the next call of
// any method.
func (c *Core) Releases() []Release {
	c.releases = c.releases[:0]
	for i := range c.committed {
		c.releases = append(c.releases, c.committed[i].release())
	}
	c.committed = c.committed[:0]
	for _, sw := range c.duplicates {
		sw.master.repeated = false
		if sw.master.committed.epoch != 0 {
			c.releases = append(c.releases, sw.acknowledge())
		}
	}
	c.duplicates = c.duplicates[:0]
	c.releases = c.ordered.take(c.releases)
	return c.releases
}

// Resume returns what a master sends when it takes over a switch: all commands that are committed, not complete, and
// already released. ok is false for a switch of which nothing is committed.
func (c *Core) Resume(id openflow.DatapathID) (Release, bool) {
	sw := c.state.switches[id]
	if !c.leading || sw == nil || sw.master.committed.epoch == 0 {
		return Release{}, false
	}
	return sw.resume(), true
}

// Settled reports whether every event of the switch that was executed is committed, and the end of its epoch if this
// ledger has closed it. It does not while the switch is not Here.
func (c *Core) Settled(id openflow.DatapathID) bool {
	sw := c.state.switches[id]
	return c.Here(id) && (sw == nil || sw.logged() == sw.master.committed && sw.closed == sw.master.refused)
}

// Failures returns the failures of applications since the last call.
func (c *Core) Failures() []Failure {
	f := c.failures
	c.failures = nil
	return f
}

// Tick sets the time, in ns of the clock that Lead was given, and executes the due timers for which there is room.
func (c *Core) Tick(now int64) {
	if !c.leading {
		return
	}
	c.clock = max(c.clock, now+c.offset)
	c.setSecond()
	at := c.clock
	if len(c.batch.buf) > 0 {
		at = c.batch.time // later timers need a later batch, because Tx.Now must have reached them
	}
	var late []dueTimer
	for len(c.due) > 0 && c.due[0].at <= at && c.Room() {
		next := heap.Pop(&c.due).(dueTimer)
		t, set := c.state.timers[next.name]
		switch tried, held := c.late[next.name]; {
		case !set || t.due != next.at: // cancelled or reset
		case held && tried == c.relieved:
			late = append(late, next)
		default:
			c.timer(next.name, t)
		}
	}
	for _, d := range late {
		heap.Push(&c.due, d)
	}
	c.resendStalled()
}

// timer executes a timer that is due.
func (c *Core) timer(name timerName, t timer) {
	app := c.appOf(name.actor.App)
	replayed := c.replayed != nil && name.actor.App == c.replayed.Name()
	if app < 0 && !replayed {
		return // kept for a leader that has this application
	}
	before := c.beginPatient()
	b := c.beginTransaction()
	b.buf = name.append(append(b.buf, byte(OpTimer)))
	b.undo = append(b.undo, undo{kind: undoTimer, timer: &oldTimer{name, t}, existed: true})
	c.state.removeTimer(name)
	if replayed {
		c.tell(Input{Kind: Timer, Name: name.name})
	} else {
		c.input = Input{Kind: Timer, Switch: name.actor.Switch, Name: name.name, Message: t.data, from: name.actor,
			at: name.actor.Shard}
		c.call(app)
		c.runEmitted()
	}
	c.finish()
	if c.endPatient(before) != nil {
		c.late[name] = c.relieved
	} else {
		delete(c.late, name)
	}
}

// Busy says whether something is on its way which Tick or Cut moves on, so that both are to be called soon. Otherwise
// nothing happens before NextTimer.
func (c *Core) Busy() bool {
	if !c.leading {
		return false
	}
	waits := len(c.inflight) + len(c.acked) + len(c.taken) + len(c.stalled) + len(c.late) + len(c.leaving) +
		len(c.followers) + len(c.unassigned) + len(c.unpublished)
	if waits > 0 || !c.batch.empty() {
		return true
	}
	for _, p := range c.peers {
		if p.sentItems > 0 || p.group == nowhere && len(p.links) > 0 {
			return true
		}
	}
	return false
}

// NextTimer returns when, on the caller's clock, the next timer is due.
func (c *Core) NextTimer() (at int64, ok bool) {
	if !c.leading || len(c.due) == 0 {
		return 0, false
	}
	return c.due[0].at - c.offset, true
}

// Filled returns the commands of a switch that are not complete, in percent of their bound. At 100 its epoch is closed.
func (c *Core) Filled(id openflow.DatapathID) int {
	sw := c.state.find(id)
	if sw == nil {
		return 0
	}
	n, bytes := 100*sw.queue.Len(), 100*sw.queue.Bytes()
	if n < c.limits.QueueCommands && bytes < c.limits.QueueBytes {
		return 0 // without dividing, for each event
	}
	return max(n/c.limits.QueueCommands, bytes/c.limits.QueueBytes)
}

// OutboxFilled returns what waits for other groups in percent of the bound at which inputs are held, of the group for
// which most waits.
func (c *Core) OutboxFilled() (percent int) {
	bound := c.softBound()
	for _, p := range c.peers {
		percent = max(percent, 100*p.items/bound.Items, 100*p.bytes/bound.Bytes)
	}
	return percent
}

// SwitchStatus is the state of a switch in the ledger, for operators.
type SwitchStatus struct {
	Switch        openflow.DatapathID
	Epoch         uint64
	Live          bool
	Reachable     bool
	Events        uint64 // watermark of the epoch
	Commands      uint64 // last sequence of the epoch
	Done          uint64 // complete up to
	TotalEvents   uint64 // over all epochs
	TotalCommands uint64
}

// Knows reports whether the ledger has seen a switch.
func (c *Core) Knows(id openflow.DatapathID) bool { return c.state.knows(id) }

// Switches returns the status of every switch that the ledger has seen, by datapath id.
func (c *Core) Switches() []SwitchStatus {
	list := make([]SwitchStatus, 0, len(c.state.switches))
	for _, sw := range c.state.switches {
		if sw.epoch != 0 {
			list = append(list, SwitchStatus{sw.id, sw.epoch, sw.live, sw.reachable, uint64(sw.events),
				sw.queue.Last(), sw.queue.Acked(), sw.totalEvents, sw.totalCommands})
		}
	}
	slices.SortFunc(list, func(a, b SwitchStatus) int { return cmp.Compare(a.Switch, b.Switch) })
	return list
}

// Counters returns the counters.
func (c *Core) Counters() Counters { return c.counters }

// schedule adds a timer to the heap. Timers that were reset leave stale entries in it; when most entries are stale, the
// heap is rebuilt.
func (c *Core) schedule(at int64, name timerName) {
	if len(c.due) > 2*len(c.state.timers)+64 {
		c.due = c.due[:0]
		for name, t := range c.state.timers {
			c.due = append(c.due, dueTimer{t.due, name})
		}
		heap.Init(&c.due)
	}
	heap.Push(&c.due, dueTimer{at, name})
}

// dueHeap orders timers by their time. Stale entries are dropped when they are due.
type dueTimer struct {
	at   int64
	name timerName
}

func (d dueTimer) compare(o dueTimer) int {
	return cmp.Or(cmp.Compare(d.at, o.at), d.name.compare(o.name))
}

type dueHeap []dueTimer

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueTimer)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
