package ledger

import (
	"bytes"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// feedEvent is called when an event of a switch was executed or applied.
func (c *Core) feedEvent(sw *switchState, msg []byte) {
	if !c.state.hosting.on() {
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
		if c.leading {
			c.batch.undoHosted(sw)
		}
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
	if !h.on() {
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
func (c *Core) keep(f *fed) error {
	from := 0
	for _, op := range f.ops {
		var err error
		switch op.kind {
		case fedInput:
			err = c.state.history.append(op.number, f.buf[from:op.end])
			from = op.end
		case fedResult:
			err = c.state.history.result(op.number, op.digest)
		case fedSkip:
			c.state.history.skip(op.number)
		case fedBegin:
			c.state.history = newHistory()
			c.state.history.generation = op.number
		}
		if err != nil {
			return err
		}
	}
	f.buf, f.ops = f.buf[:0], f.ops[:0]
	return nil
}

// feedReachable is called when a switch was found to be, or not to be, within reach.
func (c *Core) feedReachable(sw *switchState) {
	switch {
	case !c.state.hosting.on():
	case sw.reachable:
		c.feedUp(sw)
	default:
		c.feed(wire.Input{Kind: wire.Down, Switch: sw.id})
	}
}

// applyHosted is what a record of another leader's entry means to the hosted application.
func (c *Core) applyHosted(r *Record) {
	h := &c.state.hosting
	if !h.on() && r.Op != OpBegin {
		return
	}
	switch r.Op {
	case OpEvent:
		c.feedEvent(c.state.sw(r.Switch), r.Bytes)
	case OpUnreachable, OpReachable:
		c.feedReachable(c.state.sw(r.Switch))
	case OpCloseEpoch:
		c.feed(wire.Input{Kind: wire.Down, Switch: r.Switch})
	case OpTimer:
		if r.App == h.app {
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
		h.skips++
		c.followed.add(fedSkip, r.Seq, 0)
	}
}
