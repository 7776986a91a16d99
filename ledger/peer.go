package ledger

import (
	"maps"
	"math"
	"slices"

	"github.com/holdfast-sdn/holdfast/stream"
)

// peer is another group, as the leader of this one sees it.
type peer struct {
	group uint64
	// What the outboxes of streams to it have, committed or not, and how much of that was sent.
	items, bytes         int
	sentItems, sentBytes int
	links                []*outgoing // all streams to it
	ready                []*outgoing // those with committed items that were not sent
	due                  []*incoming // streams from it that are to be acknowledged
	progress             int64       // ledger time at which it last acknowledged something, or had nothing to
}

// sending is the leader's part of an outgoing. It is not replicated; Lead resets it.
type sending struct {
	peer      *peer  // the group of the receiver; nil at a follower
	committed uint64 // number of the last committed item
	sent      uint64 // of the last one that was sent
	taken     uint64 // of the last one that the receiver has acknowledged
	touched   uint64 // number of the batch that last listed this stream
	acking    bool   // in Core.taken
	ready     bool   // in peer.ready
	// transaction is the last one that sent commands, which are at index pending of Core.crossings.
	transaction uint64
	pending     int
}

// receiving is the leader's part of an incoming.
type receiving struct {
	peer      *peer  // the group of the sender
	committed uint64 // number of the last item that is committed
	touched   uint64 // number of the batch that last listed this stream
	due, lost bool   // in peer.due; and items before one that has arrived are missing
}

// grew notes a change of what outboxes to the group have.
func (p *peer) grew(items, bytes int) {
	if p != nil {
		p.items, p.bytes = p.items+items, p.bytes+bytes
	}
}

// full reports whether the outboxes to the group have reached a bound.
func (p *peer) full(b stream.Bounds) bool { return p.items >= b.Items || p.bytes >= b.Bytes }

// sortedPeers returns the groups to which there are streams, by number.
func (c *Core) sortedPeers() []*peer {
	list := make([]*peer, 0, len(c.peers))
	for _, g := range slices.Sorted(maps.Keys(c.peers)) {
		if g != nowhere {
			list = append(list, c.peers[g])
		}
	}
	return list
}

// nowhere is in place of the group of an actor that the directory does not know yet, although it exists: the replica of
// the system group at this controller may be behind those of other controllers. What is sent to it waits.
const nowhere = math.MaxUint64

// peerOf returns the group in which an actor lives; nil if that is not known.
func (c *Core) peerOf(a Actor) *peer {
	g, known := c.directory(a)
	if !known {
		return nil
	}
	return c.peer(g)
}

// peerTo is peerOf for an actor that is sent something. It is not nil if this group has heard of the actor's switch.
func (c *Core) peerTo(a Actor) *peer {
	if p := c.peerOf(a); p != nil {
		return p
	}
	for k := range c.state.links.in {
		if k.From == (Actor{Switch: a.Switch}) {
			return c.peer(nowhere)
		}
	}
	return nil
}

func (c *Core) peer(g uint64) *peer {
	p := c.peers[g]
	if p == nil {
		p = &peer{group: g}
		if c.peers == nil {
			c.peers = map[uint64]*peer{}
		}
		c.peers[g] = p
	}
	return p
}

// leadLinks is called when this replica begins to lead: everything that is not acknowledged is to be sent.
func (c *Core) leadLinks() {
	c.peers, c.crossings, c.taken, c.late = nil, crossings{}, nil, map[timerName]uint64{}
	for _, k := range slices.SortedFunc(maps.Keys(c.state.links.out), Link.compare) {
		c.connect(c.state.links.out[k])
	}
	for _, i := range c.state.links.in {
		i.receiving = receiving{peer: c.peerOf(i.From), committed: uint64(i.watermark)}
	}
}

// connect begins the leader's part of an outgoing.
func (c *Core) connect(o *outgoing) {
	o.sending = sending{committed: o.outbox.Last(), sent: o.outbox.Acked(), taken: o.outbox.Acked()}
	p := c.peerOf(o.To)
	if p == nil {
		p = c.peer(nowhere) // whoever sent the first item knew it
	}
	p.add(o)
}

// add adds a stream to those to the group.
func (p *peer) add(o *outgoing) {
	o.sending.peer, o.sending.ready = p, false
	p.links = append(p.links, o)
	p.grew(o.outbox.Len(), o.outbox.Bytes())
	p.readyIf(o)
}

// locate sends what waits for actors that the directory knows by now.
func (c *Core) locate() {
	lost := c.peers[nowhere]
	if lost == nil {
		return
	}
	links := lost.links
	lost.links, lost.ready = nil, nil
	for _, o := range links {
		if p := c.peerOf(o.To); p != nil {
			lost.grew(-o.outbox.Len(), -o.outbox.Bytes())
			p.add(o)
			c.relieved++
		} else {
			lost.links = append(lost.links, o)
		}
	}
	if len(lost.links) == 0 {
		delete(c.peers, nowhere)
	}
}

// readyIf adds a stream to those with items to send.
func (p *peer) readyIf(o *outgoing) {
	if s := &o.sending; !s.ready && s.sent < s.committed {
		s.ready = true
		p.ready = append(p.ready, o)
	}
}

// dueNow adds a stream to those that are to be acknowledged.
func (i *incoming) dueNow() {
	if r := &i.receiving; !r.due && r.peer != nil {
		r.due = true
		r.peer.due = append(r.peer.due, i)
	}
}

// outgoing returns the sender's end of a stream, for a leader.
func (c *Core) outgoing(k Link) *outgoing {
	o := c.state.links.outgoing(k)
	if o.sending.peer == nil {
		c.connect(o)
	}
	return o
}

// incoming returns the receiver's end of a stream, for a leader.
func (c *Core) incoming(k Link) *incoming {
	i := c.state.links.incoming(k)
	if i.receiving.peer == nil {
		i.receiving = receiving{peer: c.peerOf(k.From), committed: uint64(i.watermark)}
	}
	return i
}
