package liveness

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Every is the time from one measurement of a link to the next.
const Every = 10 * time.Minute

// Resolution is the accuracy of a round trip that is measured through a controller.
const Resolution = time.Millisecond

const (
	pairs   = 8           // of a measurement
	pairGap = time.Second // from one pair to the next: longer round trips are not measured
	tickGap = 100 * time.Millisecond
	perTick = 16 // pairs: so few leave in a tick, however many links there are

	// overdue is how late the first of the queue may be before the timer is taken for lost, because the handler of its
	// tick failed.
	overdue = 10 * time.Second

	timer = "measure" // set whenever the queue is not empty, to when its first is due or later
)

// first returns when the first in the queue is due.
func (l *liveness) first(tx *app.Tx) (due uint64, any bool) {
	for due := range l.queue.All(tx, all) {
		return due, true
	}
	return 0, false
}

// place puts a link into the queue at due, or at the next free time after it.
func (l *liveness) place(tx *app.Tx, at app.PortOf, due uint64) uint64 {
	for {
		if _, taken := l.queue.Get(tx, all, due); !taken {
			l.queue.Put(tx, all, due, at)
			return due
		}
		due++
	}
}

// tick handles the links that are due, a few at a time.
func (l *liveness) tick(tx *app.Tx, _ app.Timer) error {
	now := uint64(tx.Now().UnixNano())
	n := 0
	for due, at := range l.queue.All(tx, all) {
		if due > now || n == perTick {
			break
		}
		n++
		l.queue.Delete(tx, all, due)
		if err := l.visit(tx, at); err != nil {
			return err
		}
	}
	next, any := l.first(tx)
	if !any {
		return nil
	}
	after := tickGap
	if next > now {
		after = max(after, time.Duration(next-now))
	}
	return tx.SetTimer(timer, after, nil)
}

// visit continues or begins the measurement of a link, or probes a switch that is down over it.
func (l *liveness) visit(tx *app.Tx, at app.PortOf) error {
	row, known := l.links.Get(tx, all, at)
	if !known {
		return nil
	}
	row.Due = 0
	var again time.Duration
	var err error
	switch {
	case !row.Up: // it is queued again when it is up
		row.Sent, row.Samples = 0, nil
		if row.Reason == topology.SwitchIsDown {
			again, err = l.ask(tx, at, &row)
		}
	case row.Sent < pairs:
		from := at
		if row.Sent%2 == 1 { // alternate between both ends, to learn of each whether it returns frames
			from = row.To
		}
		row.Sent++
		l.send(tx, from, &row)
		again = pairGap
	default:
		if len(row.Samples) > 0 {
			slices.Sort(row.Samples)
			row.RTT, row.Measured = row.Samples[len(row.Samples)/2], tx.Now().UnixNano()
		}
		l.learn(tx, at)
		row.Sent, row.Samples = 0, nil
		again = Every - rand.N(Every/8) // spread links that were found together
	}
	if again > 0 {
		row.Due = l.place(tx, at, uint64(tx.Now().Add(again).UnixNano()))
	}
	l.links.Put(tx, all, at, row)
	return err
}

// send sends a pair of frames.
func (l *liveness) send(tx *app.Tx, from app.PortOf, row *linkRow) {
	row.renew(tx)
	l.out(tx, frame{from, row.Seq, true}, from.Port, 0)
	l.out(tx, frame{from, row.Seq, false}, of13.PortController, of13.MaxLenNoBuffer)
}

// renew begins to wait for frames with another number: one that was never used before, even if the link was forgotten
// meanwhile.
func (row *linkRow) renew(tx *app.Tx) {
	row.Seq = max(row.Seq+1, uint64(tx.Now().UnixNano()))
	row.Direct, row.Over = 0, 0
}

func (l *liveness) out(tx *app.Tx, f frame, to app.Port, maxLen uint16) {
	key, _ := l.secret.Get(tx, all)
	tx.PacketOut(f.from.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(to, maxLen), Data: appendFrame(nil, key, f)})
}

// packetIn records that a frame has come back. Each counts once, and only those of the last pair.
func (l *liveness) packetIn(tx *app.Tx, in app.PacketIn) error {
	if !ours(in.Data) {
		return nil
	}
	key, _ := l.secret.Get(tx, all)
	f, ok := parseFrame(in.Data, key)
	if !ok || f.from.Switch != in.Switch {
		return nil
	}
	peer, _ := l.peers.Get(tx, all, f.from)
	lower, upper := order(f.from, peer)
	row, known := l.links.Get(tx, all, lower)
	if !known || row.To != upper || f.seq != row.Seq {
		return nil
	}
	arrival := &row.Direct
	if f.over {
		if arrival = &row.Over; in.InPort != f.from.Port || in.EthDst() != homeward {
			return nil
		}
	}
	if *arrival != 0 {
		return nil
	}
	*arrival = tx.Now().UnixNano()
	if f.over {
		if err := l.cameBack(tx, f.from, lower, row); err != nil {
			return err
		}
	}
	if row.Direct != 0 && row.Over != 0 {
		row.Samples = append(row.Samples, max(0, row.Over-row.Direct)) // a negative difference is noise
	}
	l.links.Put(tx, all, lower, row)
	return nil
}
