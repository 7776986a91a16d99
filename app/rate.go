package app

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// RateLimit bounds how many messages each actor of the application handles: perSecond of them on average, and burst of
// them at once. A message for several handlers of the actor counts once. What comes above the bound waits, and is
// handled in the order in which it came. For each actor 1,024 messages wait, with 1 MiB; beyond that the handler fails.
// A message below ExactlyOnce does not wait: it is dropped. `holdfast actors` counts both.
//
// Bounded are messages of switches, emitted messages, calls, and requests of HTTP clients. SwitchUp and SwitchDown only
// wait behind others. Timers, replies and answers are not bounded, because the actor has caused them, and may overtake
// what waits. A message whose handler fails does not count.
//
// What waits is replicated, survives the leader, and moves with the actor. Each message costs a write to the log.
// perSecond and burst are from 1 to 1,000,000. RateLimit returns the application. Call it before the controller starts.
func (a *App) RateLimit(perSecond, burst int) *App {
	if perSecond < 1 || perSecond > maxRate || burst < 1 || burst > maxRate {
		panic(fmt.Sprintf("application %s: %d messages a second, %d at once: from 1 to %d are possible", a.name,
			perSecond, burst, maxRate))
	}
	every := time.Second / time.Duration(perSecond)
	a.rate = &rate{perSecond, int64(every), int64(every) * int64(burst-1)}
	return a
}

// Limit implements ledger.Limiter.
func (a *App) Limit() (perSecond int) {
	if a.rate == nil {
		return 0
	}
	return a.rate.perSecond
}

const (
	maxRate = 1_000_000
	// maxWaiting and maxWaitingBytes bound what waits for an actor. The last message may exceed the bytes.
	maxWaiting      = 1 << 10
	maxWaitingBytes = 1 << 20
	// maxReleased bounds the messages that are handled at a time when they have waited.
	maxReleased = 64
)

// rate is the bound of RateLimit, in ns of ledger time. It is the generic cell rate algorithm (ITU-T I.371).
type rate struct {
	perSecond int
	every     int64 // from one message to the next on average
	ahead     int64 // how much earlier than that a message may come
}

// meter is what an actor has used of its rate, and what waits. It is a row of a table, so it is replicated, and moves
// with the actor. The messages are fields of the same cell, numbered.
type meter struct {
	next         int64  // when the next message would come at the average rate
	first, count uint64 // numbers of the messages that wait
	bytes        uint64 // of these
}

func (m *meter) ready(r *rate, now int64) bool { return m.next <= now+r.ahead }

// full reports whether no more messages can wait. SwitchUp and SwitchDown may use twice as much.
func (m *meter) full(switched bool) bool {
	share := uint64(1)
	if switched {
		share = 2
	}
	return m.count >= share*maxWaiting || m.bytes >= share*maxWaitingBytes
}

func (m *meter) use(r *rate, now int64) { m.next = max(m.next, now) + r.every }

// The tables of meters: of actors at a switch, and of all others. No table of an application is called so.
const (
	reserved       = "."
	metersOfSwitch = reserved + "rate at switches"
	metersOfKey    = reserved + "rate"
	meteredTimer   = "wait:rate" // its name is one that applications cannot use
	numbered       = 1           // Key.B of the fields with messages
)

func meterOf(at ledger.Shard) (table string, cell ledger.Key) {
	if at.Switch != 0 {
		return metersOfSwitch, ledger.Key{A: uint64(at.Switch)}
	}
	return metersOfKey, at.Key
}

// metered reports whether messages of a kind count.
func metered(in *ledger.Input) bool {
	switch in.Kind {
	case ledger.Message, ledger.SwitchUp, ledger.SwitchDown, ledger.Called:
		return true
	case ledger.Emitted:
		return !strings.HasPrefix(in.Name, replyPrefix)
	}
	return false
}

// admission is what was decided on the present message for an actor.
type admission struct {
	at ledger.Shard
	ok bool
}

// beginMetered is called for each input of an application with a rate.
func (tx *Tx) beginMetered(in *ledger.Input) {
	again, _ := tx.ledger.Redelivered()
	tx.kind, tx.free, tx.admissions = in.Kind, again || !metered(in) || tx.ledger.Degraded(), tx.admissions[:0]
}

// limited reports whether the present message counts.
func (tx *Tx) limited() bool { return tx.app.rate != nil && !tx.free }

// admit reports whether the actor that the handler has entered is to handle the present message now. If not, what was
// done since a mark is undone, and the message waits or is dropped.
func (tx *Tx) admit(before ledger.Mark) (bool, error) {
	if !tx.limited() {
		return true, nil
	}
	at := tx.ledger.Shard()
	for _, d := range tx.admissions {
		if d.at == at {
			return d.ok, tx.refuse(before, d.ok)
		}
	}
	now := tx.ledger.Now().UnixNano()
	m, err := tx.meter(at, now)
	if err != nil {
		return false, err
	}
	switched := tx.kind == ledger.SwitchUp || tx.kind == ledger.SwitchDown
	ok := m.count == 0 && (switched || m.ready(tx.app.rate, now))
	waits := !ok && (switched || tx.ledger.Level() == ExactlyOnce)
	if waits && m.full(switched) {
		return false, fmt.Errorf("%v handles %d messages a second, and %d of %d bytes wait: one more is dropped",
			tx.ledger.Actor(), tx.app.rate.perSecond, m.count, m.bytes)
	}
	tx.admissions = append(tx.admissions, admission{at, ok})
	if err := tx.refuse(before, ok); err != nil {
		return false, err
	}
	switch {
	case waits:
		return false, tx.enqueue(at, m, now)
	case !ok:
		tx.ledger.Refused(true)
	case !switched:
		m.use(tx.app.rate, now)
		tx.setMeter(at, m)
	}
	return ok, nil
}

// refuse undoes what was done since a mark, unless ok.
func (tx *Tx) refuse(before ledger.Mark, ok bool) error {
	if ok {
		return nil
	}
	tx.refused, tx.asks = true, nil
	return tx.ledger.Rewind(before)
}

// admitRun is admit for a handler that has run, because only that tells where it belongs, and has returned an error.
func (tx *Tx) admitRun(before ledger.Mark, err error) error {
	if err != nil && !tx.waits(err) {
		return err
	}
	if ok, failed := tx.admit(before); !ok {
		return failed
	}
	return err
}

// enqueue makes the present message wait.
func (tx *Tx) enqueue(at ledger.Shard, m meter, now int64) error {
	kept := tx.ledger.Keep()
	table, cell := meterOf(at)
	tx.ledger.Put(tx.ledger.Table(table), cell, ledger.Key{A: m.first + m.count, B: numbered}, kept)
	m.count++
	m.bytes += uint64(len(kept))
	tx.setMeter(at, m)
	tx.ledger.Refused(false)
	if _, set := tx.ledger.Timer(meteredTimer); set {
		return nil
	}
	return tx.release(m, now)
}

// release sets the timer for the first message that waits.
func (tx *Tx) release(m meter, now int64) error {
	after := int64(0)
	if r := tx.app.rate; r != nil {
		after = m.next - r.ahead - now
	}
	return tx.ledger.SetTimer(meteredTimer, time.Duration(after), nil)
}

// released takes the timer: the messages that have waited long enough are handled, each in a call of its own.
func (tx *Tx) released() error {
	at, now := tx.ledger.Shard(), tx.ledger.Now().UnixNano()
	m, err := tx.meter(at, now)
	if err != nil {
		return err
	}
	r := tx.app.rate // nil: this release has no bound any more
	name, cell := meterOf(at)
	table := tx.ledger.Table(name)
	for n := 0; n < maxReleased && m.count > 0 && (r == nil || m.ready(r, now)); n++ {
		field := ledger.Key{A: m.first, B: numbered}
		kept, _ := tx.ledger.Get(table, cell, field)
		if err := tx.ledger.Redeliver(kept); err != nil {
			return err
		}
		tx.ledger.Delete(table, cell, field)
		m.first++
		m.count--
		m.bytes -= uint64(len(kept))
		if r != nil {
			m.use(r, now)
		}
	}
	tx.setMeter(at, m)
	if m.count == 0 {
		return nil
	}
	return tx.release(m, now)
}

// meter returns the meter of an actor.
func (tx *Tx) meter(at ledger.Shard, now int64) (m meter, err error) {
	name, cell := meterOf(at)
	b, ok := tx.ledger.Get(tx.ledger.Table(name), cell, ledger.Key{})
	if !ok {
		return m, nil
	}
	var next uint64
	for _, v := range []*uint64{&next, &m.first, &m.count, &m.bytes} {
		n := 0
		if *v, n = binary.Uvarint(b); n <= 0 {
			return m, fmt.Errorf("%v: a rate in %d bytes: run the same release at all controllers", tx.ledger.Actor(),
				len(b))
		}
		b = b[n:]
	}
	m.next = int64(next)
	if r := tx.app.rate; r != nil { // of another group, whose ledger time was ahead
		m.next = min(m.next, now+r.ahead+r.every)
	}
	return m, nil
}

func (tx *Tx) setMeter(at ledger.Shard, m meter) {
	name, cell := meterOf(at)
	b := tx.scratch[:0]
	for _, v := range []uint64{uint64(m.next), m.first, m.count, m.bytes} {
		b = binary.AppendUvarint(b, v)
	}
	tx.scratch = b
	tx.ledger.Put(tx.ledger.Table(name), cell, ledger.Key{}, b)
}
