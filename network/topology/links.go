package topology

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// clock counts the probes of a switch. A number is never used again, not even after the switch was away, because the
// count starts from the time.
type clock struct {
	_      struct{}                 `cbor:",toarray"`
	Seq    uint64                   // of the last probes
	Rounds [missedRounds + 1]uint64 // the first of each round, the present one last
	Next   app.Port                 // the next to be probed; 0 begins a round
	Eager  bool                     // the first round, which is fast
}

func newClock(now time.Time) clock {
	c := clock{Seq: uint64(now.UnixNano()), Eager: true}
	for i := range c.Rounds {
		c.Rounds[i] = c.Seq
	}
	return c
}

// horizon is the sequence number below which a probe is too old to count. A link without a later one is lost.
func (c *clock) horizon() uint64 { return c.Rounds[0] }

func (c *clock) beginRound() {
	copy(c.Rounds[:], c.Rounds[1:])
	c.Rounds[missedRounds] = c.Seq
}

// Rejected counts LLDP frames that changed nothing, by port. A few stale ones are normal when ports and switches go
// down.
type Rejected struct {
	_         struct{} `cbor:",toarray"`
	Malformed uint64   // not LLDP
	Foreign   uint64   // of others, without our seal
	Forged    uint64   // sealed with another key
	Reflected uint64   // received by the port that sent it
	Stale     uint64   // sent too long ago, or before its port or switch was down
	Replayed  uint64   // this probe, or a later one of the same port, has counted already
	Contested uint64   // from or at a port that has another link
}

// Total is the sum.
func (r Rejected) Total() uint64 {
	return r.Malformed + r.Foreign + r.Forged + r.Reflected + r.Stale + r.Replayed + r.Contested
}

// tick probes the next few ports of a switch, and takes down the links from these ports that have been silent.
func (t *topology) tick(tx *app.Tx, in app.Timer) error {
	id, err := switchOf(in.Name)
	if err != nil {
		return err
	}
	c, up := t.clocks.Get(tx, id)
	row, _ := t.switches.Get(tx, id)
	if !up {
		return nil
	}
	c.Seq++
	if c.Next == 0 {
		c.beginRound()
	}
	first, _ := slices.BinarySearch(row.Ports, c.Next)
	last := min(first+perTick, len(row.Ports))
	ch := changes{reason: ProbesLost}
	for _, port := range row.Ports[first:last] {
		at := app.PortOf{Switch: id, Port: port}
		p, _ := t.ports.Get(tx, all, at)
		if !p.Up {
			continue
		}
		if seq, _ := t.seen.Get(tx, all, at); p.ToUp && seq < c.horizon() {
			t.linkDown(tx, at, &p, &ch)
			t.ports.Put(tx, all, at, p)
		}
		t.probe(tx, at, p.HwAddr, c.Seq)
	}
	gap := c.advance(row.Ports, last)
	t.clocks.Put(tx, id, c)
	return errors.Join(ch.emit(tx), tx.SetTimer(in.Name, gap, nil))
}

// advance moves to the port at index next, and returns when to continue. Ticks are spread over the interval, also among
// switches that came up together.
func (c *clock) advance(ports []app.Port, next int) (gap time.Duration) {
	ticks := max(1, (len(ports)+perTick-1)/perTick)
	gap, c.Next = Interval/time.Duration(ticks), 0
	if next < len(ports) {
		c.Next = ports[next]
	}
	switch {
	case c.Eager && c.Next != 0:
		return eagerGap
	case c.Eager:
		c.Eager = false
		return 1 + rand.N(Interval)
	}
	return gap
}

func (t *topology) probe(tx *app.Tx, from app.PortOf, hw app.MAC, seq uint64) {
	key, _ := t.key.Get(tx, all)
	tx.PacketOut(from.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(from.Port, 0), Data: appendProbe(nil, key, from, hw, seq)})
}

// probeNow probes a port out of turn, if it is up.
func (t *topology) probeNow(tx *app.Tx, from app.PortOf) {
	p, _ := t.ports.Get(tx, all, from)
	c, _ := t.clocks.Get(tx, from.Switch)
	if !p.Up {
		return
	}
	c.Seq++
	t.clocks.Put(tx, from.Switch, c)
	t.probe(tx, from, p.HwAddr, c.Seq)
}

func (t *topology) packetIn(tx *app.Tx, in app.PacketIn) error {
	at := app.PortOf{Switch: in.Switch, Port: in.InPort}
	row, known := t.ports.Get(tx, all, at)
	switch {
	case !known || !row.Up: // the port went down meanwhile
		return nil
	case isLLDP(in.Data):
		return t.lldp(tx, at, row, in.Data)
	}
	return t.sight(tx, at, row, in.Data)
}

// lldp records the link that a probe has crossed.
func (t *topology) lldp(tx *app.Tx, at app.PortOf, to portRow, frame []byte) error {
	p, err := parseProbe(frame)
	key, _ := t.key.Get(tx, all)
	c, sending := t.clocks.Get(tx, p.from.Switch)
	from, known := t.ports.Get(tx, all, p.from)
	last, _ := t.seen.Get(tx, all, p.from)

	r, _ := t.rejected.Get(tx, all, at)
	was := r
	switch {
	case errors.Is(err, errForeign):
		r.Foreign++
	case err != nil:
		r.Malformed++
	case !p.genuine(key):
		r.Forged++
	case p.from == at:
		r.Reflected++
	case !sending || !known || p.seq <= from.Since || p.seq < c.horizon():
		r.Stale++
	case p.seq <= last:
		r.Replayed++
	// the other link stays until it is down or has been silent for long
	case from.ToUp && from.To != at, to.FromUp && to.From != p.from:
		r.Contested++
	}
	if r != was {
		t.rejected.Put(tx, all, at, r)
		return nil
	}
	t.seen.Put(tx, all, p.from, p.seq)
	if from.ToUp {
		return nil
	}
	return t.linkUp(tx, Link{p.from, at}, from, to)
}

// linkUp records one direction of a link. The port at its end is probed at once, so that the other direction is found
// without delay.
func (t *topology) linkUp(tx *app.Tx, l Link, from, to portRow) error {
	now := tx.Now().UnixNano()
	from.To, from.ToUp, from.ToChanged, from.Changed, from.Silent = l.To, true, now, now, false
	to.From, to.FromUp, to.Changed, to.Silent = l.From, true, now, false
	var ch changes
	t.forgetHosts(tx, l.From, &from, &ch) // those learned there before the link was known
	t.forgetHosts(tx, l.To, &to, &ch)
	t.ports.Put(tx, all, l.From, from)
	t.ports.Put(tx, all, l.To, to)
	both := to.ToUp && to.To == l.From
	if !to.ToUp {
		t.probeNow(tx, l.To)
	}
	return errors.Join(app.Emit(tx, LinkUp{l, both}), ch.emit(tx))
}

// linkDown takes down the link from a port. The caller writes row.
func (t *topology) linkDown(tx *app.Tx, at app.PortOf, row *portRow, ch *changes) {
	now := tx.Now().UnixNano()
	silent := ch.reason == ProbesLost
	row.ToUp, row.ToChanged, row.ToReason, row.Changed, row.Silent = false, now, ch.reason, now, silent
	if to, known := t.ports.Get(tx, all, row.To); known {
		to.FromUp, to.Changed, to.Silent = false, now, silent
		t.ports.Put(tx, all, row.To, to)
	}
	ch.down = append(ch.down, Link{at, row.To})
}
