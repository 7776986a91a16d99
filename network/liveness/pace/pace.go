// Package pace decides at which interval BFD sends over each link. It begins careful, becomes fast while no false alarm
// is seen, and backs off when links are taken for dead that are not. It is pure: observations and times go in,
// intervals come out.
//
// It configures nothing: package setup does that, and also makes the observations.
package pace

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	// careful is where a new link begins, and the least interval after a false alarm.
	careful = 100 * time.Millisecond
	// detection bounds the time in which a dead link is detected, however slow the machines are.
	detection = 1500 * time.Millisecond

	// A link becomes faster when it has been quiet for its trial. The trial is doubled by each false alarm, and halved
	// each time that the link has been quiet for so long at the shortest interval.
	firstTrial = 3 * time.Second
	lastTrial  = 5 * time.Minute

	// falseWithin is how soon a link comes back after an alarm that was false: Open vSwitch needs one to three seconds,
	// and more where it waits for a processor.
	falseWithin = 20 * time.Second
	// together is how close alarms are that have one cause.
	together = time.Second
)

// Link identifies a link by its two ends, the lower first.
type Link struct{ A, B app.PortOf }

// meets reports whether two links have a switch in common.
func (l Link) meets(o Link) bool {
	return l.A.Switch == o.A.Switch || l.A.Switch == o.B.Switch || l.B.Switch == o.A.Switch || l.B.Switch == o.B.Switch
}

// Observation is what the databases of both ends say of a link.
type Observation struct {
	Link     Link
	Least    time.Duration // the shortest interval for its round-trip time
	Found    time.Duration // the interval that is configured, the longer of both ends; 0: none
	Up       bool          // BFD, at both ends
	Carrier  bool          // at both ends
	Flaps    int           // how often BFD has gone down or come up, the sum of both ends
	Reported bool          // both ends are known. Else only Link and Least are valid
}

// Pace is the intervals of all links. The zero value has none.
type Pace struct {
	multiplier int
	links      map[Link]*state
	alarms     []alarm // of the last second: at most one of each link
	burstAt    time.Time
}

// state is what is known of a link.
type state struct {
	interval, trial time.Duration
	quiet           time.Time // since when nothing has happened
	began           bool      // an observation of both ends has been made
	up, cut         bool      // BFD; the carrier was lost since it was last up
	flaps           int
	alarm           time.Time // when BFD went down; zero: it has not, or is up again
	counted         bool      // that was part of a burst
	alarms          int       // false ones
}

type alarm struct {
	at   time.Time
	link Link
}

// New returns a Pace for links on which BFD misses that many packets before a link is dead.
func New(multiplier int) *Pace {
	return &Pace{multiplier: max(1, multiplier), links: map[Link]*state{}}
}

// Slowest returns the longest interval of a link that could have least.
func (p *Pace) Slowest(least time.Duration) time.Duration {
	return max(least, detection/time.Duration(p.multiplier))
}

func (p *Pace) careful(least time.Duration) time.Duration {
	return max(least, min(careful, p.Slowest(least)))
}

// Interval returns the interval of a link, which is least or longer.
func (p *Pace) Interval(l Link, least time.Duration) time.Duration {
	if s := p.links[l]; s != nil {
		return max(s.interval, least)
	}
	return p.careful(least)
}

// Began reports whether both ends of a link have been observed, and so whether its interval takes account of what an
// earlier leader has found out.
func (p *Pace) Began(l Link) bool {
	s := p.links[l]
	return s != nil && s.began
}

// FalseAlarms returns how many false alarms a link had.
func (p *Pace) FalseAlarms(l Link) int {
	if s := p.links[l]; s != nil {
		return s.alarms
	}
	return 0
}

// Change says that the interval of a link has changed, or that it begins.
type Change struct {
	Link     Link
	Interval time.Duration
	Begins   bool
	Slower   bool
	Why      string // for the log
}

// Look takes what is observed of all links at one time, and how late the observer was. It returns what has changed.
// Links that are not observed are forgotten.
func (p *Pace) Look(now time.Time, late time.Duration, all []Observation) (changes []Change) {
	seen := make(map[Link]*state, len(all))
	for i := range all {
		o := &all[i]
		s := p.links[o.Link]
		if s == nil {
			s = &state{interval: p.careful(o.Least), trial: firstTrial, quiet: now}
		}
		seen[o.Link] = s
		if !o.Reported {
			s.quiet = now
			continue
		}
		if !s.began { // an earlier leader may have found out more
			s.began, s.up, s.flaps = true, o.Up, o.Flaps
			if o.Found > 0 {
				s.interval = min(max(o.Found, o.Least), p.Slowest(o.Least))
			}
			changes = append(changes, Change{Link: o.Link, Interval: s.interval, Begins: true, Why: "it begins"})
		}
		if c := p.follow(now, s, o); c.Why != "" {
			changes = append(changes, c)
		}
	}
	p.links = seen
	if p.burst(now) {
		return append(changes, p.backOff(now, all)...)
	}
	for i := range all {
		if c := p.quicken(now, late, &all[i]); c.Why != "" {
			changes = append(changes, c)
		}
	}
	return changes
}

// follow notes alarms of a link, and slows it down after a false one.
func (p *Pace) follow(now time.Time, s *state, o *Observation) (c Change) {
	down := s.up && (!o.Up || o.Flaps >= s.flaps+2) // two changes of one end are an alarm that is over
	s.up, s.flaps, s.cut = o.Up, o.Flaps, s.cut || !o.Carrier
	if down {
		s.alarm, s.counted, s.quiet = now, false, now
		switch {
		case s.cut:
		case now.Sub(p.burstAt) <= together:
			s.counted = true
		default:
			p.alarms = append(p.alarms, alarm{now, o.Link})
		}
	}
	if !o.Up {
		s.quiet = now
		return c
	}
	if !s.alarm.IsZero() && !s.cut && now.Sub(s.alarm) <= falseWithin {
		s.alarms++
		if !s.counted && p.slow(now, s, o.Least) {
			c = Change{Link: o.Link, Interval: s.interval, Slower: true, Why: "a false alarm"}
		}
	}
	s.alarm, s.cut = time.Time{}, false
	return c
}

// slow doubles the interval and the trial of a link. It reports whether the interval has changed.
func (p *Pace) slow(now time.Time, s *state, least time.Duration) bool {
	was := s.interval
	s.interval = min(max(2*s.interval, p.careful(least)), p.Slowest(least))
	s.trial, s.quiet = min(2*s.trial, lastTrial), now
	return s.interval != was
}

// burst reports whether links that have no switch in common went down together: that is no failure of theirs. Alarms
// that follow within a second belong to the same burst, which is reported once.
func (p *Pace) burst(now time.Time) bool {
	recent := p.alarms[:0]
	for _, a := range p.alarms {
		if s := p.links[a.link]; s != nil && !s.cut && now.Sub(a.at) <= together {
			recent = append(recent, a)
		}
	}
	p.alarms = recent
	for i, a := range recent {
		for _, b := range recent[:i] {
			if !a.link.meets(b.link) {
				p.alarms, p.burstAt = nil, now
				return true
			}
		}
	}
	return false
}

// backOff slows down all links, whose alarms of now then count no more.
func (p *Pace) backOff(now time.Time, all []Observation) (changes []Change) {
	for i := range all {
		s := p.links[all[i].Link]
		s.counted = true
		if p.slow(now, s, all[i].Least) {
			changes = append(changes, Change{Link: all[i].Link, Interval: s.interval, Slower: true,
				Why: "many links went down together"})
		}
	}
	return changes
}

// quicken halves the interval of a link that has been quiet for its trial. An observer that is late by as much as a
// machine may be at the shorter interval is not quiet.
func (p *Pace) quicken(now time.Time, late time.Duration, o *Observation) (c Change) {
	s := p.links[o.Link]
	next := max((s.interval / 2).Truncate(time.Millisecond), o.Least)
	if late > time.Duration(p.multiplier-1)*next {
		s.quiet = now
	}
	if !s.up || now.Sub(s.quiet) < s.trial {
		return c
	}
	s.quiet = now
	if s.interval <= o.Least {
		s.trial = max(s.trial/2, firstTrial)
		return c
	}
	s.interval = next
	return Change{Link: o.Link, Interval: next, Why: fmt.Sprintf("no false alarm for %v", s.trial)}
}
