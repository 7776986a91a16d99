package controller

import "time"

// pace decides when the next entry is proposed. An entry costs the leader, its followers and their disks nearly the
// same, whether it has one input or sixteen. So while few inputs are outstanding at a time, they should be in one
// entry:
//
//   - While an entry is not committed, others gather, as the small segments of a connection do in Nagle's algorithm.
//   - Clients that have the answers of an entry may send something new at once. So once it is committed, inputs that
//     wait are joined by as many again as were answered, for as long as a commit takes. Otherwise there would be two
//     groups of inputs, one of which always waits for the other.
//
// A single input that is outstanding never waits: nothing is in flight then, and nothing else is expected. With many
// outstanding, fullEntry of them do not wait either. When nothing comes in such pauses, they become rare. See
// docs/decisions/0150-inputs-that-are-outstanding-together-are-one-entry.md.
type pace struct {
	cut      time.Time     // when the last entry was
	inputs   int           // that it has
	took     time.Duration // a commit lately, on average
	answered time.Time     // when the last entry was committed
	expected int           // inputs that the next entry should have; 0: any number
	paused   bool          // inputs have waited for that
	misses   int           // pauses in a row in which less than half of what was expected came
	skip     int           // entries without a pause from now on
	due      time.Time     // until when inputs are held; zero: none are
}

const (
	// fullEntry is how many inputs do not wait for others: then the entry costs little for each.
	fullEntry = 17
	// longestHold bounds how long inputs wait for others. Where commits take longer, because members are far from each
	// other, entries are not what limits the rate.
	longestHold = 2 * time.Millisecond
	// After so many pauses in a row for nothing, there is one in 2 to the power of mostMisses entries.
	mostMisses = 6
)

// began notes that an entry was cut with so many inputs. One without any is not waited for.
func (p *pace) began(now time.Time, inputs int) {
	if inputs > 0 {
		p.cut, p.inputs, p.expected, p.paused, p.due = now, inputs, 0, false, time.Time{}
	}
}

// committed notes that no entry is in flight any more, while so many inputs wait for the next one.
func (p *pace) committed(now time.Time, waiting int) {
	if p.inputs == 0 {
		return // nobody was answered
	}
	p.took += (now.Sub(p.cut) - p.took) / 8
	p.answered, p.expected, p.inputs = now, p.inputs+waiting, 0
}

// holds reports whether inputs wait for others.
func (p *pace) holds(now time.Time) bool { return now.Before(p.due) }

// ready reports whether the next entry is to be cut, with so many inputs. Otherwise due says until when they wait.
func (p *pace) ready(now time.Time, waiting int) bool {
	p.due = time.Time{}
	switch {
	case waiting == 0 || waiting >= fullEntry:
		return true
	case p.inputs > 0:
		p.due = p.cut.Add(longestHold)
		return !now.Before(p.due)
	case waiting >= p.expected:
		if p.paused {
			p.misses = 0
		}
		return true
	case p.skip > 0:
		p.skip--
		return true
	}
	if end := p.answered.Add(min(p.took, longestHold)); now.Before(end) {
		p.due, p.paused = end, true
		return false
	}
	if p.paused && 2*waiting < p.expected {
		p.misses = min(p.misses+1, mostMisses)
		p.skip = 1<<p.misses - 1
	}
	return true
}
