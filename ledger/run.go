package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// run passes the present input, of a switch, to the applications that handle it, and then the messages that they emit.
func (c *Core) run() {
	if c.sample != nil {
		in := &c.input
		in.source = c.switchTally(c.state.sw(in.Switch))
		c.sample.Event(in.source)
	}
	c.dispatch()
	c.runEmitted()
}

func (c *Core) runEmitted() {
	if len(c.emitted) == 0 {
		return
	}
	for i := 0; i < len(c.emitted) && !c.held; i++ {
		c.input = c.emitted[i]
		c.dispatch()
	}
	clear(c.emitted)
	c.emitted, c.input = c.emitted[:0], Input{}
}

// finish ends a transaction. It closes the epochs of switches whose command queues have overflowed, or that hold most
// if all together hold too much.
func (c *Core) finish() {
	c.patient = false
	if c.held {
		return // the transaction will be undone
	}
	c.counters.Transactions++
	c.relieveCrowd()
	for len(c.stalled) > 0 {
		sw := c.stalled[0]
		c.stalled = c.stalled[1:]
		if sw.live {
			c.closeEpoch(sw)
		}
	}
	c.stalled = nil
	if c.sample != nil || len(c.exceptions) > 0 {
		c.commitTally()
	}
	c.countAll()
}

func (c *Core) dispatch() {
	in := &c.input
	if in.Kind == Message {
		switch app, answers := c.asker(in.Message); {
		case answers && c.answer(c.state.sw(in.Switch), in):
			return // it was for another group
		case answers && app < 0:
			return // it is for the replayed application
		case answers:
			if message.Refusal(in.Message) {
				// A copy: what the application sends may move what the queue has.
				in.Command = bytes.Clone(c.state.sw(in.Switch).find(openflow.XID(in.Message)))
			}
			c.call(app)
			return
		}
	}
	if app, alone := c.receiver(in); alone {
		if app >= 0 {
			c.call(app)
		}
		return
	}
	for _, i := range c.audience.of(in) {
		if c.held {
			return
		}
		c.call(i)
	}
}

// receiver returns the application that alone handles an input; -1 if it does not run here.
func (c *Core) receiver(in *Input) (app int, alone bool) {
	if in.exact {
		return c.appOf(in.to.App), true
	}
	if in.Kind != Emitted || len(c.answerers) == 0 {
		return 0, false
	}
	app, alone = c.answerers[in.Name]
	return app, alone
}

// asker returns the application that sent the request which a message of a switch answers. -1 is the replayed
// application.
func (c *Core) asker(msg []byte) (app int, ok bool) {
	tag := message.Asker(msg)
	if tag == message.Replayed {
		return -1, c.replayed != nil
	}
	return int(tag) - 1, tag > 0 && int(tag) <= len(c.apps)
}

// appOf returns the index of an application; -1 if it is not among those of this ledger.
func (c *Core) appOf(name string) int {
	return slices.IndexFunc(c.apps, func(a Application) bool { return a.Name() == name })
}

// call runs one application on c.input. If it fails its changes are undone, and it returns why.
func (c *Core) call(app int) error {
	c.reply, c.failure, c.keeps = nil, nil, false
	err := c.attempt(app)
	if c.input.Kind == Called && !c.held && (err != nil || !c.keeps) {
		c.answerCall(cmp.Or(err, c.failure))
	}
	return err
}

func (c *Core) attempt(app int) error {
	if len(c.state.suspended) > 0 {
		a := Actor{c.apps[app].Name(), c.input.at}
		if s, is := c.state.suspended[a]; is && s.early {
			return c.refuse(app, a, s)
		}
	}
	c.tx.begin(c, app)
	m := &c.tx.begun
	noted := c.turn()
	c.tx.resume(true)
	stack, err := c.protect(app)
	c.tx.pause()
	c.tx.endTimed()
	noted(err)
	if err == nil {
		err = c.flush()
	}
	b := &c.batch
	n := b.size()
	if c.tx.bestEffort != nil {
		n += len(c.tx.bestEffort.buf)
	}
	if err == nil {
		err = c.tooLarge(n)
	}
	if err == nil {
		c.wake(b.undo[m.undo:])
		if len(c.leaving) > 0 {
			c.changed(b.undo[m.undo:])
		}
		if len(c.passed) > 0 {
			c.runPassed(app)
		}
		return nil
	}
	c.crossings.reset()
	c.passed = nil
	err = errors.Join(err, c.tx.rewind(*m))
	c.undoTally(m.tally)
	if c.held {
		return err
	}
	c.tx.countFailure()
	f := Failure{App: c.apps[app].Name(), Input: c.input, Err: err, Stack: stack}
	f.Input.Message, f.Input.Command = nil, nil
	c.logFailure(f)
	return err
}

// tooLarge returns an error if a transaction makes the entry, of n bytes, too large.
func (c *Core) tooLarge(n int) error {
	if n <= c.limits.EntryBytes {
		return nil
	}
	return fmt.Errorf("the entry of this transaction has %d bytes, %d are possible: do less at a time, with timers", n,
		c.limits.EntryBytes)
}

func (c *Core) savepoint(m *savepoint) {
	b := &c.batch
	m.buf, m.undo, m.tables, m.emitted, m.stalled = len(b.buf), len(b.undo), len(b.tables), len(c.emitted),
		len(c.stalled)
	m.waits, m.replayed, m.observed, m.old = b.waits, c.replayedPosition(), len(b.observed), b.old.n
	m.exceptions, m.replaced = len(c.exceptions), b.replaced
}

// rewind undoes the changes of an application in this transaction since m.
func (c *Core) rewind(m savepoint) error {
	b := &c.batch
	err := c.state.revert(b.undo[m.undo:])
	b.restorePuts(m)
	for _, u := range b.undo[m.undo:] {
		if u.kind == undoTimer && u.existed {
			c.schedule(u.timer.due, u.timer.name) // the heap may have been rebuilt without it
		}
	}
	clear(b.undo[m.undo:])
	b.undo, b.buf, b.waits, b.observed = b.undo[:m.undo], b.buf[:m.buf], m.waits, b.observed[:m.observed]
	b.old.cut(m.old)
	b.stamp, b.replaced = c.newStamp(), m.replaced
	c.deltas.forgetCommands()
	b.forgetTables(m.tables)
	c.emitted, c.stalled = c.emitted[:m.emitted], c.stalled[:m.stalled]
	c.exceptions = c.exceptions[:m.exceptions]
	c.revertReplayed(m.replayed)
	return err
}

// logFailure records the failure of an application in the log, and keeps it for Failures.
func (c *Core) logFailure(f Failure) {
	c.logFailed(f.App, f.Err)
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, f)
	}
}

func (c *Core) logFailed(app string, err error) {
	text := err.Error()
	c.batch.buf = appendString(appendString(append(c.batch.buf, byte(OpFailure)), app[:min(len(app), 1024)]),
		text[:min(len(text), 1024)])
	c.counters.Failures++
}

// protect runs an application on the present input.
func (c *Core) protect(app int) (stack []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			stack, err = debug.Stack(), fmt.Errorf("panic: %v", r)
		}
	}()
	return nil, c.apps[app].Handle(&c.tx, &c.input)
}
