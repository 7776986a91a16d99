package history

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// broadcast is what a switch without an agent sends to all its controllers, and how much of it the log has. An epoch
// has a contiguous part of it.
type broadcast struct {
	// All that it sent, including restarts, from the first that may still be logged. The next event of the epoch is one
	// of candidates, of which there are several while the logged part occurs more than once.
	told       []fingerprint
	candidates []int
	drops      bool   // the switch drops what a controller does not read: then an epoch may have gaps
	lost       uint64 // in no epoch

	shared int // events of the epoch that were sent to all controllers
	marks  int // of these
}

// restarted stands for a restart in told.
var restarted = fingerprint{special: experimenter.TypeSwitchUp}

// restart: the switch starts. What follows is of another epoch.
func (s *broadcast) restart() { s.told = append(s.told, restarted) }

// tell handles a message that the switch sends to all its controllers.
func (s *broadcast) tell(msg []byte) { s.told = append(s.told, sharedFingerprint(msg)) }

// endShared discards the state of an epoch that ends, and counts what is in no epoch.
func (s *broadcast) endShared() {
	if len(s.candidates) > 0 {
		end := s.candidates[0]
		s.lost += uint64(substance(s.told[:end]) - (s.shared - s.marks))
		s.told = slices.Clone(s.told[end:])
	}
	s.candidates, s.shared, s.marks = nil, 0, 0
}

// logShared checks that what the switch sends to all controllers is in the epoch without gaps.
func (s *broadcast) logShared(id openflow.DatapathID, e *loggedEpoch, f fingerprint) error {
	var next []int
	if s.shared == 0 {
		for i, t := range s.told {
			if t == f {
				next = append(next, i+1)
			}
		}
	}
	for _, i := range s.candidates {
		if i < len(s.told) && s.told[i] == f {
			next = append(next, i+1)
		} else if skip := slices.Index(s.told[i:], f); s.drops && skip >= 0 {
			next = append(next, i+skip+1)
		}
	}
	if len(next) > 0 {
		if s.candidates = next; s.drops {
			s.candidates = next[:1]
		}
		s.shared++
		if f.isMark() {
			s.marks++
		}
		return nil
	}
	if s.shared == 0 {
		return violated("switch %s, epoch %d: begins with event %d (%v), which it has not told since the last that "+
			"is in the log", id, e.epoch, e.events, f)
	}
	at := s.candidates[0]
	if at == len(s.told) {
		return violated("switch %s, epoch %d: event %d is %v, but the switch has told nothing more", id, e.epoch,
			e.events, f)
	}
	where := "nowhere"
	if i := slices.Index(s.told[at:], f); i >= 0 {
		where = "further on: so it is lost"
	} else if slices.Contains(s.told[:at], f) {
		where = "before that: so it is repeated"
	}
	return violated("switch %s, epoch %d: event %d is %v, but the switch has told %v next; the other it told %s", id,
		e.epoch, e.events, f, s.told[at], where)
}

// unlogged counts the events after the last logged one. Sync markers are sent all the time, and do not count.
func (s *broadcast) unlogged() int {
	from := 0
	if len(s.candidates) > 0 {
		from = s.candidates[0]
	}
	if s.drops {
		return 0 // as far as is known
	}
	return substance(s.told[from:])
}

// substance counts what a switch has sent, without sync markers and restarts.
func substance(told []fingerprint) (n int) {
	for _, f := range told {
		if f != restarted && !f.isMark() {
			n++
		}
	}
	return n
}

// sharedFingerprint is the fingerprint of the logged form of msg.
func sharedFingerprint(msg []byte) fingerprint {
	if m, ok := MarkOf(msg); ok {
		msg = m.Append(nil, of13.Version)
	}
	return fingerprintOf(msg)
}

func (f fingerprint) isMark() bool { return f.typ == openflow.TypeExperimenter }

// isShared reports whether an event of the log is one that the switch sent to all its controllers.
func (f fingerprint) isShared() bool { return ToAll(f.typ) || f.isMark() }

// ToAll reports whether a switch sends such messages to all its controllers.
func ToAll(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}
