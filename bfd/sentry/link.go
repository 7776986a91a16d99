package sentry

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
)

// Hold is how long the word of a sentry holds that a link is dead. Then the switch's own BFD must have noticed: it does
// if it sends every 500 ms or more often, and has a multiplier of 3.
const Hold = 3 * time.Second

// State is what a sentry knows of a link.
type State uint8

// The states. A link begins as Unwatched.
const (
	// the switch goes by its own BFD: there is no session, or it has been lost for long, or was ended on purpose
	Unwatched State = iota
	Alive           // the session is up; the switch goes by its own BFD
	Dead            // the session was lost: the switch is told so
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

// judge is the next state of a link whose session has this status; since is when it entered the state that it is in. It
// is pure.
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

// pace is the rhythm of a loop that should wake at due. Times are those of one clock that does not go back.
type pace struct {
	tick time.Duration // between two passes
	due  time.Duration
}

// wake begins a pass. It returns the time of it, which is when it was due unless it is late, so that what is due at the
// same time is done in the same pass; and by how much it is late.
func (p *pace) wake(now time.Duration) (at, late time.Duration) {
	late = now - p.due
	if at = now; late <= tolerance {
		at = p.due
	}
	p.due = max(p.due+p.tick, now+p.tick/2)
	return at, late
}

// rest is when the next pass begins: when it is due, and not before the loop has slept for as long as it has worked, or
// a tick, so that one with more links than it can carry leaves something of its processor to those that it is there
// for. It is no excuse for being late.
func (p *pace) rest(began, ended time.Duration) (until time.Duration) {
	return max(p.due, ended+min(ended-began, p.tick))
}
