package monitor

import (
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// thing identifies a port or a flow entry of a switch.
type thing struct {
	port     app.Port // 0: it is an entry
	table    uint8
	priority uint16
	match    string
}

func thingOf(s Subject) thing {
	if s.Entry == nil {
		return thing{port: s.Port}
	}
	return thing{table: s.Entry.Table, priority: s.Entry.Priority, match: string(s.Entry.Match)}
}

// sample is what a switch has reported of a thing.
type sample struct {
	bytes [2]uint64     // of a port, received and sent; of an entry, the first
	age   time.Duration // since it is there, as the switch says; 0 if it does not
	now   int64         // ledger time, ns
}

// age returns a duration; 0 if the switch does not tell it.
func age(d of13.Duration) time.Duration {
	if d.Sec == ^uint32(0) {
		return 0
	}
	return time.Duration(d.Sec)*time.Second + time.Duration(d.Nsec)
}

// restarted reports whether counters have begun again since an earlier sample: the switch was restarted, or the entry
// was replaced.
func (s *sample) restarted(before sample) bool {
	return s.age < before.age || s.bytes[0] < before.bytes[0] || s.bytes[1] < before.bytes[1]
}

// rate returns two bounds of the bandwidth since an earlier sample, in bytes/s. The clock of the switch may be coarse,
// or not there at all, and that of the ledger has the delays of messages in it, so the one that has gone further gives
// the lower bound. ok is false if no time has passed.
//
// If an entry was replaced unnoticed, the lower bound is still not too high: the clock of the ledger has gone on for
// all of the time in which the new one has counted.
func (s *sample) rate(before sample) (least, most uint64, ok bool) {
	ledger, own := time.Duration(s.now-before.now), s.age-before.age
	if own == 0 {
		own = ledger
	}
	if min(ledger, own) <= 0 {
		return 0, 0, false
	}
	bytes := float64(max(s.bytes[0]-before.bytes[0], s.bytes[1]-before.bytes[1]))
	return uint64(bytes / max(ledger, own).Seconds()), uint64(bytes / min(ledger, own).Seconds()), true
}

// judge reports whether a thing is above the threshold, after it was or was not, and the value that says so. known is
// whether there is an earlier sample.
func (t *Trigger) judge(was bool, s, before sample, known bool) (is bool, value uint64) {
	if t.Measure == Duration {
		value = uint64(s.age.Milliseconds())
		return value >= t.Above, value
	}
	switch {
	case !known:
		return was, 0
	case s.restarted(before):
		return false, 0
	}
	least, most, ok := s.rate(before)
	switch {
	case ok && !was && least >= t.Above:
		return true, least
	case ok && was && most < t.Below:
		return false, most
	}
	return was, 0
}

// source is a switch and what it was asked for.
type source struct {
	at   app.Switch
	part of13.Part
}

// reading is the samples of a reply, and of the one before. It is in memory, so it exists only at a controller that has
// handled both, and the request between them: bandwidth is measured from one poll to the next, or not at all. Otherwise
// a controller that leads again would measure from before a crossing that others have told.
type reading struct {
	xid         uint32 // of the request
	before, now map[thing]sample
}

// maxReadings bounds the switches with samples in memory, twice for those with triggers of both kinds. At the bound all
// are forgotten, so each switch is polled once without measuring bandwidth.
const maxReadings = 4096

// begin begins the reading of a reply to a request, after the reply to another one; last is 0 if there was none.
func (m *monitor) begin(s source, last, xid uint32) {
	next := &reading{xid: xid, now: map[thing]sample{}}
	if r := m.readings[s]; r != nil && last != 0 && r.xid == last {
		next.before = r.now
	} else if r == nil && len(m.readings) >= maxReadings {
		clear(m.readings)
	}
	m.readings[s] = next
}

// readingOf returns the reading of a reply. A part of it that is handled again is measured from the same samples.
func (m *monitor) readingOf(s source, xid uint32) *reading {
	if r := m.readings[s]; r == nil || r.xid != xid {
		m.begin(s, 0, xid)
	}
	return m.readings[s]
}

// sample keeps a sample, and returns the one before.
func (r *reading) sample(id thing, s sample) (before sample, known bool) {
	if _, there := r.now[id]; there || len(r.now) < MaxWatched {
		r.now[id] = s
	}
	before, known = r.before[id]
	return before, known
}
