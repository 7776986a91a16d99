package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/stream"
	"github.com/holdfast-sdn/holdfast/tally"
)

// timerName names a timer of an actor.
type timerName struct {
	actor Actor
	name  string
}

type timer struct {
	due  int64 // ledger time, ns
	data []byte
}

// switchState is the state of a switch: the replicated part, and the leader's part.
type switchState struct {
	id openflow.DatapathID
	*incarnation
	// past contains the watermarks of the epochs before, oldest first. It is not modified.
	past []watermark
	// Totals over all epochs.
	totalEvents, totalCommands uint64

	arrived watermark // when it moved here; not replicated
	master  mastership
}

// incarnation is the replicated state of one epoch of a switch. When an epoch begins or ends, a new incarnation
// replaces it, so to undo that the old one is put back unchanged.
type incarnation struct {
	epoch uint64
	// events is the watermark: every event of the epoch up to it is in the ledger.
	events stream.Watermark
	// live: the epoch has not ended, and commands are accepted. reachable: the leader has a connection to the switch,
	// or the switch timeout has not passed since.
	live, reachable bool
	// closed: the ledger ended the epoch, and the switch does not know that.
	closed bool
	hello  []byte        // the SWITCH_UP that began the epoch
	queue  stream.Outbox // commands that are not complete
	asks   asks          // which of them, and of those before, came from other groups
}

// mastership is the state of a switch at the leader, as its master. It is not replicated; Lead resets it.
type mastership struct {
	committed watermark      // of events; of an earlier epoch while this one is uncommitted
	refused   bool           // the end of the epoch is committed
	released  uint64         // number of the last command that was released
	doneSeen  uint64         // number of the last command that Done was called with
	touched   uint64         // number of the batch that last listed this switch
	sampling  tally.Sampling // of the transactions that its events begin
	acking    bool           // in Core.acked
	repeated  bool           // in Core.duplicates
	// transaction is the last one that sent commands to the switch; opening is the number of its first command.
	transaction, opening uint64
	// skipped counts events since the last record of this switch in the batch that will have no record of their own.
	skipped, skippedAsynchronous uint64
	bestEffort                   uint32 // commands without a sequence, for their xids
	arriving                     bool   // it has moved here, and that is not committed
	tally                        *tally.Actor[Actor]
	tallies                      []*tally.Actor[Actor] // of the actors at the switch, by application; may be nil
}

// lead is called when this replica begins to lead.
func (sw *switchState) lead() {
	sw.master = mastership{committed: sw.logged(), refused: sw.closed, released: sw.queue.Last(),
		doneSeen: sw.queue.Acked()}
}

// watermark is a sequence number of an epoch.
type watermark struct{ epoch, seq uint64 }

// logged returns the watermark of events.
func (sw *switchState) logged() watermark { return watermark{sw.epoch, uint64(sw.events)} }

// maxPast bounds switchState.past. An agent keeps events of at most as many epochs as began while nothing was
// acknowledged. One that keeps more must begin a new epoch.
const maxPast = 8

// savedSwitch is the replicated part of a switchState, in a snapshot.
type savedSwitch struct {
	incarnation
	past                       []watermark
	totalEvents, totalCommands uint64
}

// state is the replicated state of a group. It is equal at all replicas after the same entries.
type state struct {
	time     int64
	tables   map[TableName]*table
	switches map[openflow.DatapathID]*switchState
	last     *switchState  // the last one that was looked up: often the next one too
	used     [slots]*table // that were looked up last, by slot
	timers   map[timerName]timer
	waiting  waiting
	links    links
	moves    moves
	floor    uint64 // the highest epoch of the switches that were forgotten, see forget.go
	// suspended actors, see suspend.go
	suspended map[Actor]suspension
	parts     [][]byte // of the replayed application, while a snapshot is restored

	timerBytes int // of the data of timers

	writes cells.Writes // of the entry that is applied, which wait; see Core.apply

	// Not replicated; see Core.Revision.
	revision, restored uint64 // grows with each entry; its value when a snapshot was restored
}

func newState() *state {
	return &state{
		tables:   map[TableName]*table{},
		switches: map[openflow.DatapathID]*switchState{},
		timers:   map[timerName]timer{},
		waiting:  waiting{},
	}
}

func (s *state) table(name TableName) *table {
	if t := s.known(name); t != nil {
		return t
	}
	t := newTable(name)
	s.tables[name] = t
	return t
}

// known is table for one that may not be there; then it returns nil.
func (s *state) known(name TableName) *table {
	used := &s.used[name.slot()]
	if *used != nil && (*used).name == name {
		return *used
	}
	t := s.tables[name]
	if t != nil {
		*used = t
	}
	return t
}

// find returns a switch; nil if it is unknown.
func (s *state) find(id openflow.DatapathID) *switchState {
	if s.last != nil && s.last.id == id {
		return s.last
	}
	sw := s.switches[id]
	if sw != nil {
		s.last = sw
	}
	return sw
}

func (s *state) sw(id openflow.DatapathID) *switchState {
	sw := s.find(id)
	if sw == nil {
		sw = newSwitch(id)
		s.switches[id] = sw
	}
	return sw
}

// newSwitch is a switch of which nothing is known.
func newSwitch(id openflow.DatapathID) *switchState {
	return &switchState{id: id, incarnation: &incarnation{}}
}

// setSwitch adds a switch, or removes it if sw is nil.
func (s *state) setSwitch(id openflow.DatapathID, sw *switchState) {
	if s.last = nil; sw == nil {
		delete(s.switches, id)
		return
	}
	s.switches[id] = sw
}

// begin starts an epoch with an empty state (Ravana, section 3.1).
func (sw *switchState) begin(epoch uint64, hello []byte) {
	if sw.epoch != 0 {
		keep := sw.past[max(0, len(sw.past)-maxPast+1):]
		sw.past = append(slices.Clip(keep), sw.logged())
	}
	sw.incarnation = &incarnation{epoch: epoch, live: true, reachable: true, hello: hello}
	sw.master.released, sw.master.doneSeen, sw.master.refused = 0, 0, false
}

// end ends the epoch and discards its outstanding commands. closed: the ledger ends it, and not the switch.
func (sw *switchState) end(closed bool) {
	hello := sw.hello
	if closed {
		hello = nil // it holds nothing any more: the next epoch begins with another
	}
	sw.incarnation = &incarnation{epoch: sw.epoch, events: sw.events, closed: closed, hello: hello,
		queue: stream.OutboxAfter(sw.queue.Last())}
}

// has reports whether an event is in the ledger.
func (sw *switchState) has(epoch, seq uint64) bool {
	if epoch == sw.epoch {
		return seq <= uint64(sw.events)
	}
	for _, p := range sw.past {
		if p.epoch == epoch {
			return seq <= p.seq
		}
	}
	return false
}

func (sw *switchState) save() savedSwitch {
	return savedSwitch{*sw.incarnation, sw.past, sw.totalEvents, sw.totalCommands}
}

func (sw *switchState) load(v savedSwitch) {
	sw.incarnation, sw.past = &v.incarnation, v.past
	sw.totalEvents, sw.totalCommands = v.totalEvents, v.totalCommands
}

func (v savedSwitch) append(dst []byte) []byte {
	flags := byte(0)
	if v.live {
		flags |= 1
	}
	if v.reachable {
		flags |= 2
	}
	if v.closed {
		flags |= 4
	}
	dst = binary.BigEndian.AppendUint64(dst, v.epoch)
	dst = append(binary.AppendUvarint(dst, uint64(v.events)), flags)
	dst = binary.AppendUvarint(dst, uint64(len(v.past)))
	for _, p := range v.past {
		dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, p.epoch), p.seq)
	}
	dst = v.queue.AppendTo(appendBytes(dst, v.hello))
	dst = v.asks.append(dst)
	return binary.AppendUvarint(binary.AppendUvarint(dst, v.totalEvents), v.totalCommands)
}

// savedSwitch shares nothing with what it decodes.
func (d *decoder) savedSwitch() (v savedSwitch) {
	v.epoch, v.events = d.uint64(), stream.Watermark(d.uvarint())
	flags := d.byte()
	v.live, v.reachable, v.closed = flags&1 != 0, flags&2 != 0, flags&4 != 0
	n := d.uvarint()
	if n > maxPast {
		d.fail(fmt.Errorf("%d past epochs; at most %d are kept", n, maxPast))
	}
	for ; n > 0 && d.err == nil; n-- {
		v.past = append(v.past, watermark{d.uint64(), d.uvarint()})
	}
	v.hello = bytes.Clone(d.bytes())
	queue, rest, err := stream.ParseOutbox(d.b)
	if err != nil {
		d.fail(errors.Join(errShort, err))
		return v
	}
	for n := queue.Acked() + 1; n <= queue.Last(); n++ {
		if msg := queue.Item(n); !message.Single(msg) {
			d.fail(fmt.Errorf("command %d of %d bytes is not one message", n, len(msg)))
			return v
		}
	}
	v.queue, d.b = queue, rest
	v.asks = d.asks()
	v.totalEvents, v.totalCommands = d.uvarint(), d.uvarint()
	return v
}

// snapshot encodes the state; equal states give equal bytes.
func (s *state) snapshot(h Header) []byte {
	b := s.appendSwitches(h.append(nil))
	names := slices.SortedFunc(maps.Keys(s.tables), TableName.compare)
	n := uint64(0)
	for _, name := range names {
		if c := s.tables[name].cells; c.Len() > 0 {
			b, _ = appendTable(b, name, n, c.Rows(), c.Sorted())
			n++
		}
	}
	return s.appendRest(b)
}

// appendRest encodes what is neither of a switch nor in a table.
func (s *state) appendRest(b []byte) []byte {
	return s.appendFloor(s.appendSuspended(s.moves.append(s.links.append(s.appendTimers(b)))))
}

func (s *state) appendSwitches(b []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(s.switches)) {
		if s.switches[id].epoch == 0 {
			continue // unknown
		}
		b = append(b, byte(OpSwitch))
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = s.switches[id].save().append(b)
	}
	return b
}

func (s *state) appendTimers(b []byte) []byte {
	for _, name := range slices.SortedFunc(maps.Keys(s.timers), timerName.compare) {
		b = s.timers[name].append(b, name)
	}
	return b
}

func (t timer) append(b []byte, name timerName) []byte {
	b = name.append(append(b, byte(OpSetTimer)))
	return appendBytes(binary.AppendUvarint(b, uint64(t.due)), t.data)
}

func (n timerName) append(b []byte) []byte { return appendString(appendActor(b, n.actor), n.name) }

func (n timerName) compare(o timerName) int {
	return cmp.Or(n.actor.Compare(o.actor), strings.Compare(n.name, o.name))
}
