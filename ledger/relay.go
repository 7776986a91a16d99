package ledger

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// Relay lets the items and acknowledgements of an entry reach another group without a message between controllers, if
// the leader of that group is at a controller that has a replica of this one. The replica there passes them on when
// the entry is committed (here). The leader does not send them, if it expects the replica to know that as soon as it
// knows it itself (there). The entry says whether all replicas are to do so. What is lost, or cannot be passed on, is
// sent again by the leader after a time.
//
// here reports whether the leader of a group is at the controller of this replica. there is asked at the leader of this
// group: whether the replica at the controller of the leader of a group passes on what is for that. Both may be wrong.
// nil: nothing is passed on.
func (c *Core) Relay(here, there func(group uint64) bool) { c.relay.here, c.relay.there = here, there }

// RelayIn sets the term whose entries are passed on by a follower. Those of other terms it is only catching up with. 0:
// none.
func (c *Core) RelayIn(term uint64) { c.relay.term = term }

// relay is what is needed to pass on what is in entries.
type relay struct {
	here, there func(group uint64) bool
	term        uint64     // of which a follower passes on what is committed
	on          bool       // it does so with the entry that is being applied
	to          []uint64   // see Relaying
	parcels     []*parcels // not returned by Frames yet
}

// parcels are for one other group.
type parcels struct {
	group uint64
	taken []byte // acknowledgements, as in a frame
	items []byte // runs of items, as in a frame, but for the last one
	// The last run.
	link         Link
	first, count uint64
	run          []byte
}

// relayPause is for how long a leader sends items to a group by itself, when what was passed on has not arrived.
const relayPause = 5 * time.Second

// covered reports, at a leader, whether a replica passes on what is for the group.
func (c *Core) covered(p *peer) bool {
	return p != nil && p.group != nowhere && c.clock >= p.direct &&
		c.relay.there != nil && c.relay.there(p.group)
}

// relays reports whether followers are to pass on what is in a batch. They are not if an item would overtake others of
// its stream, or would be more than the receiver accepts at a time.
func (c *Core) relays(b *batch) bool {
	c.relay.to = c.relay.to[:0]
	if c.relay.there == nil {
		return false
	}
	for _, s := range b.sends {
		p := s.out.sending.peer
		if p != nil && c.clock < p.direct {
			c.relay.to = c.relay.to[:0]
			return false
		}
		if !c.covered(p) {
			continue
		}
		if s.out.sending.ready || p.sentItems >= windowItems || p.sentBytes >= windowBytes {
			c.relay.to = c.relay.to[:0]
			return false
		}
		if !slices.Contains(c.relay.to, p.group) {
			c.relay.to = append(c.relay.to, p.group)
		}
	}
	return len(c.relay.to) > 0 || slices.ContainsFunc(b.receives, func(g got) bool {
		return c.covered(g.in.receiving.peer)
	})
}

// Relaying returns the groups for which the entry that Cut returned last has items that followers pass on: those at the
// controllers that lead these groups should know soon that it is committed. Valid until the next Cut.
func (c *Core) Relaying() []uint64 { return c.relay.to }

// relayed notes that replicas pass on the committed items of a stream. before is the last one that was committed
// before.
func (p *peer) relayed(o *outgoing, before uint64) {
	s := &o.sending
	if s.sent != before {
		p.readyIf(o)
		return
	}
	_, items, run := o.outbox.Run(s.sent, s.committed, math.MaxInt)
	p.sentItems, p.sentBytes = p.sentItems+items, p.sentBytes+len(run)
	s.sent = s.committed
}

// passOn notes what a follower is to pass on of an operation that it has applied.
func (c *Core) passOn(r *Record) {
	switch r.Op {
	case OpSend:
		if p := c.parcels(r.Link.To); p != nil {
			p.item(r.Link, c.state.links.out[r.Link].outbox.Last(), r.Bytes)
		}
	case OpReceive:
		if p := c.parcels(r.Link.From); p != nil {
			p.taken = binary.AppendUvarint(appendLink(p.taken, frameTaken, r.Link), r.Seq)
		}
	}
}

// parcels returns those for the group of an actor; nil if nothing is passed on to that here.
func (c *Core) parcels(to Actor) *parcels {
	at, known := c.where(to)
	if !known || at.Group == c.group {
		return nil
	}
	for _, p := range c.relay.parcels {
		if p.group == at.Group && len(p.taken)+len(p.items)+len(p.run) < frameBytes {
			return p
		}
	}
	if !c.relay.here(at.Group) {
		return nil
	}
	p := &parcels{group: at.Group}
	c.relay.parcels = append(c.relay.parcels, p)
	return p
}

// item adds an item of a stream.
func (p *parcels) item(k Link, seq uint64, encoded []byte) {
	if p.count == 0 || p.link != k || p.first+p.count != seq {
		p.endRun()
		p.link, p.first = k, seq
	}
	p.count++
	p.run = append(p.run, encoded...)
}

func (p *parcels) endRun() {
	if p.count > 0 {
		p.items = binary.AppendUvarint(appendLink(p.items, frameItems, p.link), p.first)
		p.items = append(binary.AppendUvarint(p.items, p.count), p.run...)
		p.count, p.run = 0, p.run[:0]
	}
}

// passFrames calls send with what this follower passes on.
func (c *Core) passFrames(send func(group uint64, frame []byte)) {
	for _, p := range c.relay.parcels {
		p.endRun()
		frame := binary.AppendUvarint(make([]byte, 0, 8+len(p.taken)+len(p.items)), c.group)
		send(p.group, append(append(frame, p.taken...), p.items...))
	}
	c.relay.parcels = c.relay.parcels[:0]
}
