package topology

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// clock counts the probes of a switch, and the changes of its ports. A number is never used again, not even after the
// switch was away: the count starts from the time, and the row stays.
type clock struct {
	_      struct{}                 `cbor:",toarray"`
	Seq    uint64                   // of the last probes
	Rounds [missedRounds + 1]uint64 // the first of each round, the present one last
	Next   app.Port                 // the next to be probed; 0 begins a round
	Eager  bool                     // the first round, which is fast
}

func newClock(now time.Time, last clock) clock {
	c := clock{Seq: max(uint64(now.UnixNano()), last.Seq+1), Eager: true}
	for i := range c.Rounds {
		c.Rounds[i] = c.Seq
	}
	return c
}

// horizon is the sequence number below which a probe is too old to count.
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
	Replayed  uint64   // this probe, or a later one of the same port, has counted already, here or for another link
	Contested uint64   // from or at a port that has another link
}

func (r *Rejected) add(o Rejected) {
	r.Malformed, r.Foreign, r.Forged = r.Malformed+o.Malformed, r.Foreign+o.Foreign, r.Forged+o.Forged
	r.Reflected, r.Stale = r.Reflected+o.Reflected, r.Stale+o.Stale
	r.Replayed, r.Contested = r.Replayed+o.Replayed, r.Contested+o.Contested
}

// Total is the sum.
func (r Rejected) Total() uint64 {
	return r.Malformed + r.Foreign + r.Forged + r.Reflected + r.Stale + r.Replayed + r.Contested
}

// tick probes the next few ports of a switch, and tells the graph at which of them probes arrive no more.
func (t *topology) tick(tx *app.Tx, in app.Timer) error {
	c, _ := t.clocks.Get(tx, in.Switch)
	row, up := t.switches.Get(tx, in.Switch)
	if !up {
		return nil
	}
	c.Seq++
	if c.Next == 0 {
		c.beginRound()
	}
	first, _ := slices.BinarySearch(row.Ports, c.Next)
	last := min(first+perTick, len(row.Ports))
	var errs error
	for _, port := range row.Ports[first:last] {
		at := app.PortOf{Switch: in.Switch, Port: port}
		p, _ := t.ports.Get(tx, in.Switch, port)
		if !p.Up {
			continue
		}
		errs = errors.Join(errs, t.listen(tx, at, p, c.horizon()))
		t.probe(tx, at, p, c.Seq)
	}
	gap := c.advance(row.Ports, last)
	t.clocks.Put(tx, in.Switch, c)
	return errors.Join(errs, tx.SetTimer(probing, gap, nil))
}

// listen tells the graph if no probe has arrived at a port since the horizon.
func (t *topology) listen(tx *app.Tx, at app.PortOf, p portRow, horizon uint64) error {
	if p.From == (app.PortOf{}) || p.Silent {
		return nil
	}
	last, _ := t.seen.Get(tx, at.Switch, at.Port)
	if last.At >= horizon {
		return nil
	}
	p.Silent, p.Told = true, last.Seq
	t.ports.Put(tx, at.Switch, at.Port, p)
	return app.Emit(tx, p.heard(at))
}

// heard is what the graph is told of a port.
func (p *portRow) heard(at app.PortOf) heard {
	return heard{From: p.From, To: at, FromSince: p.FromSince, ToSince: p.Since, Seq: p.Told, Silent: p.Silent}
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

func (t *topology) probe(tx *app.Tx, from app.PortOf, p portRow, seq uint64) {
	key, _ := t.key.Get(tx, from.Switch)
	tx.PacketOut(from.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(from.Port, 0),
		Data:    appendProbe(nil, key, p.HwAddr, probe{from: from, since: p.Since, seq: seq})})
}

// probeNow probes a port out of turn, if it is up.
func (t *topology) probeNow(tx *app.Tx, from app.PortOf) {
	p, _ := t.ports.Get(tx, from.Switch, from.Port)
	c, _ := t.clocks.Get(tx, from.Switch)
	if _, began := t.key.Get(tx, from.Switch); !began || !p.Up {
		return
	}
	c.Seq++
	t.clocks.Put(tx, from.Switch, c)
	t.probe(tx, from, p, c.Seq)
}

// probeBack probes the port at the end of a new link at once, so that the other direction is found without delay.
func (t *topology) probeBack(tx *app.Tx, l LinkUp) error {
	if !l.Bidirectional {
		t.probeNow(tx, l.To)
	}
	return nil
}

func (t *topology) packetIn(tx *app.Tx, in app.PacketIn) error {
	at := app.PortOf{Switch: in.Switch, Port: in.InPort}
	if !isLLDP(in.Data) {
		return t.sight(tx, at, in.Data)
	}
	row, known := t.ports.Get(tx, at.Switch, at.Port)
	if !known || !row.Up { // the port went down meanwhile
		return nil
	}
	return t.lldp(tx, at, row, in.Data)
}

// lldp checks a probe. The graph is told if the probe is not one of the link that it knows.
func (t *topology) lldp(tx *app.Tx, at app.PortOf, row portRow, frame []byte) error {
	p, err := parseProbe(frame)
	key, _ := t.key.Get(tx, at.Switch)
	last, _ := t.seen.Get(tx, at.Switch, at.Port)
	var r Rejected
	switch {
	case errors.Is(err, errForeign):
		r.Foreign++
	case err != nil:
		r.Malformed++
	case !p.genuine(key):
		r.Forged++
	case p.from == at:
		r.Reflected++
	case row.From == (app.PortOf{}): // nothing has arrived here
	case row.From != p.from: // that link stays until it is down or has been silent for long
		r.Contested++
	case p.since < row.FromSince:
		r.Stale++
	case p.since == row.FromSince && p.seq <= last.Seq:
		r.Replayed++
	}
	if r != (Rejected{}) {
		t.reject(tx, at, r)
		return nil
	}
	c, _ := t.clocks.Get(tx, at.Switch)
	t.seen.Put(tx, at.Switch, at.Port, seenRow{Seq: p.seq, At: c.Seq})
	if row.From == p.from && row.FromSince == p.since && !row.Silent {
		return nil
	}
	row.From, row.FromSince, row.Told, row.Silent = p.from, p.since, p.seq, false
	t.ports.Put(tx, at.Switch, at.Port, row)
	return app.Emit(tx, row.heard(at))
}

func (t *topology) reject(tx *app.Tx, at app.PortOf, r Rejected) {
	sum, _ := t.rejected.Get(tx, at.Switch, at.Port)
	sum.add(r)
	t.rejected.Put(tx, at.Switch, at.Port, sum)
}

// asked says, for the port that a link leaves, whether what the receiver has heard is so.
func (t *topology) asked(tx *app.Tx, q asked) error {
	c, _ := t.clocks.Get(tx, q.From.Switch)
	p, _ := t.ports.Get(tx, q.From.Switch, q.From.Port)
	switch current := p.Up && p.Since == q.FromSince; {
	case !current, q.Silent && q.Seq < c.Rounds[1], q.Seq < c.horizon():
		return app.Emit(tx, lost(q))
	case q.Silent: // not enough probes were sent since
		return app.Emit(tx, unsure(q))
	}
	return app.Emit(tx, found(q))
}

// dismissed forgets whose probes arrive at a port, so that the next one is heard again.
func (t *topology) dismissed(tx *app.Tx, m dismissed) error {
	row, known := t.ports.Get(tx, m.To.Switch, m.To.Port)
	if !known {
		return nil
	}
	if m.Rejected != (Rejected{}) {
		t.reject(tx, m.To, m.Rejected)
	}
	if row.From != m.From || row.Told != m.Seq {
		return nil // it has been told of another one since
	}
	if m.Again {
		c, _ := t.clocks.Get(tx, m.To.Switch)
		row.Silent = false
		t.seen.Put(tx, m.To.Switch, m.To.Port, seenRow{Seq: m.Seq, At: c.Seq})
	} else {
		row.From, row.FromSince, row.Silent = app.PortOf{}, 0, false
		t.seen.Delete(tx, m.To.Switch, m.To.Port)
	}
	t.ports.Put(tx, m.To.Switch, m.To.Port, row)
	return nil
}
