package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/ryuhost/wire"
)

// Hosted is an Application that the ledger does not run (Ravana, sections 5 and 6.1): on each controller a host executes the
// committed inputs in the order of the log, see Inputs, and what the leader's host did becomes a transaction of its
// own, see Result. Handle is not called. There is one at most.
type Hosted interface {
	Application
	// Identity is equal at two controllers exactly if their hosts would execute the same programs.
	Identity() string
}

// hostedWindow bounds the inputs that wait for the leader's host: then there is no Room.
const hostedWindow = 4096

// wakeTimer is the timer of a hosted application.
const wakeTimer = "wake"

// Hosting is what the ledger knows of the hosted application. While leading it is ahead of what is committed.
type Hosting struct {
	Generation uint64 // how often the application has begun; 0 is never
	Identity   string // of what began
	Seed       uint64 // for what is random
	Began      int64  // ledger time, ns
	Inputs     uint64 // number of the last input of the generation
	Results    uint64 // number of the last input whose result is in the log

	app       string
	tag, apps uint8  // the application's place, plus 1, and how many there are: whose the xids are
	woken     uint64 // number of the last Timer
}

// Hosting returns what is known of the hosted application.
func (c *Core) Hosting() Hosting { return c.state.hosting }

// Unhosted reports whether the log's hosted application is not the one of this Core, so that it is to Begin.
func (c *Core) Unhosted() bool {
	if c.hosted < 0 {
		return false
	}
	h, a := &c.state.hosting, c.apps[c.hosted].(Hosted)
	return h.Generation == 0 || h.app != a.Name() || h.Identity != a.Identity() || int(h.tag) != c.hosted+1 || int(h.apps) != len(c.apps)
}

// Begin has the hosted application begin anew at every controller, as if all had just been started: what it knew is gone.
func (c *Core) Begin(seed uint64) {
	if !c.leading || c.hosted < 0 {
		return
	}
	h := Hosting{Identity: c.apps[c.hosted].(Hosted).Identity(), Seed: seed, app: c.apps[c.hosted].Name(), tag: uint8(c.hosted + 1), apps: uint8(len(c.apps))}
	b := c.beginTransaction()
	b.buf = h.append(append(b.buf, byte(OpBegin)))
	for _, sw := range c.state.switches {
		b.undo = append(b.undo, undo{kind: undoBorn, sw: sw, position: sw.born})
	}
	c.begun(h)
	c.tx = Tx{c: c, app: c.hosted}
	c.tx.CancelTimer(wakeTimer)
	c.finish()
}

func (c *Core) begun(h Hosting) {
	h.Generation, h.Began = c.state.hosting.Generation+1, c.feedTime()
	c.state.hosting = h
	c.fed().add(fedBegin, h.Generation, 0)
	c.feedTimer() // whose result says when the first timer is wanted
	for _, sw := range sortedSwitches(c.state.switches) {
		sw.born = 0
		if sw.live && sw.reachable {
			c.feedUp(sw)
		}
	}
}

// Request gives the hosted application an HTTP request, as wire.HTTPRequest.Append makes it, and returns the number of that input.
func (c *Core) Request(request []byte) uint64 {
	b := c.beginTransaction()
	b.buf = appendBytes(append(b.buf, byte(OpRequest)), request)
	c.feed(wire.Input{Kind: wire.Request, Request: request})
	c.finish()
	return c.state.hosting.Inputs
}

// Skip has all hosts do nothing but a Timer at an input that none of them survives.
func (c *Core) Skip(number uint64) {
	b := c.beginTransaction()
	b.buf = binary.AppendUvarint(append(b.buf, byte(OpSkip)), number)
	b.fed.add(fedSkip, number, 0)
	c.finish()
}

// ResultRoom reports whether Result can be called now. When it cannot, Cut and Commit make room.
func (c *Core) ResultRoom() bool {
	return c.leading && c.hosted >= 0 && c.batch.inputs < c.limits.BatchInputs && len(c.batch.buf) < c.limits.BatchBytes/4
}

// Result executes what this leader's host did because of an input: one transaction for each, in order. Its commands are
// for the epochs that the switches had at that input.
func (c *Core) Result(r *wire.Result) error {
	h := &c.state.hosting
	if r.Number != h.Results+1 || r.Number > h.Inputs {
		return fmt.Errorf("ledger: result of hosted input %d, where %d of %d is next", r.Number, h.Results+1, h.Inputs)
	}
	b := c.beginTransaction()
	b.buf = binary.AppendUvarint(append(b.buf, byte(OpResult)), r.Number)
	b.buf = binary.AppendUvarint(b.buf, uint64(r.Digest))
	h.Results = r.Number
	b.fed.add(fedResult, r.Number, r.Digest)
	c.tx = Tx{c: c, app: c.hosted, tag: uint32(h.tag) << tagShift}
	for i := range r.Commands {
		if err := c.hostedCommand(r.Number, &r.Commands[i]); err != nil {
			c.hostedFailure(r.Number, h.app, err, nil)
		}
	}
	for _, f := range r.Failures {
		name := f.App
		if name == "" {
			name = h.app
		}
		c.hostedFailure(r.Number, name, errors.New(lastLine(f.Traceback)), []byte(f.Traceback))
	}
	if r.Number >= h.woken { // else a timer is on its way to the host, which will say when the next is to come
		c.wake(r.Wake)
	}
	c.finish()
	return nil
}

// reservedCommand are messages that an application may not send: they say which controller is master.
var reservedCommand = []uint8{0 /* HELLO */, 2 /* ECHO_REQUEST */, 3 /* ECHO_REPLY */, 24 /* ROLE_REQUEST */, 28 /* SET_ASYNC */}

func (c *Core) hostedCommand(number uint64, cmd *wire.Command) error {
	sw := c.state.find(cmd.Switch)
	if sw == nil || !sw.live || number < sw.born {
		return nil // that incarnation of the switch is gone
	}
	if h, err := openflow.ParseHeader(cmd.Message); err != nil || slices.Contains(reservedCommand, h.Type) {
		return fmt.Errorf("switch %s: an application may not send a message of type %d: roles and connections are Holdfast's", cmd.Switch, h.Type)
	}
	xid, err := c.tx.SendBytes(cmd.Switch, cmd.Message)
	if err == nil && xid != 0 {
		sw.ask(openflow.XID(cmd.Message))
		c.batch.buf = binary.AppendUvarint(append(c.batch.buf, byte(OpAsked)), uint64(openflow.XID(cmd.Message)))
	}
	return err
}

func (c *Core) hostedFailure(number uint64, name string, err error, trace []byte) {
	text := err.Error()
	c.batch.buf = appendString(appendString(append(c.batch.buf, byte(OpFailure)), name), text[:min(len(text), 1024)])
	c.counters.Failures++
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, Failure{App: name, Input: Input{Kind: HostedInput, Seq: number}, Err: err, Stack: bytes.Clone(trace)})
	}
}

// lastLine is where a traceback says what was raised.
func lastLine(trace string) string {
	lines := bytes.Split(bytes.TrimSpace([]byte(trace)), []byte("\n"))
	return string(lines[len(lines)-1])
}

// wake sets the hosted application's timer to a ledger time, unless it is set to that.
func (c *Core) wake(at int64) {
	old, set := c.state.timers[timerName{c.state.hosting.app, wakeTimer}]
	switch {
	case at < 0:
		c.tx.CancelTimer(wakeTimer)
	case !set || old.due != max(at, c.batch.time+1) && old.due != at:
		if err := c.tx.SetTimer(wakeTimer, time.Duration(at-c.batch.time), nil); err != nil {
			c.hostedFailure(c.state.hosting.Results, c.state.hosting.app, err, nil)
		}
	}
}

// feedEvent is called when an event of a switch was executed or applied.
func (c *Core) feedEvent(sw *switchState, msg []byte) {
	if c.state.hosting.Generation == 0 {
		return
	}
	special, ours := experimenter.Is(msg)
	switch {
	case ours && special == experimenter.TypeSwitchUp:
		c.feedUp(sw)
	case ours && special == experimenter.TypeSwitchDown:
		c.feed(wire.Input{Kind: wire.Down, Switch: sw.id})
	case !ours:
		c.feedMessage(sw, msg)
	}
}

// feedUp says that a switch is there: for the first time in its epoch or generation, or again.
func (c *Core) feedUp(sw *switchState) {
	hello, err := experimenter.ParseSwitchUp(sw.hello)
	if err != nil {
		return // the applications were told, and it is down to this one
	}
	c.feed(wire.Input{Kind: wire.Up, Switch: sw.id, Features: hello.Features, Ports: hello.Ports})
	if sw.born == 0 {
		sw.born = c.state.hosting.Inputs
	}
}

// feedMessage leaves out what answers another application, and gives an answer the xid of its question.
func (c *Core) feedMessage(sw *switchState, msg []byte) {
	if len(msg) >= openflow.HeaderLen && !asynchronous(msg[1]) {
		h := &c.state.hosting
		xid := openflow.XID(msg)
		switch tag := uint8(xid >> tagShift & maxApps); {
		case tag == h.tag:
			if asked, ok := sw.askedAs(xid); ok {
				msg = bytes.Clone(msg)
				openflow.SetXID(msg, asked)
			}
		case tag > 0 && tag <= h.apps:
			return
		}
	}
	c.feed(wire.Input{Kind: wire.Message, Switch: sw.id, Message: msg})
}

// feed numbers an input.
func (c *Core) feed(in wire.Input) {
	h := &c.state.hosting
	if h.Generation == 0 {
		return
	}
	h.Inputs++
	in.Number, in.Time = h.Inputs, c.feedTime()
	f := c.fed()
	f.buf = in.Append(f.buf)
	f.add(fedInput, in.Number, 0)
}

// feedTimer tells the hosted application, and nobody else, of the time.
func (c *Core) feedTimer() {
	c.feed(wire.Input{Kind: wire.Timer})
	c.state.hosting.woken = c.state.hosting.Inputs
}

// feedTime is the ledger time of the present entry.
func (c *Core) feedTime() int64 {
	if c.leading {
		return c.batch.time
	}
	return c.applying
}

// fed is where what concerns the hosted application waits until it is committed.
func (c *Core) fed() *fed {
	if c.leading {
		return &c.batch.fed
	}
	return &c.followed
}

// fed is a part of the history that comes with an entry.
type fed struct {
	buf []byte // of inputs
	ops []fedOp
}

type fedOp struct {
	kind   fedKind
	number uint64
	digest uint32
	end    int // of an input, in buf
}

type fedKind uint8

const (
	fedInput fedKind = iota
	fedResult
	fedSkip
	fedBegin
)

func (f *fed) add(kind fedKind, number uint64, digest uint32) {
	f.ops = append(f.ops, fedOp{kind, number, digest, len(f.buf)})
}

// keep takes what an entry has for the hosted application into the history.
func (c *Core) keep(f *fed) {
	from := 0
	for _, op := range f.ops {
		switch op.kind {
		case fedInput:
			c.state.history.append(op.number, f.buf[from:op.end])
			from = op.end
		case fedResult:
			c.state.history.result(op.number, op.digest)
		case fedSkip:
			c.state.history.skip(op.number)
		case fedBegin:
			c.state.history = newHistory()
			c.state.history.generation = op.number
		}
	}
	f.buf, f.ops = f.buf[:0], f.ops[:0]
}

// asked is the xid that the hosted application gave a command.
type asked struct{ seq, xid uint32 }

// maxAsked bounds the newest commands of a switch whose answers get the application's xid back.
const maxAsked = 8192

// ask notes the xid of the last command to a switch.
func (sw *switchState) ask(xid uint32) {
	if len(sw.asked) >= 4*maxAsked {
		sw.asked = slices.Clone(sw.asked[len(sw.asked)-2*maxAsked:])
	}
	sw.asked = append(sw.asked, asked{uint32(sw.queue.next - 1), xid})
}

// unask takes back the note of a command, if there is one.
func (sw *switchState) unask(seq uint64) {
	if n := len(sw.asked); n > 0 && sw.asked[n-1].seq == uint32(seq) {
		sw.asked = sw.asked[:n-1]
	}
}

func (sw *switchState) askedAs(xid uint32) (uint32, bool) {
	newest := sw.asked[max(0, len(sw.asked)-maxAsked):]
	for i := len(newest) - 1; i >= 0; i-- {
		if newest[i].seq&sequenceMask == xid&sequenceMask {
			return newest[i].xid, true
		}
	}
	return 0, false
}

func (h *Hosting) waiting() uint64 { return h.Inputs - h.Results }

// feedReachable is called when a switch was found to be, or not to be, within reach.
func (c *Core) feedReachable(sw *switchState) {
	if sw.reachable {
		if c.state.hosting.Generation > 0 {
			c.feedUp(sw)
		}
		return
	}
	c.feed(wire.Input{Kind: wire.Down, Switch: sw.id})
}

// applyHosted is what a record of another leader's entry means to the hosted application.
func (c *Core) applyHosted(r *Record) {
	h := &c.state.hosting
	switch r.Op {
	case OpEvent:
		c.feedEvent(c.state.sw(r.Switch), r.Bytes)
	case OpUnreachable, OpReachable:
		c.feedReachable(c.state.sw(r.Switch))
	case OpCloseEpoch:
		c.feed(wire.Input{Kind: wire.Down, Switch: r.Switch})
	case OpTimer:
		if h.Generation > 0 && r.App == h.app {
			c.feedTimer()
		}
	case OpRequest:
		c.feed(wire.Input{Kind: wire.Request, Request: r.Bytes})
	case OpBegin:
		c.begun(*r.Hosting)
	case OpResult:
		h.Results = r.Seq
		c.followed.add(fedResult, r.Seq, uint32(r.Epoch))
	case OpSkip:
		c.followed.add(fedSkip, r.Seq, 0)
	}
}
