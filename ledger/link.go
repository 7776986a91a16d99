package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/stream"
)

// Link is the identity of a stream between actors of different groups.
type Link struct{ From, To Actor }

func (l Link) compare(o Link) int {
	if n := l.From.Compare(o.From); n != 0 {
		return n
	}
	return l.To.Compare(o.To)
}

func (l Link) String() string { return fmt.Sprintf("%v to %v", l.From, l.To) }

// links are the ends of streams that this group has. They are replicated, and are kept when they are idle, because a
// repeated item may arrive at any time.
type links struct {
	out map[Link]*outgoing
	in  map[Link]*incoming
}

// outgoing is the sender's end of a stream.
type outgoing struct {
	Link
	outbox   stream.Outbox // items that the receiver has not acknowledged
	commands uint64        // how many commands were ever sent; the number of a command is its token
	sending  sending
}

// incoming is the receiver's end of a stream.
type incoming struct {
	Link
	received
	receiving receiving
}

// received is the replicated state of an incoming.
type received struct {
	watermark stream.Watermark
	// If a switch is the sender: its epoch, whether it is up, and the SWITCH_UP that began the epoch, as the actor
	// knows them.
	epoch uint64
	live  bool
	hello []byte
}

func (l *links) outgoing(k Link) *outgoing {
	o := l.out[k]
	if o == nil {
		o = &outgoing{Link: k}
		if l.out == nil {
			l.out = map[Link]*outgoing{}
		}
		l.out[k] = o
	}
	return o
}

func (l *links) incoming(k Link) *incoming {
	i := l.in[k]
	if i == nil {
		i = &incoming{Link: k}
		if l.in == nil {
			l.in = map[Link]*incoming{}
		}
		l.in[k] = i
	}
	return i
}

// push adds an item with a number of commands.
func (o *outgoing) push(encoded []byte, commands int) {
	o.outbox.Push(encoded)
	o.commands += uint64(commands)
	o.sending.peer.grew(1, len(encoded))
}

// takeBack removes the newest item, and the commands that it has.
func (o *outgoing) takeBack(commands uint64) error {
	n := o.outbox.Last()
	o.sending.peer.grew(-1, -len(o.outbox.Item(n)))
	o.commands -= commands
	return o.outbox.TakeBack(n - 1)
}

// taken removes the items up to number n, which the receiver has.
func (o *outgoing) taken(n uint64) error {
	items, bytes := o.outbox.Len(), o.outbox.Bytes()
	err := o.outbox.Ack(n)
	o.sending.peer.grew(o.outbox.Len()-items, o.outbox.Bytes()-bytes)
	return err
}

// accept makes the item the newest one that was received.
func (i *incoming) accept(it *item) {
	i.watermark++
	if !i.From.isSwitch() || it.commands != nil {
		return
	}
	switch in := &it.input; in.Kind {
	case SwitchUp:
		i.epoch, i.live, i.hello = in.Epoch, true, bytes.Clone(in.Message)
	case SwitchDown:
		i.live = false
		i.epoch = max(i.epoch, in.Epoch) // 0 if a new epoch follows at once
	case Message:
		if in.Epoch > i.epoch { // the actor is not told which switches are up
			i.hello = nil
		}
		i.epoch, i.live = in.Epoch, true
	case Forgotten:
		i.epoch, i.live, i.hello = 0, false, nil
	case Discarded:
		if i.hello == nil { // it cannot learn the epoch: what it sends next is for any
			i.epoch, i.live = 0, false
		}
	}
}

// applyLink applies an operation of streams between groups.
func (s *state) applyLink(r *Record) error {
	switch r.Op {
	case OpSend:
		return s.applySend(r)
	case OpReceive:
		return s.applyReceive(r)
	case OpTaken:
		if err := s.links.outgoing(r.Link).taken(r.Seq); err != nil {
			return fmt.Errorf("stream %v: items were received: %w: "+diverged, r.Link, err)
		}
	case OpAsk:
		sw := s.sw(r.Switch)
		if next := sw.queue.Last() + 1; r.Ask.first != next {
			return fmt.Errorf("switch %s: commands of %v from %d on, where %d is next: "+diverged, r.Switch, r.Ask.from,
				r.Ask.first, next)
		}
		sw.asks = sw.asks.add(r.Ask)
	case OpOutgoing:
		*s.links.outgoing(r.Link) = *r.Outgoing
	case OpIncoming:
		*s.links.incoming(r.Link) = *r.Incoming
	case OpLeave:
		s.moves.leave(r.Actor, r.Assignment.Group)
	case OpDepart:
		s.depart(r.Actor, r.Assignment)
	case OpMoved:
		s.moves.set(r.Actor, r.Assignment)
	case OpPiece:
		o := origin{r.Actor, r.Assignment.Group}
		if s.moves.arriving[o] == nil {
			s.moves.arriveLater(o, &arrival{})
		}
		a := s.moves.arriving[o]
		a.pieces = append(a.pieces, bytes.Clone(r.Bytes))
	}
	return nil
}

// applySend applies OpSend.
func (s *state) applySend(r *Record) error {
	encoded, it, rest, err := nextItem(r.Bytes)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("stream %v: an item of %d bytes: %w", r.Link, len(r.Bytes), err)
	}
	s.links.outgoing(r.Link).push(encoded, it.count)
	return nil
}

// applyReceive applies OpReceive.
func (s *state) applyReceive(r *Record) error {
	i := s.links.incoming(r.Link)
	if next := uint64(i.watermark) + 1; r.Seq != next {
		return fmt.Errorf("stream %v: received item %d where %d is next: "+diverged, r.Link, r.Seq, next)
	}
	_, it, rest, err := nextItem(r.Bytes)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("stream %v: item %d of %d bytes: %w", r.Link, r.Seq, len(r.Bytes), err)
	}
	i.accept(&it)
	if it.piece != nil {
		return s.arrive(r.Link, it.piece, func(undo) {})
	}
	return nil
}

// asks say which commands of a switch came from actors of other groups, oldest first, so that an answer reaches who
// asked. It is not modified, only replaced.
type asks []ask

// ask is a run of commands of one actor.
type ask struct {
	first uint64 // sequence at the switch
	count uint64
	from  Actor
	token uint64 // number of the first, at the actor
}

// maxAsks bounds the runs that are kept for a switch. An answer to an older command reaches nobody.
const maxAsks = 1024

func (a asks) add(n ask) asks {
	if len(a) >= maxAsks {
		a = a[len(a)-maxAsks+1:]
	}
	return append(a, n)
}

// find returns who sent the command with a sequence, and its number at the sender.
func (a asks) find(seq uint64) (from Actor, number uint64, ok bool) {
	i, found := slices.BinarySearchFunc(a, seq, func(a ask, seq uint64) int {
		switch {
		case seq < a.first:
			return 1
		case seq >= a.first+a.count:
			return -1
		}
		return 0
	})
	if !found {
		return Actor{}, 0, false
	}
	return a[i].from, a[i].token + seq - a[i].first, true
}

// Encoding. Equal states give equal bytes.

func appendActor(b []byte, a Actor) []byte {
	return a.Shard.append(appendString(b, a.App))
}

func (s Shard) append(b []byte) []byte {
	return s.Key.Append(binary.BigEndian.AppendUint64(b, uint64(s.Switch)))
}

func appendLink(b []byte, op Op, l Link) []byte {
	return appendActor(appendActor(append(b, byte(op)), l.From), l.To)
}

// Append appends the encoding of an actor, and ParseActor decodes it.
func (a Actor) Append(b []byte) []byte { return appendActor(b, a) }

// ParseActor decodes the output of Actor.Append at the start of b.
func ParseActor(b []byte) (a Actor, rest []byte, err error) {
	d := decoder{b: b}
	a = d.actor()
	return a, d.b, d.err
}

func (d *decoder) shard() Shard { return Shard{openflow.DatapathID(d.uint64()), d.key()} }
func (d *decoder) actor() Actor { return Actor{d.string(), d.shard()} }
func (d *decoder) link() Link   { return Link{d.actor(), d.actor()} }

func (l *links) append(b []byte) []byte {
	for _, k := range slices.SortedFunc(maps.Keys(l.out), Link.compare) {
		if o := l.out[k]; o.used() {
			b = o.append(b)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(l.in), Link.compare) {
		if i := l.in[k]; i.used() {
			b = i.append(b)
		}
	}
	return b
}

func (o *outgoing) append(b []byte) []byte {
	return o.outbox.AppendTo(binary.AppendUvarint(appendLink(b, OpOutgoing, o.Link), o.commands))
}

func (i *incoming) append(b []byte) []byte {
	b = binary.AppendUvarint(appendLink(b, OpIncoming, i.Link), uint64(i.watermark))
	b = binary.BigEndian.AppendUint64(b, i.epoch)
	return appendBytes(append(b, flag(i.live)), i.hello)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// outgoing reads what OpOutgoing says after the link. It shares nothing with what it decodes.
func (d *decoder) outgoing(l Link) *outgoing {
	o := &outgoing{Link: l, commands: d.uvarint()}
	outbox, rest, err := stream.ParseOutbox(d.b)
	if err != nil {
		d.fail(err)
		return o
	}
	for n := outbox.Acked() + 1; n <= outbox.Last(); n++ {
		if _, _, rest, err := nextItem(outbox.Item(n)); err != nil || len(rest) > 0 {
			d.fail(fmt.Errorf("item %d of stream %v: %w", n, l, err))
			return o
		}
	}
	o.outbox, d.b = outbox, rest
	return o
}

// incoming reads what OpIncoming says after the link.
func (d *decoder) incoming(l Link) *incoming {
	i := &incoming{Link: l}
	i.watermark = stream.Watermark(d.uvarint())
	i.epoch, i.live = d.uint64(), d.byte() != 0
	if hello := d.bytes(); len(hello) > 0 {
		i.hello = bytes.Clone(hello)
	}
	return i
}

func (a asks) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(a)))
	for _, k := range a {
		b = k.appendTo(b)
	}
	return b
}

func (a ask) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, a.first), a.count)
	return binary.AppendUvarint(appendActor(b, a.from), a.token)
}

func (d *decoder) ask() ask { return ask{d.uvarint(), d.uvarint(), d.actor(), d.uvarint()} }

func (d *decoder) asks() (a asks) {
	n := d.uvarint()
	if n > maxAsks {
		d.fail(fmt.Errorf("%d runs of commands of other groups; at most %d are kept", n, maxAsks))
	}
	for ; n > 0 && d.err == nil; n-- {
		a = append(a, d.ask())
	}
	return a
}
