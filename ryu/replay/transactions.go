package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// wakeTimer is the timer of the replayed applications in the ledger.
const wakeTimer = "wake"

// maxFailures bounds the failures of one result that are logged.
const maxFailures = 64

// Begin restarts the applications at every controller with an empty state.
func (l *Log) Begin(seed uint64) {
	if l.identity != "" {
		l.begin(seed)
	}
}

// begin logs that the applications of this controller begin, or, if it has none, that those of the log end.
func (l *Log) begin(seed uint64) {
	l.transact(Record{Kind: Begin, Seed: seed, Identity: []byte(l.identity)},
		func(tx *ledger.Tx) { tx.CancelTimer(wakeTimer) })
}

// transact begins a transaction with a record; see ledger.Core.Transact.
func (l *Log) transact(r Record, do func(*ledger.Tx)) bool {
	l.scratch = r.append(l.scratch[:0])
	return l.ledger.Transact(l.scratch, do)
}

// Request adds an HTTP request, encoded by wire.HTTPRequest.Append, as an input for the applications, and returns its
// number. It returns 0 if there are no replayed applications, if it is not a request, or if it is too large for an
// entry. The caller has checked the ledger's Room.
func (l *Log) Request(request []byte) uint64 {
	return l.ask(wire.Input{Kind: wire.Request, Request: request}, Record{Kind: Request, Request: request})
}

// Files adds configuration files, encoded by wire.FileSet.Append, as Request adds a request.
func (l *Log) Files(files []byte) uint64 {
	return l.ask(wire.Input{Kind: wire.Files, Files: files}, Record{Kind: Files, Files: files})
}

// Stir adds a Timer as an input. The caller has checked the ledger's Room.
func (l *Log) Stir() {
	if l.hosting.on() {
		l.transact(Record{Kind: Stir}, nil)
	}
}

// ask logs the record of an input that hosts answer.
func (l *Log) ask(in wire.Input, r Record) uint64 {
	_, rest, err := wire.ParseInput(in.Append(nil))
	if !l.hosting.on() || err != nil || len(rest) > 0 || !l.transact(r, nil) {
		return 0
	}
	return l.hosting.Inputs
}

// Skip replaces an input that no host survives by a Timer, at all hosts. After 1,024 skips in a generation it does
// nothing, and MustBegin returns true.
func (l *Log) Skip(number uint64) {
	if h := &l.hosting; number > 0 && number <= h.Inputs && h.skips < maxSkipped {
		l.transact(Record{Kind: Skip, Number: number}, nil)
	}
}

// ResultRoom reports whether Result can be called now. If not, calls of Cut and Commit make room. It differs from Room,
// which inputs that wait for results may have used up.
func (l *Log) ResultRoom() bool { return l.identity != "" && l.ledger.TransactRoom() }

var errNotLeading = errors.New("replay: a result at a controller that does not lead")

// Result logs the result of an input at this leader's host: one transaction for each, in order. Its commands are for
// the epochs that the switches had at that input. If they are too many for an entry, none of them is sent.
func (l *Log) Result(r *wire.Result) error {
	h, done := &l.hosting, &l.history
	_, leading := l.ledger.Leading()
	switch {
	case !leading || l.identity == "":
		return errNotLeading
	case h.Generation != done.generation:
		return fmt.Errorf("replay: result of input %d of generation %d, and generation %d has begun", r.Number,
			done.generation, h.Generation)
	case r.Number != h.Results+1 || r.Number > done.last():
		return fmt.Errorf("replay: result of input %d, where %d is next and %d are committed", r.Number,
			h.Results+1, done.last())
	}
	record := Record{Kind: Result, Number: r.Number, Digest: r.Digest}
	if !l.transact(record, func(tx *ledger.Tx) { l.execute(tx, r) }) {
		return fmt.Errorf("replay: result of input %d: the ledger has no room for it", r.Number)
	}
	return nil
}

// execute adds the effects of a result to its transaction.
func (l *Log) execute(tx *ledger.Tx, r *wire.Result) {
	var failures []ledger.Failure
	err := tx.Try(func() error {
		failures = l.send(tx, r)
		return nil
	})
	if err != nil {
		failures = []ledger.Failure{{App: Name, Err: fmt.Errorf("no command of input %d is sent: %w", r.Number, err)}}
	}
	for _, f := range r.Failures {
		failures = append(failures, ledger.Failure{App: cmp.Or(f.App, Name), Err: errors.New(lastLine(f.Traceback)),
			Stack: []byte(f.Traceback)})
	}
	if r.Number >= l.hosting.woken { // otherwise a Timer is on its way to the host, and its result sets the next timer
		if err := wake(tx, r.Wake); err != nil {
			failures = append(failures, ledger.Failure{App: Name, Err: err})
		}
	}
	for _, f := range failures[:min(len(failures), maxFailures)] {
		f.Input = ledger.Input{Kind: ledger.ReplayedInput, Seq: r.Number}
		tx.Fail(f)
	}
}

// send sends the commands of a result, and returns the failures.
func (l *Log) send(tx *ledger.Tx, r *wire.Result) (failures []ledger.Failure) {
	var list []sent
	for i := range r.Commands {
		cmd := &r.Commands[i]
		xid, err := l.command(tx, r.Number, cmd)
		switch {
		case err == nil && xid != 0:
			list = append(list, sent{cmd.Switch, xid, openflow.XID(cmd.Message)})
		case err != nil && len(failures) < maxFailures:
			failures = append(failures, ledger.Failure{App: Name, Err: err})
		}
	}
	if len(list) > 0 {
		l.scratch = (&Record{Kind: Asked, asked: appendAsked(nil, list)}).append(l.scratch[:0])
		tx.Record(l.scratch)
	}
	return failures
}

// reservedCommands are messages that an application may not send: those of the handshake, and those about roles.
var reservedCommands = []uint8{openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply,
	of13.TypeRoleRequest}

// command sends a command and returns its xid, or 0 if it was not sent.
func (l *Log) command(tx *ledger.Tx, number uint64, cmd *wire.Command) (xid uint32, err error) {
	if sw := l.switches[cmd.Switch]; sw != nil && number < sw.born {
		return 0, nil // that epoch of the switch has ended
	}
	h, err := openflow.ParseHeader(cmd.Message)
	switch {
	case err == nil && (h.Version != openflow.Version13 || slices.Contains(reservedCommands, h.Type)):
		return 0, fmt.Errorf("switch %s: an application may not send a message of type %d, version %d: roles and "+
			"connections are Holdfast's, and it speaks OpenFlow 1.3", cmd.Switch, h.Type, h.Version)
	case err == nil && h.Type == of13.TypeSetAsync:
		return 0, nil // dropped: the switch sends all asynchronous messages already, and standbys rely on that
	}
	return tx.SendBytes(cmd.Switch, cmd.Message)
}

// lastLine returns the last line of a traceback, which names the exception.
func lastLine(trace string) string {
	lines := bytes.Split(bytes.TrimSpace([]byte(trace)), []byte("\n"))
	return string(lines[len(lines)-1])
}

// wake sets the applications' timer to a ledger time, unless it is set to that, or both are in the past. Otherwise a
// permanent stream of results would postpone it for ever.
func wake(tx *ledger.Tx, at int64) error {
	now := tx.Now().UnixNano()
	due, set := tx.Timer(wakeTimer)
	old := due.UnixNano()
	switch {
	case at < 0:
		tx.CancelTimer(wakeTimer)
	case !set || old != at && max(old, at) > now+1:
		return tx.SetTimer(wakeTimer, time.Duration(at-now), nil)
	}
	return nil
}
