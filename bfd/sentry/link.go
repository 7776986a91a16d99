package sentry

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
)

// Hold is how long a sentry's report that a link is dead stays in force. By then the switch's own BFD must have
// detected it: it does so if it sends every 500 ms or more often, with a multiplier of 3.
const Hold = 3 * time.Second

// State is a link's state according to its sentry.
type State uint8

// The states. A link begins as Unwatched.
const (
	// there is no session, or it has been lost for long, or was ended on purpose; the switch uses its own BFD
	Unwatched State = iota
	Alive           // the session is up; the switch uses its own BFD
	Dead            // the session was lost: the switch is told
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

// UnmarshalText is its inverse.
func (s *State) UnmarshalText(text []byte) error {
	for *s = Unwatched; *s <= Dead; *s++ {
		if s.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("unknown state of a link: %q", text)
}

// judge returns the next state of a link whose session has this status; since is when it entered its current state. It
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

// pace schedules the passes of a loop that should wake at due. Times are of one monotonic clock.
type pace struct {
	tick time.Duration // between two passes
	due  time.Duration
}

// wake begins a pass. It returns the time of the pass, which is when it was due unless it is late, so that things due
// at the same time are done in the same pass; and by how much it is late.
func (p *pace) wake(now time.Duration) (at, late time.Duration) {
	late = now - p.due
	if at = now; late <= tolerance {
		at = p.due
	}
	p.due = max(p.due+p.tick, now+p.tick/2)
	return at, late
}

// rest returns when the next pass begins: when it is due, but not before the loop has slept for as long as it has
// worked, or for a tick. So an overloaded loop leaves some of its processor to the switch. Such a delay still counts as
// late.
func (p *pace) rest(began, ended time.Duration) (until time.Duration) {
	return max(p.due, ended+min(ended-began, p.tick))
}
