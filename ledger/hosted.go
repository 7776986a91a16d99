package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Hosted is an Application that the ledger does not run (Ravana, sections 5 and 6.1): on each controller a host
// executes the committed inputs in the order of the log, see Inputs, and what the leader's host did becomes a
// transaction of its own, see Result. Handle is not called. There is one at most.
type Hosted interface {
	Application
	// Identity is equal at two controllers exactly if their hosts would execute the same programs.
	Identity() string
}

// hostedWindow bounds the inputs that wait for the leader's host: then there is no Room.
const hostedWindow = 4096

// wakeTimer is the timer of a hosted application.
const wakeTimer = "wake"

// maxSkipped bounds the inputs of a generation that no host is to execute: then the application is to Begin.
const maxSkipped = 1024

// Hosting is what the ledger knows of the hosted application. While leading it is ahead of what is committed.
type Hosting struct {
	Generation uint64 // how often the application has begun; 0 is never
	Identity   string // of what began
	Seed       uint64 // for what is random
	Began      int64  // ledger time, ns
	Inputs     uint64 // number of the last input of the generation
	Results    uint64 // number of the last input whose result is in the log

	app       string
	tag, apps uint8  // the application's place, plus 1, and how many there are: whose the xids are; 0: there is none
	woken     uint64 // number of the last Timer
	skips     uint64 // inputs of the generation that no host is to execute
}

func (h *Hosting) on() bool        { return h.tag > 0 }
func (h *Hosting) waiting() uint64 { return h.Inputs - h.Results }

// Hosting returns what is known of the hosted application.
func (c *Core) Hosting() Hosting { return c.state.hosting }

// MustBegin reports whether this Core's hosted application is to Begin: the log's is another one, or more of its inputs
// were skipped than the log keeps in mind.
func (c *Core) MustBegin() bool {
	if c.hosted < 0 {
		return false
	}
	h, a := &c.state.hosting, c.apps[c.hosted].(Hosted)
	return h.app != a.Name() || h.Identity != a.Identity() || int(h.tag) != c.hosted+1 || int(h.apps) != len(c.apps) ||
		h.skips >= maxSkipped
}

// Begin has the hosted application begin anew at every controller, as if all had just been started: what it knew is
// gone.
func (c *Core) Begin(seed uint64) {
	if c.leading && c.hosted >= 0 {
		a := c.apps[c.hosted].(Hosted)
		c.host(Hosting{Identity: a.Identity(), Seed: seed, app: a.Name(), tag: uint8(c.hosted + 1),
			apps: uint8(len(c.apps))})
	}
}

// host logs that h begins. If nothing does, what was hosted ends, and nothing waits for its results.
func (c *Core) host(h Hosting) {
	b := c.beginTransaction()
	b.buf = h.append(append(b.buf, byte(OpBegin)))
	for _, sw := range c.state.switches {
		b.undoHosted(sw)
	}
	before := c.state.hosting.app
	c.begun(h)
	c.cancelTimer(timerName{before, wakeTimer})
	c.cancelTimer(timerName{h.app, wakeTimer})
	c.finish()
}

func (c *Core) begun(h Hosting) {
	h.Generation, h.Began = c.state.hosting.Generation+1, c.feedTime()
	c.state.hosting = h
	c.fed().add(fedBegin, h.Generation, 0)
	c.feedTimer() // whose result says when the first timer is wanted
	for _, sw := range sortedSwitches(c.state.switches) {
		sw.born, sw.asked = 0, nil
		if sw.live && sw.reachable {
			c.feedUp(sw)
		}
	}
}

// Request gives the hosted application an HTTP request, as wire.HTTPRequest.Append makes it, and returns the number of
// that input. 0: there is none, since nothing is hosted, or it is not a request, or too large for an entry. The
// caller has asked Room.
func (c *Core) Request(request []byte) uint64 {
	in := wire.Input{Kind: wire.Request, Request: request}
	_, rest, err := wire.ParseInput(in.Append(nil))
	if !c.leading || !c.state.hosting.on() || err != nil || len(rest) > 0 ||
		len(c.batch.buf)+len(request) > c.limits.EntryBytes {
		return 0
	}
	b := c.beginTransaction()
	b.buf = appendBytes(append(b.buf, byte(OpRequest)), request)
	c.feed(in)
	c.finish()
	return c.state.hosting.Inputs
}

// Skip has all hosts do nothing but a Timer at an input that none of them survives. After 1,024 of a generation it does
// nothing, and MustBegin says so: the application has to begin without them.
func (c *Core) Skip(number uint64) {
	h := &c.state.hosting
	if !c.leading || number == 0 || number > h.Inputs || h.skips >= maxSkipped {
		return
	}
	b := c.beginTransaction()
	b.buf = binary.AppendUvarint(append(b.buf, byte(OpSkip)), number)
	h.skips++
	b.fed.add(fedSkip, number, 0)
	c.finish()
}

// ResultRoom reports whether Result can be called now. When it cannot, Cut and Commit make room. It is not Room: inputs
// that wait for results may have taken that. A quarter, since what one host sends at a time is to fit into the entry as
// well.
func (c *Core) ResultRoom() bool {
	return c.leading && c.hosted >= 0 && c.batch.inputs < c.limits.BatchInputs &&
		len(c.batch.buf) < c.limits.BatchBytes/4
}

// Result executes what this leader's host did because of an input: one transaction for each, in order. Its commands are
// for the epochs that the switches had at that input. If they are too many for an entry, none of them is sent.
func (c *Core) Result(r *wire.Result) error {
	h, done := &c.state.hosting, &c.state.history
	switch {
	case !c.leading || c.hosted < 0:
		return errNotLeading
	case h.Generation != done.generation:
		return fmt.Errorf("ledger: result of hosted input %d of generation %d, and generation %d has begun", r.Number,
			done.generation, h.Generation)
	case r.Number != h.Results+1 || r.Number > done.last():
		return fmt.Errorf("ledger: result of hosted input %d, where %d is next and %d are committed", r.Number,
			h.Results+1, done.last())
	}
	b := c.beginTransaction()
	b.buf = binary.AppendUvarint(append(b.buf, byte(OpResult)), r.Number)
	b.buf = binary.AppendUvarint(b.buf, uint64(r.Digest))
	h.Results = r.Number
	b.fed.add(fedResult, r.Number, r.Digest)
	c.tx = Tx{c: c, app: c.hosted, tag: uint32(h.tag) << tagShift}
	failures := c.hostedCommands(r)
	for _, f := range r.Failures {
		failures = append(failures, Failure{App: cmp.Or(f.App, h.app), Err: errors.New(lastLine(f.Traceback)),
			Stack: []byte(f.Traceback)})
	}
	if r.Number >= h.woken { // else a timer is on its way to the host, which will say when the next is to come
		if err := c.wake(r.Wake); err != nil {
			failures = append(failures, Failure{App: h.app, Err: err})
		}
	}
	for _, f := range failures[:min(len(failures), maxFailures)] {
		f.Input = Input{Kind: HostedInput, Seq: r.Number}
		c.logFailure(f)
	}
	c.finish()
	return nil
}

// hostedCommands sends those of a result, and returns what failed of that.
func (c *Core) hostedCommands(r *wire.Result) (failures []Failure) {
	m, app := c.mark(), c.state.hosting.app
	for i := range r.Commands {
		if err := c.hostedCommand(r.Number, &r.Commands[i]); err != nil && len(failures) < maxFailures {
			failures = append(failures, Failure{App: app, Err: err})
		}
	}
	if n := len(c.batch.buf); n > c.limits.EntryBytes {
		err := fmt.Errorf("the entry of these commands has %d bytes, %d are possible: none is sent; do less at a time",
			n, c.limits.EntryBytes)
		failures = []Failure{{App: app, Err: errors.Join(err, c.rewind(m))}}
	}
	return failures
}

// reservedCommands are messages that an application may not send: they make connections, and say which controller is
// master.
var reservedCommands = []uint8{openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply,
	of13.TypeRoleRequest}

func (c *Core) hostedCommand(number uint64, cmd *wire.Command) error {
	sw := c.state.find(cmd.Switch)
	if sw == nil || !sw.live || number < sw.born {
		return nil // that incarnation of the switch is gone
	}
	if h, err := openflow.ParseHeader(cmd.Message); err == nil && (h.Version != openflow.Version13 ||
		slices.Contains(reservedCommands, h.Type)) {
		return fmt.Errorf("switch %s: an application may not send a message of type %d, version %d: roles and "+
			"connections are Holdfast's, and it speaks OpenFlow 1.3", cmd.Switch, h.Type, h.Version)
	}
	if len(cmd.Message) > 1 && cmd.Message[1] == of13.TypeSetAsync {
		return nil // the switch sends everything already, and standbys rely on that
	}
	// each command is one of its own to the switch: applications expect the others to be done if it refuses one
	sw.transaction = 0
	xid, err := c.tx.SendBytes(cmd.Switch, cmd.Message)
	if err == nil && xid != 0 {
		sw.ask(openflow.XID(cmd.Message))
		c.batch.buf = binary.AppendUvarint(append(c.batch.buf, byte(OpAsked)), uint64(openflow.XID(cmd.Message)))
	}
	return err
}

// lastLine is where a traceback says what was raised.
func lastLine(trace string) string {
	lines := bytes.Split(bytes.TrimSpace([]byte(trace)), []byte("\n"))
	return string(lines[len(lines)-1])
}

// wake sets the hosted application's timer to a ledger time, unless it is set to that, or both are past: else results
// that come all the time would put it off for ever.
func (c *Core) wake(at int64) error {
	old, set := c.state.timers[timerName{c.state.hosting.app, wakeTimer}]
	switch {
	case at < 0:
		c.tx.CancelTimer(wakeTimer)
	case !set || old.due != at && max(old.due, at) > c.batch.time+1:
		return c.tx.SetTimer(wakeTimer, time.Duration(at-c.batch.time), nil)
	}
	return nil
}
