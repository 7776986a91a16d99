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

// Name is the name of the replayed applications in the ledger: one for all programs of the host.
const Name = "ryu"

// window bounds the inputs that wait for the leader's host. Beyond it the ledger has no room for more.
const window = 4096

// maxSkipped bounds the skipped inputs of a generation. Beyond it the applications must Begin.
const maxSkipped = 1024

// Hosting is the state of the replayed applications in the log. At the leader it includes changes that are not
// committed.
type Hosting struct {
	Generation uint64 // how often applications have begun, or ended; 0 is never
	Identity   string // of the applications; empty if there are none, or they have ended
	Seed       uint64 // of random numbers
	Began      int64  // ledger time, ns
	Inputs     uint64 // number of the last input of the generation
	Results    uint64 // number of the last input whose result is in the log

	woken uint64 // number of the last Timer
	skips uint64 // number of skipped inputs of the generation
}

func (h *Hosting) on() bool        { return h.Identity != "" }
func (h *Hosting) waiting() uint64 { return h.Inputs - h.Results }

// Log is the replicated state of the replayed applications: a ledger.Replayed. Hosting and the switches follow the
// ledger, so at a leader they include changes that are not committed. The history contains committed inputs only.
type Log struct {
	ledger   *ledger.Core
	identity string // of the applications of this controller; empty if it has none

	hosting  Hosting
	switches map[openflow.DatapathID]*replayedSwitch
	journal  journal
	history  history
	scratch  []byte // buffer for a record
}

// replayedSwitch is the replicated state of a switch.
type replayedSwitch struct {
	born  uint64  // number of the input that began its epoch; 0 if hosts know none
	asked []asked // the applications' transaction ids of its newest commands
}

// NewLog adds the replayed applications to a ledger. Identity is equal at two controllers exactly if their hosts would
// execute the same programs. It is empty if this controller has no host. Such a controller keeps the log of those that
// have one. If it becomes leader it ends their applications, because there would be no results, and at last no room for
// inputs.
func NewLog(l *ledger.Core, identity string) (*Log, error) {
	log := &Log{ledger: l, identity: identity, switches: map[openflow.DatapathID]*replayedSwitch{},
		history: newHistory()}
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

// Present implements ledger.Replayed.
func (l *Log) Present() bool { return l.identity != "" }

// Active implements ledger.Replayed.
func (l *Log) Active() bool { return l.hosting.on() }

// Full implements ledger.Replayed.
func (l *Log) Full() bool { return l.hosting.waiting() >= window }

// Position implements ledger.Replayed.
func (l *Log) Position() uint64 { return l.journal.end() }

// Input implements ledger.Replayed. It makes an input for hosts, or none.
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

// up reports that a switch is up: for the first time in its epoch or generation, or again. hello is its SWITCH_UP.
func (l *Log) up(now int64, id openflow.DatapathID, hello []byte) {
	m, err := experimenter.ParseSwitchUp(hello)
	if err != nil {
		return // only for applications of the ledger; to hosts the switch is still down
	}
	l.feed(now, wire.Input{Kind: wire.Up, Switch: id, Features: m.Features, Ports: m.Ports})
	if l.sw(id).born == 0 {
		l.reborn(id, l.hosting.Inputs)
	}
}

func (l *Log) sw(id openflow.DatapathID) *replayedSwitch {
	sw := l.switches[id]
	if sw == nil {
		sw = &replayedSwitch{}
		l.switches[id] = sw
	}
	return sw
}

// reborn sets the input that began the epoch of a switch. Answers to earlier commands are no longer expected.
func (l *Log) reborn(id openflow.DatapathID, number uint64) {
	sw := l.sw(id)
	l.journal.add(change{kind: changedSwitch, sw: sw, was: *sw})
	*sw = replayedSwitch{born: number}
}

// message drops answers to applications of the ledger, and gives the other answers the xids of their requests.
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

// timer adds a Timer input.
func (l *Log) timer(now int64) {
	woken := l.hosting.woken
	l.feed(now, wire.Input{Kind: wire.Timer})
	l.hosting.woken = l.hosting.Inputs
	l.journal.add(change{kind: changedWoken, number: woken})
}

// feed adds an input with the next number.
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
		return fmt.Errorf("record of kind %d, and there are no replayed applications", r.Kind)
	}
	switch r.Kind {
	case Begin:
		l.begun(now, r.Seed, string(r.Identity))
	case Request:
		l.feed(now, wire.Input{Kind: wire.Request, Request: r.Request})
	case Files:
		l.feed(now, wire.Input{Kind: wire.Files, Files: r.Files})
	case Stir:
		l.timer(now)
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
	l.switches = map[openflow.DatapathID]*replayedSwitch{}
	if !l.hosting.on() {
		return
	}
	l.timer(now) // its result contains the time of the first timer
	for id, hello := range l.ledger.Up() {
		l.up(now, id, hello)
	}
}

// Commit implements ledger.Replayed. It moves changes to the history.
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

// Hosting returns the state of the replayed applications.
func (l *Log) Hosting() Hosting { return l.hosting }

// MustBegin reports whether the applications of this controller must Begin: the log has other ones, or too many of
// their inputs were skipped.
func (l *Log) MustBegin() bool {
	return l.identity != "" && (l.hosting.Identity != l.identity || l.hosting.skips >= maxSkipped)
}

// Committed is the committed part of the state of the replayed applications.
type Committed struct {
	Generation uint64
	Input      uint64 // number of the last
	Result     uint64 // number of the last input whose result is logged
	Skipped    int    // number of skipped inputs
}

// Committed returns how far the replayed applications are committed.
func (l *Log) Committed() Committed {
	h := &l.history
	return Committed{h.generation, h.last(), h.results(), len(h.skipped)}
}

// Inputs returns committed inputs from a number on: at most count, and at most one after size bytes, encoded as in an
// INPUTS frame. The result stays valid, and any goroutine may read it.
func (l *Log) Inputs(number uint64, count, size int) (data []byte, n int, err error) {
	return l.history.inputs(number, count, size)
}

// Digest returns the digest of a committed result.
func (l *Log) Digest(number uint64) (uint32, bool) { return l.history.digest(number) }

// Checkpoint returns the number of an input and the state of a host after it, from which a host can be built; or 0 and
// nil, if one is built from the beginning.
func (l *Log) Checkpoint() (number uint64, state []byte) { return l.history.base, l.history.state }

// Trim keeps the state of a host after an input, and deletes that input and those before, at this controller and in its
// snapshots. The caller has verified that a host that starts from the state gives the same results.
func (l *Log) Trim(number uint64, state []byte) {
	if h := &l.history; number > h.base && number <= h.results() {
		h.trim(number, state)
	}
}

// HistoryBytes returns the memory that the history takes.
func (l *Log) HistoryBytes() int { return l.history.size() }
