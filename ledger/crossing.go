package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/stream"
)

// crossings is what the present call of an application sends to other groups. It becomes items when the call succeeds.
type crossings struct {
	list []crossing
	buf  []byte // inputs as items, and messages
	item []byte // scratch
}

// crossing is an input, or the commands of this call to one switch.
type crossing struct {
	out    *outgoing
	epoch  uint64 // of the switch, as the sender knows it
	count  int    // of commands; 0 if it is an input
	pieces []span // of buf
	// It is the present input, which goes to each actor once, and no message of the handler.
	forwarded bool
}

type span struct{ start, end int }

func (x *crossings) reset() { x.list, x.buf = x.list[:0], x.buf[:0] }

func (x *crossings) add(o *outgoing) *crossing {
	if len(x.list) < cap(x.list) {
		x.list = x.list[:len(x.list)+1]
	} else {
		x.list = append(x.list, crossing{})
	}
	k := &x.list[len(x.list)-1]
	*k = crossing{out: o, pieces: k.pieces[:0]}
	return k
}

// forward sends the present input to an actor of another group, once.
func (tx *Tx) forward(to Actor) {
	c := tx.c
	k := Link{c.input.from, to}
	for i := range c.crossings.list {
		if x := &c.crossings.list[i]; x.forwarded && x.out.Link == k {
			return
		}
	}
	in := c.input
	in.exact = true
	if x := c.forward(k, &in); x != nil {
		x.forwarded = true
	}
}

// forward sends an input to an actor of another group. It returns nil if that is not possible.
func (c *Core) forward(k Link, in *Input) *crossing {
	if c.degrading || c.peerTo(k.To) == nil {
		return nil // to nobody, or to a switch that nobody knows
	}
	c.countForwarded(k)
	x := &c.crossings
	start := len(x.buf)
	x.buf = appendInputItem(x.buf, in)
	f := x.add(c.outgoing(k))
	f.pieces = append(f.pieces, span{start, len(x.buf)})
	return f
}

// sendAcross is Send to a switch of another group.
func (tx *Tx) sendAcross(id openflow.DatapathID, m Encoder) uint32 {
	c, to := tx.c, theSwitch(id)
	if c.peerTo(to) == nil {
		return 0
	}
	epoch := uint64(0)
	if sw := c.state.switches[id]; sw != nil {
		if !sw.live {
			return 0
		}
		epoch = sw.epoch
	} else if known := c.state.links.in[Link{to, tx.Actor()}]; known != nil && known.epoch != 0 {
		if !known.live {
			return 0
		}
		epoch = known.epoch
	}
	o, x := c.outgoing(Link{tx.Actor(), to}), &c.crossings
	if s := &o.sending; s.transaction != c.transaction || s.pending >= len(x.list) || x.list[s.pending].out != o {
		s.transaction, s.pending = c.transaction, len(x.list)
		x.add(o).epoch = epoch
	}
	k := &x.list[o.sending.pending]
	k.count++
	token := tokenOf(tx.tag, o.commands+uint64(k.count))
	start := len(x.buf)
	x.buf = m.Append(x.buf, token)
	checkCommand(id, x.buf[start:])
	tx.countAcross(to, x.buf[start:])
	k.pieces = append(k.pieces, span{start, len(x.buf)})
	return token
}

// tokenOf returns the token of a command with a number, which names the application as the xids of commands do.
func tokenOf(tag uint32, number uint64) uint32 { return tag | uint32(number)&message.SequenceMask }

// flush makes items of what the call of an application has sent to other groups.
func (c *Core) flush() error {
	x := &c.crossings
	if len(x.list) == 0 {
		return nil
	}
	defer x.reset()
	for i := range x.list {
		k := &x.list[i]
		if err := c.hold(k.out.sending.peer); err != nil {
			return err
		}
		first := k.pieces[0]
		encoded := x.buf[first.start:first.end]
		if k.count == 0 {
			if len(encoded) > maxInput {
				return fmt.Errorf("a message for %v has %d bytes; to another group %d are possible", k.out.To,
					len(encoded), maxInput)
			}
			c.push(k.out, encoded, 0)
			continue
		}
		for pieces := k.pieces; len(pieces) > 0; {
			n := itemOf(pieces)
			x.item = appendCommandItem(x.item[:0], k.epoch, k.out.commands+1, x.buf, pieces[:n])
			c.push(k.out, x.item, n)
			pieces = pieces[n:]
		}
	}
	return nil
}

// push adds an item to a stream, in this transaction.
func (c *Core) push(o *outgoing, encoded []byte, commands int) {
	b := &c.batch
	b.buf = appendBytes(appendLink(b.buf, OpSend, o.Link), encoded)
	b.undo = append(b.undo, undo{kind: undoSend, link: &oldLink{out: o}, before: uint64(commands)})
	o.push(encoded, commands)
	c.notes.sends(o)
	if o.sending.touched != b.number {
		o.sending.touched = b.number
		b.sends = append(b.sends, sent{out: o})
	}
}

// Receive executes an item that a group has sent, or drops it as a duplicate. The caller has checked Room. If items
// before it are missing, it changes nothing, and the sender is asked to send them again. If the receiver does not live
// here, or not yet, it changes nothing: the item comes again, here or where it lives.
func (c *Core) Receive(from uint64, k Link, seq uint64, encoded []byte) error {
	if !c.leading {
		return errNotLeading
	}
	if !c.here(k.To) {
		return nil
	}
	_, it, rest, err := nextItem(encoded)
	if err != nil || len(rest) > 0 { // before there is an entry for the stream
		return fmt.Errorf("stream %v: item %d of %d bytes: %w", k, seq, len(encoded), err)
	}
	i := c.state.links.incoming(k)
	i.receiving.peer = c.peer(from)
	if next := uint64(i.watermark) + 1; seq != next {
		if seq > next {
			i.receiving.lost = true
		} else {
			c.counters.Duplicates++
		}
		i.dueNow()
		return nil
	}
	if it.piece != nil {
		if err := c.state.checkArrival(c.group, k, it.piece); err != nil {
			return fmt.Errorf("stream %v: item %d: %w", k, seq, err)
		}
	}
	void := it.commands != nil && c.void(k, &it)
	if void && c.hearsOfVoid(k.From) && i.receiving.peer.full(c.hardBound()) {
		return nil // the item comes again; that group takes what this one has for it meanwhile
	}
	if c.onReceive != nil {
		defer c.onReceive(k, seq)()
	}
	b := c.beginTransaction()
	b.buf = appendBytes(binary.AppendUvarint(appendLink(b.buf, OpReceive, k), seq), encoded)
	b.undo = append(b.undo, undo{kind: undoReceive, link: &oldLink{in: i, received: i.received}})
	if i.receiving.touched != b.number {
		i.receiving.touched = b.number
		b.receives = append(b.receives, got{in: i})
	}
	i.accept(&it)
	c.countCrossed(from, k, &it, len(encoded))
	switch {
	case it.piece != nil:
		err = c.arrive(k, it.piece)
	case void:
		c.discard(k, &it)
	case it.commands != nil:
		c.receiveCommands(k, &it)
	default:
		c.receiveInput(k, &it.input)
	}
	c.finish()
	return err
}

// receiveInput passes an input from another group to the application of its receiver.
func (c *Core) receiveInput(k Link, in *Input) {
	if c.replayed != nil && k.To == c.replayedActor() {
		c.tell(*in)
		return
	}
	app := c.appOf(k.To.App)
	if app < 0 {
		return
	}
	times := uint64(1)
	if in.Kind == Discarded { // one item for several commands
		times = in.Epoch
		in.Epoch = 0
	}
	for n := range times {
		c.input = *in
		c.input.from, c.input.sender, c.input.to, c.input.crossed = k.To, k.From, k.To, true
		c.input.source = c.tallied(k.From)
		if in.Kind == Discarded {
			c.input.Seq = uint64(tokenOf(message.Tag(app+1).XID(), in.Seq+n))
		}
		c.call(app)
		c.runEmitted()
	}
}

// void reports whether commands of an actor of another group are not to be executed: their switch is down, or in
// another epoch than the sender knew, or it does not execute what it has.
func (c *Core) void(k Link, it *item) bool {
	sw := c.state.find(k.To.Switch)
	_, known := c.tagOf(k.From.App)
	return sw == nil || !known || !sw.live || it.epoch != 0 && it.epoch != sw.epoch ||
		sw.queue.Full(c.queueBound())
}

// queueBound is the bound of the commands of a switch that are not complete.
func (c *Core) queueBound() stream.Bounds {
	return stream.Bounds{Items: c.limits.QueueCommands, Bytes: c.limits.QueueBytes}
}

// receiveCommands queues commands of an actor of another group.
func (c *Core) receiveCommands(k Link, it *item) {
	sw := c.state.find(k.To.Switch)
	tag, _ := c.tagOf(k.From.App)
	b := &c.batch
	a := ask{sw.queue.Last() + 1, uint64(it.count), k.From, it.token}
	b.buf = a.appendTo(binary.BigEndian.AppendUint64(append(b.buf, byte(OpAsk)), uint64(sw.id)))
	b.undo = append(b.undo, undo{kind: undoAsk, sw: sw, link: &oldLink{asks: sw.asks}})
	sw.asks = sw.asks.add(a)
	c.tx = Tx{c: c, tag: tag.XID(), apart: tag == message.Replayed}
	c.tx.counted = counted{actor: c.tallied(k.From), remote: true}
	for rest := it.commands; len(rest) > 0; {
		msg, after, _ := openflow.Next(rest) // they were checked
		c.tx.raw = msg
		c.tx.queue(sw, &c.tx.raw)
		rest = after
	}
}

// tagOf returns the tag of an application in the transaction ids of its commands.
func (c *Core) tagOf(app string) (tag message.Tag, known bool) {
	if c.replayed != nil && app == c.replayed.Name() {
		return message.Replayed, true
	}
	i := c.appOf(app)
	return message.Tag(i + 1), i >= 0
}

// hearsOfVoid reports whether an actor is told that its commands are void. The replayed application has no use for it,
// and when it is Full its group takes no items: the two groups would wait for each other.
func (c *Core) hearsOfVoid(a Actor) bool { return c.replayed == nil || a != c.replayedActor() }

// discard tells an actor that its commands are void, in one item: Seq is the number of the first, and Epoch how many
// there are. If the switch does not execute what it has, its epoch is closed.
func (c *Core) discard(k Link, it *item) {
	if sw := c.state.find(k.To.Switch); sw != nil && sw.live && sw.queue.Full(c.queueBound()) {
		c.stalled = append(c.stalled, sw)
	}
	if !c.hearsOfVoid(k.From) {
		return
	}
	in := Input{Kind: Discarded, Switch: k.To.Switch, Epoch: uint64(it.count), Seq: it.token, at: k.From.Shard}
	c.crossings.item = appendInputItem(c.crossings.item[:0], &in)
	c.push(c.outgoing(Link{k.To, k.From}), c.crossings.item, 0)
}

// answer passes an answer of a switch to the actor of another group that asked. It reports false if none did.
func (c *Core) answer(sw *switchState, in *Input) bool {
	if len(sw.asks) == 0 {
		return false
	}
	last := sw.queue.Last()
	seq := last - uint64((uint32(last)-openflow.XID(in.Message))&message.SequenceMask)
	from, number, asked := sw.asks.find(seq)
	if !asked {
		return false
	}
	tag, _ := c.tagOf(from.App) // it was known when the command came
	token := tokenOf(tag.XID(), number)
	out := *in
	out.Message = bytes.Clone(in.Message)
	openflow.SetXID(out.Message, token)
	if message.Refusal(in.Message) {
		out.Command = bytes.Clone(sw.find(openflow.XID(in.Message)))
	}
	c.forwardNow(from, &out)
	return true
}

// forwardNow sends an input of a switch to an actor of another group, outside of the call of an application.
func (c *Core) forwardNow(to Actor, in *Input) {
	c.forward(Link{theSwitch(in.Switch), to}, in)
	if err := c.flush(); err != nil && !c.held {
		f := Failure{App: to.App, Input: *in, Err: err}
		f.Input.Message, f.Input.Command = nil, nil
		c.logFailure(f)
	}
}
