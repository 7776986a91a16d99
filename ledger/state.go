package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

type timerName struct{ app, name string }

type timer struct {
	due  int64 // ledger time, ns
	data []byte
}

// switchState is what the ledger knows of a switch.
type switchState struct {
	id    openflow.DatapathID
	epoch uint64
	// events is the watermark: every event of the epoch up to it is in the ledger.
	events uint64
	// live says that the epoch has not ended; reachable, that the leader has a
	// connection for it, or had one a moment ago. Commands are accepted while live.
	live, reachable bool
	// closed says that the ledger ended the epoch; the switch does not know it.
	closed bool
	hello  []byte // the SWITCH_UP that began the epoch
	queue  commandQueue
	// past holds what was logged of the epochs before, oldest first. It is not modified.
	past []watermark
	// Totals over all epochs.
	totalEvents, totalCommands uint64

	// The rest is the leader's own, not replicated.
	committed watermark // of events; of an earlier epoch while this one is uncommitted
	refused   bool      // it is committed that the epoch is closed
	released  uint64    // position in queue up to which commands were released
	// releasedNext is the sequence of the command at released.
	releasedNext uint64
	doneSeen     uint64    // highest sequence that Done was told
	completed    watermark // of commands: the last OpDone that is committed
	touched      uint64    // number of the batch that last listed this switch
	acking       bool      // in Core.acked
	repeated     bool      // in Core.duplicates
	// transaction is the last one that sent to the switch; opening, what its first command is or was.
	transaction, opening uint64
	// skipped counts events since the last record of this switch in the batch that are to get no record of their own.
	skipped, skippedAsynchronous uint64
	loose                        uint32 // commands without a sequence, for their xids
}

// watermark is a sequence number of an epoch: of events or of commands.
type watermark struct{ epoch, seq uint64 }

// maxPast bounds switchState.past. An agent holds events of as many epochs at most as began while
// nothing was acknowledged; one that holds more is made to begin anew.
const maxPast = 8

// savedSwitch is the replicated part of a switchState that an undo record or a snapshot
// keeps (its queue: only in snapshots, or when an epoch ends).
type savedSwitch struct {
	epoch, events              uint64
	live, reachable, closed    bool
	past                       []watermark
	hello                      []byte
	first                      uint64
	commands                   []byte
	totalEvents, totalCommands uint64
}

// state is the replicated state of a group: what every replica has after the same entries.
type state struct {
	time     int64
	tables   map[TableName]*table
	switches map[openflow.DatapathID]*switchState
	last     *switchState // that was looked up: often the next one too
	timers   map[timerName]timer
	parts    [][]byte // of the replayed application, while a snapshot is restored

	// Not replicated; see Core.Revision.
	revision, restored uint64 // grows with each entry; what it was when a snapshot was restored
}

func newState() *state {
	return &state{
		tables:   map[TableName]*table{},
		switches: map[openflow.DatapathID]*switchState{},
		timers:   map[timerName]timer{},
	}
}

func (s *state) table(name TableName) *table {
	t := s.tables[name]
	if t == nil {
		t = &table{name: name, cells: map[Key]map[Key][]byte{}}
		s.tables[name] = t
	}
	return t
}

// find returns a switch; nil if it is not known.
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
		sw = &switchState{id: id, queue: newCommandQueue()}
		s.switches[id] = sw
	}
	return sw
}

// begin starts an epoch: a clean slate (Ravana, section 3.1).
func (sw *switchState) begin(epoch uint64, hello []byte) {
	if sw.epoch != 0 {
		keep := sw.past[max(0, len(sw.past)-maxPast+1):]
		sw.past = append(slices.Clip(keep), watermark{sw.epoch, sw.events})
	}
	sw.epoch, sw.events, sw.released, sw.releasedNext, sw.doneSeen = epoch, 0, 0, 1, 0
	sw.live, sw.reachable, sw.closed, sw.refused, sw.hello = true, true, false, false, hello
	sw.queue = newCommandQueue()
}

// end closes the epoch: what it still had to do is void.
func (sw *switchState) end() {
	sw.live, sw.reachable = false, false
	first := sw.queue.next
	sw.queue = commandQueue{base: sw.queue.end(), first: first, next: first}
}

// logged reports whether an event is in the ledger.
func (sw *switchState) logged(epoch, seq uint64) bool {
	if epoch == sw.epoch {
		return seq <= sw.events
	}
	for _, p := range sw.past {
		if p.epoch == epoch {
			return seq <= p.seq
		}
	}
	return false
}

func (sw *switchState) save() savedSwitch {
	return savedSwitch{
		epoch: sw.epoch, events: sw.events, live: sw.live, reachable: sw.reachable, closed: sw.closed, past: sw.past,
		hello: sw.hello,
		first: sw.queue.first, commands: sw.queue.all(), totalEvents: sw.totalEvents, totalCommands: sw.totalCommands,
	}
}

func (sw *switchState) load(v savedSwitch) error {
	sw.epoch, sw.events, sw.live, sw.reachable, sw.closed = v.epoch, v.events, v.live, v.reachable, v.closed
	sw.past, sw.hello = v.past, bytes.Clone(v.hello)
	sw.totalEvents, sw.totalCommands = v.totalEvents, v.totalCommands
	sw.queue = commandQueue{first: v.first, next: v.first}
	for rest := v.commands; len(rest) > 0; {
		msg, after, err := openflow.Next(rest)
		if err != nil || msg == nil {
			return fmt.Errorf("switch %s: %d bytes of commands end within a message: %w", sw.id, len(v.commands),
				errors.Join(errShort, err))
		}
		sw.queue.push(msg)
		rest = after
	}
	return nil
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
	dst = append(binary.AppendUvarint(dst, v.events), flags)
	dst = binary.AppendUvarint(dst, uint64(len(v.past)))
	for _, p := range v.past {
		dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, p.epoch), p.seq)
	}
	dst = appendBytes(dst, v.hello)
	dst = binary.AppendUvarint(dst, v.first)
	dst = appendBytes(dst, v.commands)
	dst = binary.AppendUvarint(dst, v.totalEvents)
	return binary.AppendUvarint(dst, v.totalCommands)
}

func (d *decoder) savedSwitch() savedSwitch {
	v := savedSwitch{epoch: d.uint64(), events: d.uvarint()}
	flags := d.byte()
	v.live, v.reachable, v.closed = flags&1 != 0, flags&2 != 0, flags&4 != 0
	n := d.uvarint()
	if n > maxPast {
		d.fail(fmt.Errorf("%d past epochs; at most %d are kept", n, maxPast))
	}
	for ; n > 0 && d.err == nil; n-- {
		v.past = append(v.past, watermark{d.uint64(), d.uvarint()})
	}
	v.hello, v.first, v.commands = d.bytes(), d.uvarint(), d.bytes()
	v.totalEvents, v.totalCommands = d.uvarint(), d.uvarint()
	return v
}

// snapshot encodes the state; equal states give equal bytes.
func (s *state) snapshot(h Header) []byte {
	b := s.appendSwitches(h.append(nil))
	names := slices.SortedFunc(maps.Keys(s.tables), TableName.compare)
	n := uint64(0)
	for _, name := range names {
		if cells := s.tables[name].cells; len(cells) > 0 {
			b = cells.appendSorted(b, name, n)
			n++
		}
	}
	return s.appendTimers(b)
}

func (s *state) appendSwitches(b []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(s.switches)) {
		if s.switches[id].epoch == 0 {
			continue // never heard of: its first epoch was taken back
		}
		b = append(b, byte(OpSwitch))
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = s.switches[id].save().append(b)
	}
	return b
}

func (s *state) appendTimers(b []byte) []byte {
	for _, name := range slices.SortedFunc(maps.Keys(s.timers), func(a, b timerName) int {
		return slices.Compare([]string{a.app, a.name}, []string{b.app, b.name})
	}) {
		b = s.timers[name].append(b, name)
	}
	return b
}

func (t timer) append(b []byte, name timerName) []byte {
	b = appendString(appendString(append(b, byte(OpSetTimer)), name.app), name.name)
	return appendBytes(binary.AppendUvarint(b, uint64(t.due)), t.data)
}
