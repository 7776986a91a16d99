// Package tally counts what the actors of one group do, at its leader: the messages that each handles and sends, with
// which others it exchanges the most, how long it is busy, which type of message causes which (provenance), and what
// crosses the boundary between groups. Placement and operators read it (Beehive, section 3.4).
//
// Of the transactions of a busy source only a sample is counted, each as often as it stands for others; see Sampling.
// So what happens often costs little and is an estimate, and what happens seldom is exact. Failures, messages that were
// refused, and what comes from other groups are exact always.
//
// Everything is bounded: of the actors, and of the peers of an actor, the most active are counted in detail, and all
// others in sums, so that totals have all that was counted. A message in detail needs no allocation.
//
// It is pure, and not safe for concurrent use: package ledger owns it, decides what is a message, and reads the clock.
// It knows nothing of messages but a number for their type. It is not a monitor of processes: what the consensus, the
// connections and the disk need is not in it.
package tally

import (
	"slices"
	"time"
)

// Bounds.
const (
	// MaxActors bounds the actors that are counted in detail.
	MaxActors = 4096
	// MaxPeers bounds the peers of an actor that are counted in detail.
	MaxPeers = 16
	// MaxSources bounds how many sources of the messages of a handler are told apart.
	MaxSources = 64
	// MaxNames bounds the types that have a name. All further ones are Unnamed.
	MaxNames = 1024
	// maxEffects bounds the types of message that a handler causes and which are counted in detail. Others are Unnamed.
	maxEffects = 64
	// maxCrossings bounds the kinds of messages between groups that are counted in detail. Others are without
	// applications and Unnamed.
	maxCrossings = 4096
	// admitEvery is how many messages of actors that are not in detail admit one of them, once MaxActors were reached:
	// the more active an actor is, the sooner that is it.
	admitEvery = 16
	// spare actors may be in detail beyond MaxActors until the end of a transaction.
	spare = 64
)

// Tally has the counts of one group. ID is what an actor is called.
type Tally[ID comparable] struct {
	transaction[ID]

	actors  map[ID]*Actor[ID]
	others  Actor[ID] // the sum of those that are not in detail
	apps    map[string]*app[ID]
	full    bool   // MaxActors were reached
	unknown uint64 // messages of actors that were not in detail since then

	types     map[string]Type
	names     []string
	crossings map[crossingKey]*Crossing
	local     uint64 // messages within the group
	random    uint64
}

// New returns an empty Tally.
func New[ID comparable]() *Tally[ID] {
	t := &Tally[ID]{actors: map[ID]*Actor[ID]{}, apps: map[string]*app[ID]{}, types: map[string]Type{},
		crossings: map[crossingKey]*Crossing{}, random: 1}
	t.others.app, t.others.gone = t.application(""), true
	return t
}

// Actor has the counts of one actor. It may be kept until it is Gone.
type Actor[ID comparable] struct {
	id     ID
	app    *app[ID]
	gone   bool
	timing timing
	counts Counts
	peers  peers[ID]
	score  uint64 // how active it was lately
}

// Counts are those of an actor, or of several.
type Counts struct {
	Inputs   uint64        // messages that it handled; those of a switch are its commands
	Outputs  uint64        // messages that it sent; those of a switch are its events
	Failures uint64        // inputs on which its handler failed; exact
	Busy     time.Duration // in its handlers, estimated from a sample
	Late     uint64        // messages that waited because it had handled too many; they are Inputs when it handles them
	Dropped  uint64        // messages that it did not handle, for the same reason
}

func (c *Counts) add(o Counts) {
	c.Inputs += o.Inputs
	c.Outputs += o.Outputs
	c.Failures += o.Failures
	c.Busy += o.Busy
	c.Late += o.Late
	c.Dropped += o.Dropped
}

// Gone reports whether an actor is no longer counted in detail. Then it is to be looked up again.
func (a *Actor[ID]) Gone() bool { return a.gone }

// Actor returns the counts of an actor of an application; "" for none. If it is not among the most active ones, the
// result is the sum of all others.
func (t *Tally[ID]) Actor(id ID, application string) *Actor[ID] {
	if a := t.actors[id]; a != nil {
		return a
	}
	if t.full {
		t.unknown++
		if t.unknown%admitEvery != 0 || len(t.actors) >= MaxActors+spare {
			return &t.others
		}
	}
	a := &Actor[ID]{id: id, app: t.application(application)}
	t.actors[id] = a
	t.full = t.full || len(t.actors) >= MaxActors
	return a
}

// timing chooses the inputs that are timed. timed were the first ones. untimed have arrived since one was timed; the
// one after gap is timed.
type timing struct{ timed, untimed, gap uint32 }

// The first inputs are all timed. Later the distances are random, so that they fit no pattern of inputs, with this
// mean.
const (
	timedFirst = 64
	timedEvery = 64
)

// Timed says whether the present input of an actor, which stands for n, is to be timed, with Busy: it returns for how
// many its time stands, or 0. It is called once for each input.
func (t *Tally[ID]) Timed(a *Actor[ID], n int) int {
	of := &a.timing
	of.untimed += uint32(n)
	if of.untimed <= of.gap {
		return 0
	}
	n = int(of.untimed)
	of.untimed = 0
	if of.timed < timedFirst {
		of.timed++
	} else {
		of.gap = t.below(2*timedEvery - 1)
	}
	return n
}

// below returns a random number below n.
func (t *Tally[ID]) below(n uint32) uint32 {
	t.random ^= t.random << 13 // xorshift
	t.random ^= t.random >> 7
	t.random ^= t.random << 17
	return uint32(t.random % uint64(n))
}

// Busy says how long a timed input took, which stands for n.
func (t *Tally[ID]) Busy(a *Actor[ID], took time.Duration, n int) {
	a.counts.Busy += took * time.Duration(n)
}

// trim removes the least active actors from the detail, and adds them to the others. No record refers to them.
func (t *Tally[ID]) trim() {
	scores := make([]uint64, 0, len(t.actors))
	for _, a := range t.actors {
		scores = append(scores, a.score)
	}
	slices.Sort(scores)
	excess := len(t.actors) - MaxActors*3/4
	limit := scores[excess-1]
	below, _ := slices.BinarySearch(scores, limit)
	ties := excess - below // how many with just that score go
	for id, a := range t.actors {
		if a.score > limit || a.score == limit && ties == 0 {
			a.score /= 2
			continue
		}
		if a.score == limit {
			ties--
		}
		a.gone = true
		t.others.counts.add(a.counts)
		t.others.peers.rest.add(a.peers.sum())
		delete(t.actors, id)
	}
	for _, a := range t.actors {
		a.peers.forgetGone()
	}
	t.others.peers.forgetGone()
}
