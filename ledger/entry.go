package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// An entry is a small program: a header and a sequence of operations that, applied in order, give the state after its
// transactions. A snapshot is a program of the same form for the whole state. All integers are unsigned varints, except
// datapath ids and epochs (8 bytes).
//
//	header: version (1 byte), flags (1 byte: relay 1, compare 2), term, batch, time (ns, Unix)
const entryVersion = 6

// Op is the kind of a Record.
type Op uint8

// The operations of an entry. An input operation begins a transaction. The operations up to the next input are what
// that transaction did.
const (
	OpTable       Op = iota + 1 // App, Name: gives the next table number of this entry
	OpEvent                     // input: Switch, Epoch, Seq, Bytes (an event of a switch)
	OpTimer                     // input: Actor, Name (a timer that is due)
	OpUnreachable               // input: Switch, Epoch (the leader has no connection to it)
	OpReachable                 // input: Switch, Epoch (it is connected again, in the same epoch)
	OpCloseEpoch                // input: Switch, Epoch (the switch does not accept its commands)
	OpPut                       // table number, Cell, Field, Bytes
	OpDelete                    // table number, Cell, Field
	OpCommand                   // Switch, Seq, Bytes (a message for a switch)
	OpSetTimer                  // Actor, Name, Time, Bytes
	OpCancelTimer               // Actor, Name
	OpFailure                   // App, Name (the error): an application failed on this input
	OpDone                      // Switch, Epoch, Seq: commands complete up to Seq (the second stage)
	OpSwitch                    // snapshots only: the state of a switch
	// Switch, Epoch, Seq, Asynchronous: Unordered events up to Seq were executed. Their writes may be anywhere
	OpSkipped

	// Operations of the replayed application; the ledger does not interpret their bytes.
	OpTransaction // input: Bytes
	OpRecord      // Bytes
	OpPart        // snapshots only: Bytes

	OpSeen // input: Switch, Epoch, Seq, Type, Digest (an event of a switch whose bytes are not needed in the log)

	// Delta-encoded forms, which Walk expands.
	OpSeenNext    // OpSeen of the event after that of the OpSeen before
	OpCommandNext // OpCommand to the same switch as the one before, as its difference from the last of the same type

	OpRequest // input: App, Bytes (a request of a controller to an application)

	// Operations of streams between groups.
	OpReceive  // input: Link, Seq, Bytes (an item from another group)
	OpSend     // Link, Bytes (an item for another group)
	OpTaken    // Link, Seq: the receiver has the items up to Seq (the second stage)
	OpAsk      // Switch, Ask: the next commands come from another group
	OpOutgoing // snapshots and moves: Link, Outgoing
	OpIncoming // snapshots and moves: Link, Incoming

	// Operations of moves between groups.
	OpLeave  // input: Actor, Assignment.Group (the actor begins to move to a group; 0: the move is called off)
	OpDepart // input: Actor, Assignment (it lives in another group from now on)
	OpDrop   // table number, Cell (the whole cell is removed)
	OpMoved  // snapshots only: Actor, Assignment
	OpPiece  // snapshots only: Actor, Assignment.Group, Bytes (a part of an actor that arrives from a group)

	OpCall // input: Actor, Name, Bytes (a Call that has changed something; of a Terse application without Bytes)

	OpClear // table number (all cells are removed, because their actor departs)

	OpSuspend // input: Actor, Time, Early, Name (the reason; "": the actor is resumed); also in snapshots and moves

	OpForget // input: Switch, Epoch (the switch is gone for good); in snapshots Switch is 0
)

// Record is one operation of an entry, decoded. The comment at each Op lists the fields that it uses. Bytes aliases the
// entry, or a buffer that is valid as long as the record.
type Record struct {
	Op         Op
	Type       uint8 // of the message
	Switch     openflow.DatapathID
	Epoch, Seq uint64
	// Asynchronous counts the events of OpSkipped or OpSeen that the switch sent unasked.
	Asynchronous uint64
	Digest       uint64 // of the message, see internal/digest
	App, Name    string
	Actor        Actor
	Early        bool // see Running
	Table        TableName
	Cell, Field  Key
	Time         int64
	Bytes        []byte
	Saved        *savedSwitch
	Link         Link
	Outgoing     *outgoing
	Incoming     *incoming
	Ask          ask
	Assignment   Assignment
	kept         bool // Bytes are not of the entry, and are not changed
}

// Header starts an entry.
type Header struct {
	Term, Batch uint64 // the leader's term, and its count of entries in it from 1
	Time        int64  // ledger time in ns: not less than in the entry before
	Relay       bool   // see Core.Relay
	Compare     bool   // see Core.Compare
}

// flagsAt is where Relay and Compare are in an entry: they are known when the rest has been written.
const flagsAt = 1

var errVersion = errors.New("written by another release: run releases that share a log format")

func (h Header) append(dst []byte) []byte {
	dst = append(dst, entryVersion, flag(h.Relay)*relayFlag|flag(h.Compare)*compareFlag)
	dst = binary.AppendUvarint(dst, h.Term)
	dst = binary.AppendUvarint(dst, h.Batch)
	return binary.AppendUvarint(dst, uint64(h.Time))
}

// Walk decodes an entry or snapshot and calls f for each record, in order. The record is
// valid during the call. It returns the first error of the decoder or of f.
func Walk(data []byte, f func(*Record) error) (Header, error) {
	d := decoder{b: data}
	h := d.header()
	if len(data) > 0 && data[0] != entryVersion {
		return Header{}, fmt.Errorf("ledger: entry of format %d, this release reads format %d: %w", data[0],
			entryVersion,
			errVersion)
	}
	var r Record
	var tables []TableName
	var known deltas
	for d.err == nil && len(d.b) > 0 {
		at := len(data) - len(d.b)
		d.record(&r, &tables, &known)
		if d.err == nil {
			d.err = f(&r)
		}
		if d.err != nil {
			return h, fmt.Errorf("ledger: entry (term %d, batch %d), operation %d at byte %d: %w", h.Term, h.Batch,
				r.Op, at, d.err)
		}
	}
	if d.err != nil {
		return h, fmt.Errorf("ledger: entry header: %w", d.err)
	}
	return h, nil
}

var errShort = errors.New("ends within a field")

// decoder reads fields; after the first error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail(errShort)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint64() uint64 {
	if len(d.b) < 8 {
		d.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }
func (d *decoder) key() Key       { return Key{A: d.uvarint(), B: d.uvarint(), S: d.string()} }

// keyLike decodes a key. Often its text is that of the key before, which then needs no memory of its own.
func (d *decoder) keyLike(k *Key) {
	k.A, k.B = d.uvarint(), d.uvarint()
	if s := d.bytes(); string(s) != k.S {
		k.S = string(s)
	}
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

// header decodes the header, with the version.
func (d *decoder) header() Header {
	d.byte()
	flags := d.byte()
	h := Header{Relay: flags&relayFlag != 0, Compare: flags&compareFlag != 0}
	h.Term, h.Batch, h.Time = d.uvarint(), d.uvarint(), int64(d.uvarint())
	return h
}

func (d *decoder) record(r *Record, tables *[]TableName, known *deltas) {
	if op := Op(d.byte()); op != OpPut || r.Op != OpPut {
		*r = Record{Op: op}
	} // else all that is set is set again: to clear the rest takes longer than to decode it
	switch r.Op {
	case OpTable:
		r.Table = TableName{d.string(), d.string()}
		*tables = append(*tables, r.Table)
	case OpEvent:
		r.Switch, r.Epoch, r.Seq, r.Bytes = openflow.DatapathID(d.uint64()), d.uint64(), d.uvarint(), d.bytes()
	case OpSeen, OpSeenNext:
		if r.Op == OpSeen {
			r.Switch, r.Epoch, r.Seq = openflow.DatapathID(d.uint64()), d.uint64(), d.uvarint()
			known.seen = seenEvent{r.Switch, r.Epoch, r.Seq}
		} else {
			d.seenNext(known, r)
		}
		r.Type, r.Digest = d.byte(), d.uint64()
		if message.Asynchronous(r.Type) {
			r.Asynchronous = 1
		}
	case OpTimer, OpCancelTimer:
		r.timer(d)
	case OpFailure:
		r.App, r.Name = d.string(), d.string()
	case OpUnreachable, OpReachable, OpCloseEpoch, OpForget:
		r.Switch, r.Epoch = openflow.DatapathID(d.uint64()), d.uint64()
	case OpPut, OpDelete:
		n := d.uvarint()
		if n >= uint64(len(*tables)) {
			d.fail(fmt.Errorf("table number %d of %d", n, len(*tables)))
			return
		}
		r.Table = (*tables)[n]
		d.keyLike(&r.Cell)
		r.Field = d.key()
		if r.Op == OpPut {
			r.Bytes, r.kept = d.bytes(), false
		}
	case OpDrop, OpClear:
		n := d.uvarint()
		if n >= uint64(len(*tables)) {
			d.fail(fmt.Errorf("table number %d of %d", n, len(*tables)))
			return
		}
		if r.Table = (*tables)[n]; r.Op == OpDrop {
			r.Cell = d.key()
		}
	case OpCommand:
		r.Switch, r.Seq, r.Bytes = openflow.DatapathID(d.uint64()), d.uvarint(), d.bytes()
		known.whole(r.Switch, r.Seq, r.Bytes)
	case OpCommandNext:
		d.commandNext(known, r)
	case OpSetTimer:
		r.timer(d)
		r.Time, r.Bytes = int64(d.uvarint()), d.bytes()
	case OpDone:
		r.Switch, r.Epoch, r.Seq = openflow.DatapathID(d.uint64()), d.uint64(), d.uvarint()
	case OpSkipped:
		r.Switch, r.Epoch, r.Seq, r.Asynchronous = openflow.DatapathID(d.uint64()), d.uint64(), d.uvarint(), d.uvarint()
	case OpTransaction, OpRecord, OpPart:
		r.Bytes = d.bytes()
	case OpRequest:
		r.App, r.Bytes = d.string(), d.bytes()
	case OpCall:
		r.Actor, r.Name, r.Bytes = d.actor(), d.string(), d.bytes()
	case OpSuspend:
		r.Actor = d.actor()
		r.suspension(d)
	case OpSwitch:
		r.Switch = openflow.DatapathID(d.uint64())
		saved := d.savedSwitch()
		r.Saved = &saved
	default:
		d.recordOfLink(r)
	}
}

func (r *Record) timer(d *decoder) {
	r.Actor, r.Name = d.actor(), d.string()
}

// recordOfLink decodes an operation of streams between groups.
func (d *decoder) recordOfLink(r *Record) {
	switch r.Op {
	case OpReceive:
		r.Link, r.Seq, r.Bytes = d.link(), d.uvarint(), d.bytes()
	case OpSend:
		r.Link, r.Bytes = d.link(), d.bytes()
	case OpTaken:
		r.Link, r.Seq = d.link(), d.uvarint()
	case OpAsk:
		r.Switch, r.Ask = openflow.DatapathID(d.uint64()), d.ask()
	case OpOutgoing:
		r.Link = d.link()
		r.Outgoing = d.outgoing(r.Link)
	case OpIncoming:
		r.Link = d.link()
		r.Incoming = d.incoming(r.Link)
	case OpLeave, OpDepart, OpMoved:
		r.Actor, r.Assignment = d.actor(), d.assignment()
	case OpPiece:
		r.Actor, r.Assignment.Group, r.Bytes = d.actor(), d.uvarint(), d.bytes()
	default:
		d.fail(fmt.Errorf("unknown operation: %w", errVersion))
	}
}
