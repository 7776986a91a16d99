package replay

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Name is that of the hosted applications in the ledger: one name for all programs of the host.
const Name = "ryu"

// window bounds the inputs that wait for the leader's host: then the ledger takes no more.
const window = 4096

// maxSkipped bounds the inputs of a generation that no host is to execute: then the applications are to Begin.
const maxSkipped = 1024

// Hosting is what the log has of the hosted applications. While this controller leads it is ahead of what is committed.
type Hosting struct {
	Generation uint64 // how often applications have begun, or ended; 0 is never
	Identity   string // of what began; empty: nothing did, what was hosted has ended
	Seed       uint64 // for what is random
	Began      int64  // ledger time, ns
	Inputs     uint64 // number of the last input of the generation
	Results    uint64 // number of the last input whose result is in the log

	woken uint64 // number of the last Timer
	skips uint64 // inputs of the generation that no host is to execute
}

func (h *Hosting) on() bool        { return h.Identity != "" }
func (h *Hosting) waiting() uint64 { return h.Inputs - h.Results }

// Log is what is replicated of the hosted applications: a ledger.Replayed. Hosting and the switches follow the ledger,
// and so are ahead of what is committed at a leader; the history is what is committed.
type Log struct {
	ledger   *ledger.Core
	identity string // of what this controller hosts; empty: nothing

	hosting  Hosting
	switches map[openflow.DatapathID]*hostedSwitch
	journal  journal
	history  history
	scratch  []byte // a record that is being made
}

// hostedSwitch is what the log has of a switch.
type hostedSwitch struct {
	born  uint64  // number of the input that began its epoch; 0: hosts know of no epoch
	asked []asked // the applications' transaction ids of its newest commands
}

// NewLog adds the hosted applications to a ledger. Identity is equal at two controllers exactly if their hosts would
// execute the same programs; it is empty if this controller has no host. Such a controller keeps the log of those that
// have one, and ends their applications if it leads: nobody would send results, and in the end no input had room.
func NewLog(l *ledger.Core, identity string) (*Log, error) {
	log := &Log{ledger: l, identity: identity, switches: map[openflow.DatapathID]*hostedSwitch{}, history: newHistory()}
	return log, l.Replay(log)
}

// Name implements ledger.Replayed.
func (l *Log) Name() string { return Name }

// Lead implements ledger.Replayed.
func (l *Log) Lead() {
	if l.identity == "" && l.hosting.on() {
		l.begin(0)
	}
}

// Active implements ledger.Replayed.
func (l *Log) Active() bool { return l.hosting.on() }

// Full implements ledger.Replayed.
func (l *Log) Full() bool { return l.hosting.waiting() >= window }

// Position implements ledger.Replayed.
func (l *Log) Position() uint64 { return l.journal.end() }

// Input implements ledger.Replayed: it becomes an input of hosts, or none.
func (l *Log) Input(now int64, in *ledger.Input) {
	switch in.Kind {
	case ledger.SwitchUp:
		if in.Seq > 0 {
			l.reborn(in.Switch, 0)
		}
		l.up(now, in.Switch, in.Message)
	case ledger.SwitchDown:
		l.feed(now, wire.Input{Kind: wire.Down, Switch: in.Switch})
	case ledger.Message:
		l.message(now, in.Switch, in.Message)
	case ledger.Timer:
		l.timer(now)
	}
}

// up says that a switch is there: for the first time in its epoch or generation, or again. hello is its SWITCH_UP.
func (l *Log) up(now int64, id openflow.DatapathID, hello []byte) {
	m, err := experimenter.ParseSwitchUp(hello)
	if err != nil {
		return // the applications of the ledger were told, and it is down to hosts
	}
	l.feed(now, wire.Input{Kind: wire.Up, Switch: id, Features: m.Features, Ports: m.Ports})
	if l.sw(id).born == 0 {
		l.reborn(id, l.hosting.Inputs)
	}
}

func (l *Log) sw(id openflow.DatapathID) *hostedSwitch {
	sw := l.switches[id]
	if sw == nil {
		sw = &hostedSwitch{}
		l.switches[id] = sw
	}
	return sw
}

// reborn sets the input that began the epoch of a switch, whose commands before are not asked for any more.
func (l *Log) reborn(id openflow.DatapathID, number uint64) {
	sw := l.sw(id)
	l.journal.add(change{kind: changedSwitch, sw: sw, was: *sw})
	*sw = hostedSwitch{born: number}
}

// message leaves out what answers an application of the ledger, and gives an answer the xid of its question.
func (l *Log) message(now int64, id openflow.DatapathID, msg []byte) {
	switch tag := message.Asker(msg); {
	case tag == message.Replayed:
		if xid, ok := l.sw(id).askedAs(openflow.XID(msg)); ok {
			msg = bytes.Clone(msg)
			openflow.SetXID(msg, xid)
		}
	case tag > 0:
		return
	}
	l.feed(now, wire.Input{Kind: wire.Message, Switch: id, Message: msg})
}

// timer tells the hosted applications of the time.
func (l *Log) timer(now int64) {
	woken := l.hosting.woken
	l.feed(now, wire.Input{Kind: wire.Timer})
	l.hosting.woken = l.hosting.Inputs
	l.journal.add(change{kind: changedWoken, number: woken})
}

// feed numbers an input.
func (l *Log) feed(now int64, in wire.Input) {
	l.hosting.Inputs++
	in.Number, in.Time = l.hosting.Inputs, now
	l.journal.input(&in)
}

// Record implements ledger.Replayed.
func (l *Log) Record(now int64, record []byte) error {
	r, err := ParseRecord(record)
	switch {
	case err != nil:
		return err
	case r.Kind != Begin && !l.hosting.on():
		return fmt.Errorf("record of kind %d, and nothing is hosted", r.Kind)
	}
	switch r.Kind {
	case Begin:
		l.begun(now, r.Seed, string(r.Identity))
	case Request:
		l.feed(now, wire.Input{Kind: wire.Request, Request: r.Request})
	case Result:
		l.journal.add(change{kind: changedResults, number: r.Number, digest: r.Digest, before: l.hosting.Results})
		l.hosting.Results = r.Number
	case Skip:
		l.hosting.skips++
		l.journal.add(change{kind: changedSkips, number: r.Number})
	case Asked:
		return l.asked(r.asked)
	}
	return nil
}

func (l *Log) begun(now int64, seed uint64, identity string) {
	old := generation{l.hosting, l.switches}
	l.journal.add(change{kind: changedGeneration, number: old.hosting.Generation + 1, old: &old})
	l.hosting = Hosting{Generation: old.hosting.Generation + 1, Identity: identity, Seed: seed, Began: now}
	l.switches = map[openflow.DatapathID]*hostedSwitch{}
	if !l.hosting.on() {
		return
	}
	l.timer(now) // whose result says when the first timer is wanted
	for id, hello := range l.ledger.Up() {
		l.up(now, id, hello)
	}
}

// Commit implements ledger.Replayed: what it covers becomes history.
func (l *Log) Commit(position uint64) error { return l.journal.commit(position, &l.history) }

// Revert implements ledger.Replayed.
func (l *Log) Revert(position uint64) {
	for l.journal.end() > position {
		switch c := l.journal.pop(); c.kind {
		case changedInputs:
			l.hosting.Inputs--
		case changedWoken:
			l.hosting.woken = c.number
		case changedResults:
			l.hosting.Results = c.before
		case changedSkips:
			l.hosting.skips--
		case changedSwitch:
			*c.sw = c.was
		case changedGeneration:
			l.hosting, l.switches = c.old.hosting, c.old.switches
		}
	}
}

// Freeze implements ledger.Replayed.
func (l *Log) Freeze() iter.Seq[[]byte] {
	if l.hosting.Generation == 0 {
		return func(func([]byte) bool) {}
	}
	first, history := l.appendHosting(nil), l.history.freeze()
	return func(yield func([]byte) bool) {
		if yield(first) {
			history(yield)
		}
	}
}

// Hosting returns what is known of the hosted applications.
func (l *Log) Hosting() Hosting { return l.hosting }

// MustBegin reports whether the applications of this controller are to Begin: the log's are other ones, or more of
// their inputs were skipped than the log keeps in mind.
func (l *Log) MustBegin() bool {
	return l.identity != "" && (l.hosting.Identity != l.identity || l.hosting.skips >= maxSkipped)
}

// Committed is what is committed of the hosted applications.
type Committed struct {
	Generation uint64
	Input      uint64 // number of the last
	Result     uint64 // number of the last input whose result is logged
	Skipped    int    // how many inputs no host is to execute
}

// Committed returns how far the hosted applications are committed.
func (l *Log) Committed() Committed {
	h := &l.history
	return Committed{h.generation, h.last(), h.results(), len(h.skipped)}
}

// Inputs returns committed inputs, from a number on: at most count, and one beyond size bytes, as they stand in an
// INPUTS frame. They may be read for good, by any goroutine.
func (l *Log) Inputs(number uint64, count, size int) (data []byte, n int, err error) {
	return l.history.inputs(number, count, size)
}

// Digest returns that of a committed result.
func (l *Log) Digest(number uint64) (uint32, bool) { return l.history.digest(number) }

// Checkpoint returns from where a host can be built: its state after an input, or 0 and nothing: from the beginning.
func (l *Log) Checkpoint() (number uint64, state []byte) { return l.history.base, l.history.state }

// Trim keeps the state of a host after an input, and forgets that input and those before, at this controller and
// in its snapshots. The caller has proved that a host goes on from there as one that executed all of them.
func (l *Log) Trim(number uint64, state []byte) {
	if h := &l.history; number > h.base && number <= h.results() {
		h.trim(number, state)
	}
}

// HistoryBytes returns the memory that the history takes.
func (l *Log) HistoryBytes() int { return l.history.size() }
