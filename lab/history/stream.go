package history

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	replaying "github.com/holdfast-sdn/holdfast/ryu/replay"
)

// linkHistory is a stream between actors of two groups, as their logs have it.
type linkHistory struct {
	ledger.Link
	from, to       *Group       // nil while that end is on its way to another group
	senders        []*Group     // that have had the sender's end before
	receivers      []*Group     // likewise
	sent, received uint64       // numbers of the last items
	taken          uint64       // the sender's group has forgotten the items up to this one
	items          fifo[[]byte] // that are sent and not received
}

// link returns the history of a stream.
func (h *History) link(k ledger.Link) *linkHistory {
	l := h.links[k]
	if l == nil {
		l = &linkHistory{Link: k}
		h.links[k] = l
	}
	return l
}

// end checks that one group has this end of a stream.
func (l *linkHistory) end(g *Group, is **Group) error {
	if *is == nil {
		*is = g
	}
	if *is != g {
		return violated("stream %v: this group and %s have the same end of it", l.Link, (*is).name)
	}
	return nil
}

// logSend takes an item that is committed as sent.
func (g *Group) logSend(r *ledger.Record) error {
	l := g.h.link(r.Link)
	if err := l.end(g, &l.from); err != nil {
		return err
	}
	l.sent++
	l.items.push(bytes.Clone(r.Bytes))
	g.arrival.discarded(r)
	return nil
}

// logReceive checks that a log has of a stream what the sender's log has, each item once, in order, without a gap.
func (g *Group) logReceive(r *ledger.Record) error {
	l := g.h.link(r.Link)
	if err := l.end(g, &l.to); err != nil {
		return err
	}
	switch {
	case r.Seq != l.received+1:
		return violated("stream %v: item %d is received after %d", r.Link, r.Seq, l.received)
	case l.items.len() == 0:
		return violated("stream %v: item %d is received; %d are committed as sent", r.Link, r.Seq, l.sent)
	}
	if sent := l.items.pop(); !bytes.Equal(sent, r.Bytes) {
		return violated("stream %v: item %d has %d bytes; %d other ones were sent", r.Link, r.Seq, len(r.Bytes),
			len(sent))
	}
	l.received++
	g.h.received++
	return g.arrive(r)
}

// logTaken checks that the sender forgets only what the receiver has committed.
func (g *Group) logTaken(r *ledger.Record) error {
	l := g.h.link(r.Link)
	switch {
	case l.from != g || r.Seq > l.received:
		return violated("stream %v: the items up to %d are forgotten; %d are received", r.Link, r.Seq, l.received)
	case r.Seq < l.taken:
		return violated("stream %v: the items up to %d are forgotten after %d", r.Link, r.Seq, l.taken)
	}
	l.taken = r.Seq
	return nil
}

// finishLinks checks that nothing that was sent is missing.
func (h *History) finishLinks() error {
	for _, k := range slices.SortedFunc(maps.Keys(h.links), compareLinks) {
		if l := h.links[k]; l.received != l.sent || l.taken != l.sent {
			return violated("stream %v: at the end %d items are sent, %d received, %d forgotten", k, l.sent, l.received,
				l.taken)
		}
	}
	return nil
}

func compareLinks(a, b ledger.Link) int {
	if n := a.From.Compare(b.From); n != 0 {
		return n
	}
	return a.To.Compare(b.To)
}

// arrival is an item with commands that a transaction has received. Either all of them are for the switch, or all are
// void, because they were sent to another epoch.
type arrival struct {
	ledger.Link
	seq          uint64
	count        int
	due          []byte // the commands that are not queued
	foreign      bool   // they are for another epoch than the log has, or the switch is down there
	queued, void int
}

// arrive begins an arrival if the item has commands, or takes a piece of an actor.
func (g *Group) arrive(r *ledger.Record) error {
	it := parseItem(r.Bytes)
	if it.piece != nil {
		return g.logPiece(r, it.piece)
	}
	if it.count == 0 {
		return nil
	}
	a := &arrival{Link: r.Link, seq: r.Seq, count: int(it.count), due: bytes.Clone(it.commands)}
	log := g.h.ofAny(r.Link.To.Switch).newest()
	a.foreign = log == nil || log.ended || it.epoch != 0 && it.epoch != log.epoch
	g.arrival = a
	return nil
}

// queue checks a command that is logged in the transaction.
func (a *arrival) queue(r *ledger.Record) error {
	if a == nil {
		return nil
	}
	msg, rest, err := openflow.Next(a.due)
	switch {
	case a.foreign:
		return violated("stream %v: item %d has commands for another epoch, and they are queued", a.Link, a.seq)
	case err != nil || msg == nil || r.Switch != a.To.Switch ||
		!bytes.Equal(msg[openflow.HeaderLen:], r.Bytes[openflow.HeaderLen:]):
		return violated("stream %v: item %d has %d commands, and others are queued", a.Link, a.seq, a.count)
	}
	a.due = rest
	a.queued++
	return nil
}

// discarded takes the item that tells that all commands are void.
func (a *arrival) discarded(r *ledger.Record) {
	if a != nil && r.Link == (ledger.Link{From: a.To, To: a.From}) {
		a.void += a.count
	}
}

// complete is called at the end of the transaction. The hosted application is not told that its commands are void.
func (a *arrival) complete() error {
	if a != nil && a.From.App == replaying.Name && a.queued+a.void == 0 {
		return nil
	}
	if a != nil && max(a.queued, a.void) != a.count || a != nil && min(a.queued, a.void) != 0 {
		return violated("stream %v: item %d has %d commands; %d are queued, %d void", a.Link, a.seq, a.count, a.queued,
			a.void)
	}
	return nil
}

// Framed checks what a controller sends for this group to another: items that are committed as sent,
// acknowledgements of items that are committed as received, and arrivals that are committed. A leader that was
// deposed may send for actors which have departed since, and the leader of the group to which an actor is on its
// way sends what has come with it.
func (g *Group) Framed(frame []byte) {
	if !g.h.failed {
		g.report(g.framed(frame))
	}
}

func (g *Group) framed(frame []byte) error {
	d := reader{b: frame}
	d.uvarint() // the group
	for len(d.b) > 0 && !d.short {
		kind, k, seq := d.byte(), d.link(), d.uvarint()
		l := g.h.link(k)
		if kind != frameItems {
			if kind == frameArrived {
				if err := g.tellsArrival(k.To, d.uvarint()); err != nil {
					return err
				}
			}
			if seq > l.received || seq > 0 && !g.may(l.to, l.receivers, k.To) {
				return violated("stream %v: item %d is acknowledged; %d are committed as received", k, seq, l.received)
			}
			continue
		}
		for n := d.uvarint(); n > 0 && !d.short; n-- {
			item := d.item()
			if seq > l.sent || !g.may(l.from, l.senders, k.From) {
				return violated("stream %v: item %d leaves; %d are committed as sent", k, seq, l.sent)
			}
			if at := seq - l.received; seq > l.received && !bytes.Equal(item, l.items.items[l.items.head+int(at)-1]) {
				return violated("stream %v: item %d leaves, and is not the one that is committed", k, seq)
			}
			seq++
		}
	}
	if d.short {
		return fmt.Errorf("a frame between groups %w", errShort)
	}
	return nil
}

// tellsArrival checks that an actor has arrived in this group with a version of its assignment, if that is the newest.
func (g *Group) tellsArrival(a ledger.Actor, version uint64) error {
	mover := moverOf(a)
	newest := g.h.versions[mover]
	if version > newest || version == newest && g.h.owners[mover] != g {
		return violated("%v is said to live in %s as version %d; version %d is the newest, and is not there", a, g.name,
			version, newest)
	}
	return nil
}
