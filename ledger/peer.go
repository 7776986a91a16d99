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
	// Those with committed items that were not sent, and some that have left since.
	ready    []*outgoing
	due      []*incoming // streams from it that are to be acknowledged
	progress int64       // ledger time at which it last acknowledged something, or had nothing to
	looked   int64       // ledger time of the last resendLost
	direct   int64       // until this ledger time nothing is left to followers, see Relay
}

// sending is the leader's part of an outgoing. It is not replicated; Lead resets it.
type sending struct {
	peer      *peer  // the group of the receiver; nil at a follower, and until this leader uses the stream
	committed uint64 // number of the last committed item
	sent      uint64 // of the last one that was sent
	taken     uint64 // of the last one that the receiver has acknowledged
	looked    uint64 // taken, at the last resendLost
	logged    uint64 // taken, as far as entries say so, committed or not
	touched   uint64 // number of the batch that last listed this stream
	acking    bool   // in Core.taken
	index     int    // in peer.links
	ready     bool   // in peer.ready
	// transaction is the last one that sent commands, which are at index pending of Core.crossings.
	transaction uint64
	pending     int
}

// receiving is the leader's part of an incoming.
type receiving struct {
	peer      *peer  // the group that has sent the last item; nil if none was received by this leader
	committed uint64 // number of the last item that is committed
	touched   uint64 // number of the batch that last listed this stream
	due, lost bool   // in peer.due; and items before one that has arrived are missing
	arrived   uint64 // with which version of its assignment the receiver has just arrived here; 0: it has not
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

// nowhere is in place of the group of an actor that the directory does not know yet: it is to be assigned, or the
// replica of the system group at this controller is behind those of other controllers. What is sent to it waits.
const nowhere = math.MaxUint64

// peerOf returns the group in which an actor lives; nil if that is not known.
func (c *Core) peerOf(a Actor) *peer {
	at, known := c.where(a)
	if !known {
		return nil
	}
	return c.peer(at.Group)
}

// peerTo is peerOf for an actor that is sent something. It is nil if the actor belongs to a switch of which this group
// knows nothing: it has heard of it neither from the switch nor from an application at it, and has never sent anything
// there. What is sent is then dropped. It cannot wait, since the switch may not exist, and nobody would take it.
func (c *Core) peerTo(a Actor) *peer {
	if p := c.peerOf(a); p != nil {
		return p
	}
	if a.Switch == 0 {
		return c.peer(nowhere)
	}
	for k := range c.state.links.in {
		if k.From.Switch == a.Switch {
			return c.peer(nowhere)
		}
	}
	for k, o := range c.state.links.out {
		if k.To.Switch == a.Switch && o.used() { // an earlier leader knew it
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

// Unassigned returns the actors without a switch for which something waits because the directory does not know them,
// and forgets them. They are returned again after some time.
func (c *Core) Unassigned() []Actor {
	list := c.unassigned
	c.unassigned = nil
	return list
}

// leadLinks is called when this replica begins to lead: everything that is not acknowledged is to be sent. Streams that
// have nothing to send, which may be tens of thousands, are connected when they are used.
func (c *Core) leadLinks() {
	c.peers, c.crossings, c.taken, c.late = nil, crossings{}, nil, map[timerName]uint64{}
	c.heard = nil
	c.senders = map[Actor][]*outgoing{}
	var waiting []*outgoing
	for _, o := range c.state.links.out {
		if o.sending = o.led(); o.outbox.Len() > 0 {
			waiting = append(waiting, o)
		}
	}
	slices.SortFunc(waiting, func(a, b *outgoing) int { return a.compare(b.Link) })
	for _, o := range waiting {
		c.connect(o)
	}
	for a, at := range c.state.moves.at {
		if at.Group == c.group {
			c.unpublished = append(c.unpublished, a)
		}
	}
	slices.SortFunc(c.unpublished, Actor.Compare)
	for _, i := range c.state.links.in {
		i.receiving = receiving{committed: uint64(i.watermark)}
	}
}

// led is the leader's part of an outgoing before anything is sent.
func (o *outgoing) led() sending {
	acked := o.outbox.Acked()
	return sending{committed: o.outbox.Last(), sent: acked, taken: acked, logged: acked}
}

// connect begins the leader's part of an outgoing.
func (c *Core) connect(o *outgoing) {
	o.sending = o.led()
	p := c.peerOf(o.To)
	if p == nil {
		p = c.peer(nowhere)
		c.unassign(o)
	}
	p.add(o)
	c.senders[o.To] = append(c.senders[o.To], o)
}

// unassign notes that the receiver of a stream is to be assigned.
func (c *Core) unassign(o *outgoing) {
	if o.To.Switch == 0 { // else whoever sent the first item knew it
		c.unassigned = append(c.unassigned, o.To)
	}
}

// add adds a stream to those to the group.
func (p *peer) add(o *outgoing) {
	o.sending.peer, o.sending.index, o.sending.ready = p, len(p.links), false
	p.links = append(p.links, o)
	p.grew(o.outbox.Len(), o.outbox.Bytes())
	p.readyIf(o)
}

// remove is the inverse of add.
func (p *peer) remove(o *outgoing) {
	s := &o.sending
	p.unsend(o)
	last := len(p.links) - 1 // takes its place: thousands may leave at a time
	p.links[s.index], p.links[last].sending.index = p.links[last], s.index
	p.links[last], p.links = nil, p.links[:last]
	p.grew(-o.outbox.Len(), -o.outbox.Bytes())
	s.peer, s.ready = nil, false
}

// Relocated is called when the directory has a new assignment of an actor: what was sent to it and is not acknowledged
// is sent to where it lives now.
func (c *Core) Relocated(a Actor) {
	c.forget(a)
	c.relocateAllTo(a)
}

// relocateAllTo is relocateTo for an actor and those that move with it.
func (c *Core) relocateAllTo(a Actor) {
	c.relocateTo(a)
	if a.isSwitch() {
		for _, app := range c.apps {
			c.relocateTo(Actor{app.Name(), a.Shard})
		}
	}
}

// forget forgets what was heard of an actor, if the directory says as much.
func (c *Core) forget(a Actor) {
	if heard, is := c.heard[a]; is {
		if at, known := c.directory(a); known && at.Version >= heard.Version {
			delete(c.heard, a)
		}
	}
}

// RelocatedAll is Relocated for all actors.
func (c *Core) RelocatedAll() {
	for _, a := range slices.Collect(maps.Keys(c.heard)) {
		c.forget(a)
	}
	for _, a := range slices.SortedFunc(maps.Keys(c.senders), Actor.Compare) {
		c.relocateTo(a)
	}
}

func (c *Core) relocateTo(a Actor) {
	for _, o := range c.senders[a] {
		c.relocate(o)
	}
}

func (c *Core) relocate(o *outgoing) {
	p, was := c.peerOf(o.To), o.sending.peer
	if p == nil {
		c.unassign(o)
		return
	}
	if p != was {
		was.remove(o)
		p.add(o)
		c.relieved++
		if len(was.links) == 0 && was.group == nowhere {
			delete(c.peers, nowhere)
		}
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
