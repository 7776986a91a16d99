// Package heartbeat finds out quickly that one end of a connection hears nothing from the other any more. It says when
// an end has to send something, so that the other end hears from it in each interval, and when the other end has been
// silent for so many intervals that the connection counts as lost. docs/design/control-path.md has the protocol.
//
// It is pure: its owner says what was sent and heard, and turns the clock. It does not know what a heartbeat looks
// like, and closes nothing.
package heartbeat

import "time"

// DefaultInterval is the default interval between two heartbeats.
const DefaultInterval = 100 * time.Millisecond

const (
	// Ticks is the number of calls of Monitor.Tick in each interval. So a loss is noticed a quarter of an interval late
	// at most.
	Ticks = 4
	// Missed is the number of intervals in which the other end must be silent to count as lost.
	Missed = 3

	// After each loss the next one takes twice as long to notice, up to maxDoublings times. An end that is often late,
	// because its machine is busy, is therefore soon waited for, and its connection is not made again and again.
	maxDoublings = 4
	// calm is the time without a loss, in ticks, after which one doubling is taken back: a minute by default.
	calm = 600 * Ticks
	// An end that answers heartbeats sends its own only if none came for so many ticks more. So on an idle connection
	// one end asks and the other answers, and they do not both ask.
	grace = 2
	// After so many ticks of silence each stream of a pair asks for itself: the one on which the last heartbeat was
	// sent may be one that the other end does not read.
	doubtful = Ticks + Ticks/2
)

// Monitor watches one end of a connection or of a stream in it, or of several one after the other to the same peer. The
// zero value is ready to use.
type Monitor struct {
	// Second: this end sends its own heartbeats only if those of the other end, which it answers, do not come.
	Second bool
	// Pair is that of the connection whose stream the monitor watches now; nil if the stream is all of its connection.
	Pair *Pair

	known     Pair // as at the last tick
	idle      int  // ticks since this end has sent something on this stream
	others    int  // ticks since it has sent something on any stream of the pair
	quiet     int  // ticks since it has heard something
	crowd     int  // the least that Seen.Crowd has said in this silence; 0: it was not asked
	doublings int
	calm      int // ticks since doublings has changed
}

// Seen is what has happened since the last tick.
type Seen struct {
	Sent    bool // this end has sent something
	Heard   bool // it has heard something
	Reading bool // it reads: otherwise it cannot know whether the other end is silent
	// Crowd returns how many times as long as on a quiet machine this end may wait for a processor; 0: not known yet.
	// It is asked from half of the time on after which the other end counts as lost; nil: nobody knows. See package
	// processors.
	Crowd func() int
}

// Tick is called Ticks times in each interval. send: this end has to send a heartbeat now. lost: the other end counts
// as lost; the next call is for a new connection.
//
// Ticks that come late are not made up for. So an end whose process was stopped does not blame the other one.
func (m *Monitor) Tick(s Seen) (send, lost bool) {
	if m.calm++; m.calm >= calm {
		m.doublings, m.calm = max(0, m.doublings-1), 0
	}
	m.idle, m.others, m.quiet = m.idle+1, m.others+1, m.quiet+1
	if s.Sent {
		m.idle = 0
	}
	if m.Pair != nil {
		s = m.share(s)
	}
	if s.Sent {
		m.others = 0
	}
	if s.Heard || !s.Reading {
		m.quiet, m.crowd = 0, 0
	}
	if m.quiet >= m.patience(s.Crowd) {
		m.Lost()
		return false, true
	}
	after := Ticks - 1
	if m.Second {
		after += grace
	}
	idle := m.idle
	if m.Pair != nil && m.quiet <= doubtful {
		idle = min(idle, m.others)
	}
	if idle < after {
		return false, false
	}
	if m.Pair != nil {
		m.Pair.sent++ // the others need not send as well
	}
	return true, false
}

// patience is how many ticks of silence there have to be now for the other end to count as lost. On a crowded machine,
// which the other end may be on, too, it is longer without a loss that has shown it, but never longer than after
// maxDoublings losses. The least crowd of a silence counts, since a quiet machine is crowded for moments.
func (m *Monitor) patience(crowd func() int) int {
	patience := Missed * Ticks << m.doublings
	if crowd == nil || m.quiet < patience/2 {
		return patience
	}
	if n := crowd(); m.crowd == 0 || n > 0 && n < m.crowd {
		m.crowd = n
	}
	return min(patience*max(1, m.crowd), Missed*Ticks<<maxDoublings)
}

// Lost is called when another monitor of the pair has found that the other end is lost. The next call of Tick is for a
// new connection.
func (m *Monitor) Lost() {
	m.doublings, m.calm = min(m.doublings+1, maxDoublings), 0
	m.idle, m.others, m.quiet, m.crowd = 0, 0, 0, 0
}
