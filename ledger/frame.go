package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// sent is a stream to which the batch adds items, with the number of the last one at the cut.
type sent struct {
	out  *outgoing
	last uint64
}

// got is a stream of which the batch receives items, with the number of the last one at the cut.
type got struct {
	in   *incoming
	last uint64
	// The version of the assignment with which the receiver has arrived here; 0 if it has not with this batch.
	arrived uint64
}

// taken says that a receiver has the items of a stream up to a number.
type taken struct {
	out  *outgoing
	upTo uint64
}

// commitLinks makes the items of a committed batch known: those that it sends may leave, those that it receives are
// acknowledged.
func (c *Core) commitLinks(b *batch) error {
	for _, s := range b.sends {
		before := s.out.sending.committed
		s.out.sending.committed = s.last
		switch p := s.out.sending.peer; {
		case p == nil: // it has left with its sender
		case b.relay && c.covered(p):
			p.relayed(s.out, before)
		default:
			p.readyIf(s.out)
		}
	}
	for _, g := range b.receives {
		r := &g.in.receiving
		r.committed, r.arrived = g.last, max(r.arrived, g.arrived)
		if r.lost || r.arrived > 0 || !b.relay || !c.covered(r.peer) {
			g.in.dueNow()
		}
	}
	c.unpublished = append(c.unpublished, b.arrived...)
	c.commitSwitches(b)
	for _, t := range b.taken {
		if err := t.out.taken(t.upTo); err != nil {
			return fmt.Errorf("ledger: stream %v: items were received: %w", t.out.Link, err)
		}
		c.relieved++
	}
	return nil
}

// Acknowledged records that the receiver of a stream has its items up to seq. The next entry contains that. Once it is
// committed, every replica forgets the items. resend: the receiver lacks items before one that has arrived.
func (c *Core) Acknowledged(k Link, seq uint64, resend bool) error {
	o := c.state.links.out[k]
	if !c.leading || o == nil || o.sending.peer == nil {
		return nil // it was acknowledged to an earlier leader
	}
	s, p := &o.sending, o.sending.peer
	if seq > o.outbox.Last() { // it may be more than s.committed: a follower knew that earlier, and has passed it on
		return fmt.Errorf("stream %v: item %d is acknowledged, %d is the last", k, seq, o.outbox.Last())
	}
	if seq > s.taken {
		p.arrived(o, seq)
		p.progress = c.clock
		if !s.acking {
			s.acking = true
			c.taken = append(c.taken, o)
		}
	}
	if resend {
		c.relocate(o)
		o.sending.peer.resend(o)
	}
	return nil
}

// hears notes that an actor has arrived in a group, before the directory says so: that takes the system group a commit.
// There is at most one note for each actor that something is sent to.
func (c *Core) hears(a Actor, at Assignment) {
	if known, is := c.where(a); is && known.Version >= at.Version || c.senders[a] == nil {
		return
	}
	if c.heard == nil {
		c.heard = map[Actor]Assignment{}
	}
	c.heard[a.mover()] = at
	c.relocateAllTo(a.mover())
}

// arrived notes that the receiver has the items up to seq.
func (p *peer) arrived(o *outgoing, seq uint64) {
	s := &o.sending
	_, items, run := o.outbox.Run(s.taken, min(seq, s.sent), math.MaxInt)
	p.sentItems, p.sentBytes = p.sentItems-items, p.sentBytes-len(run)
	s.taken, s.sent = seq, max(s.sent, seq)
}

// resend makes everything unsent that the receiver has not acknowledged.
func (p *peer) resend(o *outgoing) {
	p.unsend(o)
	p.readyIf(o)
}

func (p *peer) unsend(o *outgoing) {
	s := &o.sending
	_, items, run := o.outbox.Run(s.taken, s.sent, math.MaxInt)
	p.sentItems, p.sentBytes = p.sentItems-items, p.sentBytes-len(run)
	s.sent = s.taken
}

// Resend sends everything again that a group has not acknowledged, because it has a new leader.
func (c *Core) Resend(group uint64) {
	if p := c.peers[group]; p != nil && c.leading {
		for _, o := range p.links {
			p.resend(o)
		}
		p.progress = c.clock
	}
}

// resendAfter is how long the leader waits for an acknowledgement of a group before it sends everything again, and
// lostAfter for one of a single stream, while the group acknowledges others.
const (
	resendAfter = 250 * time.Millisecond
	lostAfter   = time.Second
)

func (c *Core) resendStalled() {
	for _, g := range slices.Sorted(maps.Keys(c.peers)) { // in order, since streams may change from one to the other
		p := c.peers[g]
		switch waits := p.sentItems > 0 || p.group == nowhere; {
		case !waits:
			p.progress = c.clock
		case c.clock-p.progress >= int64(resendAfter):
			p.direct = c.clock + int64(relayPause)
			for _, o := range slices.Clone(p.links) {
				c.relocate(o)
			}
			c.Resend(p.group)
		case c.clock-p.looked >= int64(lostAfter):
			p.looked = c.clock
			c.resendLost(p)
		}
	}
}

// resendLost sends again what a group has not acknowledged since it was last called: it may have come before its
// receiver, or been lost, and other streams do not tell.
func (c *Core) resendLost(p *peer) {
	for _, o := range slices.Clone(p.links) {
		s := &o.sending
		if s.sent > s.taken && s.taken == s.looked && s.peer == p {
			if c.relocate(o); s.peer == p {
				p.resend(o)
			}
		}
		s.looked = s.taken
	}
}

// cutTaken logs which items were received, as far as the entry has room.
func (c *Core) cutTaken() {
	b, n := &c.batch, 0
	for ; n < len(c.taken) && len(b.buf) < c.limits.EntryBytes; n++ { // the others are in the next entry
		o := c.taken[n]
		o.sending.acking, o.sending.logged = false, o.sending.taken
		b.buf = binary.AppendUvarint(appendLink(b.buf, OpTaken, o.Link), o.sending.taken)
		b.taken = append(b.taken, taken{o, o.sending.taken})
	}
	c.taken = slices.Delete(c.taken, 0, n)
}

// followLinks ends the leader's part.
func (c *Core) followLinks() {
	for _, o := range c.state.links.out {
		o.sending = sending{}
	}
	for _, i := range c.state.links.in {
		i.receiving = receiving{}
	}
	c.senders, c.leaving, c.unassigned, c.unpublished, c.published = nil, nil, nil, nil, 0
	c.peers, c.crossings, c.taken, c.late, c.patient, c.held = nil, crossings{}, nil, nil, false, false
	c.heard = nil
}

// A frame is what one message between the leaders of two groups contains: the group of the sender, runs of items, and
// acknowledgements. It needs no term, because it contains nothing that is not committed.
//
//	items:           1, link, number of the first, count, items
//	acknowledgement: 2 (3: and send again what follows), link, number
//	arrival:         4, link, number, version: an acknowledgement; the receiver has arrived in this group, with an
//	                 assignment of that version, so send what follows there
const (
	frameItems = iota + 1
	frameTaken
	frameLost
	frameArrived
)

// What a frame has at least before it ends, and what is sent to a group and not acknowledged at a time. A larger window
// would only move the queue from the sender to the receiver.
const (
	frameBytes  = 64 << 10
	windowItems = 4096
	windowBytes = 1 << 20
)

// Frames calls send with what there is for each other group: at a leader what is to be sent, at a follower what it
// passes on (see Relay). send must not call the Core; it owns the frame, and may lose it.
func (c *Core) Frames(send func(group uint64, frame []byte)) {
	if !c.leading {
		c.passFrames(send)
		return
	}
	if len(c.peers) == 0 {
		return // as always with one group
	}
	for _, p := range c.sortedPeers() {
		for {
			frame := p.frame(c.group)
			if frame == nil {
				break
			}
			send(p.group, frame)
		}
	}
}

// frame returns the next frame of a group for this one; nil if there is none.
func (p *peer) frame(from uint64) []byte {
	b := binary.AppendUvarint(nil, from)
	empty := len(b)
	for len(p.due) > 0 && len(b) < frameBytes {
		i := p.due[0]
		p.due = p.due[1:]
		op, version := Op(frameTaken), i.receiving.arrived
		switch {
		case version > 0:
			op = frameArrived
		case i.receiving.lost:
			op = frameLost
		}
		b = binary.AppendUvarint(appendLink(b, op, i.Link), i.receiving.committed)
		if op == frameArrived {
			b = binary.AppendUvarint(b, version)
		}
		i.receiving.due, i.receiving.lost, i.receiving.arrived = false, false, 0
	}
	for len(p.ready) > 0 && len(b) < frameBytes && p.sentItems < windowItems && p.sentBytes < windowBytes {
		o := p.ready[0]
		s := &o.sending
		if s.peer != p || !s.ready { // it has left, and may have come back
			p.ready = p.ready[1:]
			continue
		}
		first, count, run := o.outbox.Run(s.sent, s.committed, frameBytes)
		if count > 0 {
			b = binary.AppendUvarint(appendLink(b, frameItems, o.Link), first)
			b = append(binary.AppendUvarint(b, uint64(count)), run...)
			s.sent = first + uint64(count) - 1
			p.sentItems, p.sentBytes = p.sentItems+count, p.sentBytes+len(run)
		}
		if s.sent >= s.committed {
			s.ready = false
			p.ready = p.ready[1:]
		}
	}
	if len(b) == empty {
		return nil
	}
	return b
}

// Frame is one that another group has sent, as far as it is not executed.
type Frame struct {
	d     decoder
	from  uint64 // the group
	link  Link
	seq   uint64 // of the next item
	count uint64 // items that follow in the present run
}

// NewFrame returns a Frame of bytes that Frames has made, and which are not changed.
func NewFrame(b []byte) *Frame {
	f := &Frame{d: decoder{b: b}}
	f.from = f.d.uvarint()
	return f
}

// Acknowledges reports whether the frame begins with acknowledgements.
func (f *Frame) Acknowledges() bool { return f.count == 0 && len(f.d.b) > 0 && f.d.b[0] != frameItems }

// Acknowledge takes the acknowledgements at the start of a frame, which need no Room. So a group that accepts no items
// still forgets those that others have taken.
func (c *Core) Acknowledge(f *Frame) error {
	for f.Acknowledges() {
		if err := c.section(f); err != nil {
			return fmt.Errorf("frame of another group: %w", err)
		}
	}
	return nil
}

// Execute executes what a frame contains, and returns whether that was all: if there is no Room, it is called again
// later. After an error the rest of the frame is to be dropped; what it has is sent again.
func (c *Core) Execute(f *Frame) (finished bool, err error) {
	for f.count > 0 || len(f.d.b) > 0 {
		switch {
		case f.count == 0:
			err = c.section(f)
		case !c.Room():
			return false, nil
		default:
			before := f.d.b
			f.d.bytes()
			if err = f.d.err; err == nil {
				err = c.Receive(f.from, f.link, f.seq, before[:len(before)-len(f.d.b)])
			}
			f.seq++
			f.count--
		}
		if err != nil {
			return true, fmt.Errorf("frame of another group: %w", err)
		}
	}
	return true, nil
}

// section reads the start of a run of items, or an acknowledgement.
func (c *Core) section(f *Frame) error {
	d := &f.d
	kind := d.byte()
	f.link = d.link()
	f.seq = d.uvarint()
	switch kind {
	case frameItems:
		f.count = d.uvarint()
		return d.err
	case frameTaken, frameLost, frameArrived:
		version := uint64(0)
		if kind == frameArrived {
			version = d.uvarint()
		}
		if d.err != nil {
			return d.err
		}
		if kind == frameArrived && c.leading {
			c.hears(f.link.To, Assignment{f.from, version})
		}
		return c.Acknowledged(f.link, f.seq, kind != frameTaken)
	}
	return fmt.Errorf("unknown section %d: %w", kind, errVersion)
}

// Stream is what another group has not acknowledged, for operators.
type Stream struct {
	Group        uint64
	Items, Bytes int // that wait
}

// Streams returns the state of the streams to other groups, by group, at a leader.
func (c *Core) Streams() []Stream {
	list := []Stream{}
	for _, p := range c.sortedPeers() {
		list = append(list, Stream{p.group, p.items, p.bytes})
	}
	return list
}
