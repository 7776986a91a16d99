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
// Inputs are events, timers, calls, moves, and results of replayed applications.
//
// A single input that is outstanding never waits: nothing is in flight then, and nothing else is expected. With many
// outstanding, fullEntry of them do not wait either. When at most half of what is still expected comes in such pauses,
// they become rare. See docs/decisions/0150-inputs-that-are-outstanding-together-are-one-entry.md.
type pace struct {
	cut      time.Time     // when the last entry with inputs was cut
	inputs   int           // of that entry; 0 once no input is in flight
	took     time.Duration // how long commits take, on average, where none counts for more than longestHold
	answered time.Time     // when no input was in flight any more
	expected int           // how many inputs the next entry should have, at most fullEntry; 0: any number
	had      int           // how many inputs waited when the pause began; 0: there is none
	misses   int           // one more after a pause for nothing, and one less after another, within 0 and mostMisses
	skip     int           // so many entries with fewer inputs than expected are cut without a pause
	due      time.Time     // until when inputs are held; zero: none are
}

const (
	// fullEntry is how many inputs do not wait for others: then the entry costs little for each.
	fullEntry = 33
	// longestHold bounds how long inputs wait for a commit, and then for others. Where commits take longer, because
	// members are far from each other, entries are not what limits the rate.
	longestHold = 2 * time.Millisecond
	// After mostMisses pauses for nothing, one in 2 to the power of mostMisses of the entries that have fewer inputs
	// than expected has a pause.
	mostMisses = 6
)

// began notes that an entry was cut with so many inputs. One without any, of completions, is not waited for.
func (p *pace) began(now time.Time, inputs int) {
	switch {
	case inputs == 0:
		return
	case p.had > 0:
		p.learn(inputs)
	case inputs < p.expected && p.skip > 0:
		p.skip--
	}
	p.cut, p.inputs, p.expected, p.had, p.due = now, inputs, 0, 0, time.Time{}
}

// learn notes that a pause is over, with so many inputs. It was for nothing if at most half came of what was still
// expected when it began.
func (p *pace) learn(inputs int) {
	if 2*(inputs-p.had) > p.expected-p.had {
		p.misses = max(p.misses-1, 0)
		return
	}
	p.misses = min(p.misses+1, mostMisses)
	p.skip = 1<<p.misses - 1
}

// committed notes that no input is in flight any more, while so many wait for the next entry.
func (p *pace) committed(now time.Time, waiting int) {
	if p.inputs == 0 {
		return // nobody was answered
	}
	p.took += (min(now.Sub(p.cut), longestHold) - p.took) / 8
	p.answered, p.expected, p.inputs = now, min(p.inputs+waiting, fullEntry), 0
}

// ready reports whether the next entry is to be cut, with so many inputs. Otherwise due says until when they wait, and
// a pause may have begun.
func (p *pace) ready(now time.Time, waiting int) bool {
	p.due = time.Time{}
	switch {
	case waiting == 0:
		return true
	case p.inputs > 0:
		return waiting >= fullEntry || !p.hold(now, p.cut.Add(longestHold))
	case waiting >= p.expected || p.skip > 0 || !p.hold(now, p.answered.Add(p.took)):
		return true
	}
	if p.had == 0 {
		p.had = waiting
	}
	return false
}

// hold has inputs wait until end, and reports whether that is to come.
func (p *pace) hold(now, end time.Time) bool {
	if !now.Before(end) {
		return false
	}
	p.due = end
	return true
}
