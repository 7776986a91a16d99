package sentry

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
)

// Hold is how long the word of a sentry holds that a link is dead. Then the switch's own BFD must have noticed: it does if it sends every second or more often.
const Hold = 3 * time.Second

// State is what a sentry knows of a link.
type State uint8

// The states. A link begins as Unwatched.
const (
	Unwatched State = iota // the switch goes by its own BFD: there is no session, or it has been lost for long, or was ended on purpose
	Alive                  // the session is up; the switch goes by its own BFD
	Dead                   // the session was lost: the switch is told so
)

// String implements fmt.Stringer.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unwatched"
}

// MarshalText is String, for JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is its reverse.
func (s *State) UnmarshalText(text []byte) error {
	for *s = Unwatched; *s <= Dead; *s++ {
		if s.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("state of a link: %q", text)
}

// judge is the next state of a link whose session has this status; since is when it entered the state that it is in. It is pure.
func judge(was State, since, now time.Duration, s bfd.Status) State {
	switch {
	case s.State == bfd.Up:
		return Alive
	case was == Alive && s.RemoteState == bfd.AdminDown:
		return Unwatched
	case was == Alive:
		return Dead
	case was == Dead && now-since >= Hold:
		return Unwatched
	}
	return was
}

// pace is the rhythm of a loop that should wake at due, and tells how far it was from that. Times are those of one clock that does not go back.
type pace struct {
	tick    time.Duration // between two passes
	due     time.Duration
	excuses int // in a row
}

const (
	// tolerance is by how much a pass may come late and still say what was silent. If it was asleep for longer, so may the peers have been, whose
	// machine may be the same.
	tolerance = time.Millisecond

	// maxExcuses bounds how often in a row peers are given time because we were late: a sentry that is always late must notice a dead link, too.
	maxExcuses = 3
)

// wake begins a pass. It returns the time of it, which is when it was due unless it is late, so that what is due at the same time is done in the same
// pass; and how much time peers are to be given, 0 as a rule.
func (p *pace) wake(now time.Duration) (at, excuse time.Duration) {
	late := now - p.due
	if late <= tolerance {
		at, p.excuses = p.due, 0
		p.due = max(p.due+p.tick, now+p.tick/2)
		return at, 0
	}
	p.due = now + p.tick
	if p.excuses++; p.excuses > maxExcuses {
		return now, 0
	}
	return now, late
}
