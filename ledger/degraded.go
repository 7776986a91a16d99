package ledger

import (
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A ledger that does not lead may run handlers all the same, if their application says so: its controller has led, and
// has lost the majority. They read the committed state. What they write, emit and set is undone at once, because the
// event is not logged: whoever leads next executes it. Only their commands leave, as best-effort commands.

// Degrader is an Application of which some handlers run without a majority.
type Degrader interface {
	Application
	// Degraded reports whether it has such handlers for a type of OpenFlow 1.3 message. They then run alone. It is
	// called once for each type.
	Degraded(typ uint8) bool
}

// degraded says which applications have handlers that run without a majority, by the type of the message.
type degraded [256][]int

// degradedOf returns nil if there are none.
func degradedOf(apps []Application) *degraded {
	var d degraded
	has := false
	for typ := range d {
		for i, a := range apps {
			if a, is := a.(Degrader); is && a.Degraded(uint8(typ)) {
				d[typ] = append(d[typ], i)
				has = true
			}
		}
	}
	if !has {
		return nil
	}
	return &d
}

// Degrades reports whether an application has handlers that run without a majority.
func (c *Core) Degrades() bool { return c.degraded != nil }

// Degrade runs the handlers that run without a majority on an event which is not in the log, and leaves the state as it
// was. Their commands to switches of this group are returned by Immediate. now is the caller's clock. It returns false
// if there is no such handler, if the event is of an epoch that the log does not have, or if this ledger leads.
func (c *Core) Degrade(now int64, id openflow.DatapathID, epoch, seq uint64, msg []byte) bool {
	sw := c.state.find(id)
	if c.leading || c.degraded == nil || sw == nil || epoch != sw.epoch || !sw.live || sw.has(epoch, seq) ||
		message.KindOf(msg) != message.Ordinary {
		return false
	}
	apps := c.degraded[message.Type(msg)]
	if len(apps) == 0 {
		return false
	}
	c.degrading = true
	c.clock = max(c.clock, now+c.offset)
	c.begin()
	c.beginTransaction()
	in := c.fromSwitch(Message, id)
	in.Epoch, in.Seq, in.Message = epoch, seq, msg
	for _, app := range apps {
		_ = c.call(app) // a failure is among Failures
	}
	if err := c.state.revert(c.batch.undo); err != nil {
		panic(err) // neither commands nor items are among it, and nothing else can fail
	}
	c.batch.forgetTables(0)
	clear(c.batch.undo)
	c.batch.old.reset()
	clear(c.emitted)
	c.free, c.batch = append(c.free[:0], c.batch), batch{}
	c.emitted, c.input, c.degrading = c.emitted[:0], Input{}, false
	return true
}

// Degraded reports whether the handler runs without a majority: see Core.Degrade.
func (tx *Tx) Degraded() bool { return tx.c.degrading }

// Logged returns the last event of a switch that is in the log; 0 if there is none. The ledger does not lead.
func (c *Core) Logged(id openflow.DatapathID) (epoch, seq uint64) {
	if sw := c.state.find(id); sw != nil && !c.leading {
		w := sw.logged()
		return w.epoch, w.seq
	}
	return 0, 0
}
