package consensus

import "github.com/holdfast-sdn/holdfast/consensus/wire"

// The election timeout adapts to how late the members are. On a machine whose processors are busy, a leader that lives
// may be unable to send for some hundred milliseconds, and a follower may be unable to receive. So each member measures
// for how long it lately had to wait for something that did come, and its election timeout is a multiple of the longest
// such wait: see Lateness. What never came is not measured: the silence of a leader that died says nothing about a busy
// machine. Each member measures for itself, and the members need not agree. Before it acts, it also looks at how
// crowded its machine is: see Crowded.

const (
	// lateFactor times the longest wait is the election timeout. With 1, a wait that is a little longer than all before
	// would depose the leader.
	lateFactor = 2

	// lateCauses is the number of values of Late.
	lateCauses = 5
)

// Late says what came late.
type Late uint8

// Values of Late.
const (
	NotLate       Late = iota
	LateLeader         // messages of the leader
	LateFollowers      // answers of a majority to this leader
	LateSelf           // this member's own processor time
	LateCrowd          // nothing yet, but this machine is crowded: see Core.Crowded
)

// String says what came late, as a clause to which a time is added.
func (l Late) String() string {
	switch l {
	case LateLeader:
		return "the leader was silent for"
	case LateFollowers:
		return "no majority answered for"
	case LateSelf:
		return "this controller got no processor time for"
	case LateCrowd:
		return "its processors are crowded, which may delay others by"
	default:
		return "nothing came late"
	}
}

// lateness computes the election timeout. All times are in ticks.
type lateness struct {
	least, most int // bounds of the election timeout
	hold        int // length of a period

	// The longest wait that counts. At the end of a period it falls to a half, or to the longest wait of that period if
	// that is more. So the timeout outlasts pauses between waits, and is at its least again after some quiet periods.
	longest int
	cause   Late
	recent  [lateCauses]int // the longest wait of the present period, by cause
	age     int             // of the present period
}

// waited records that something came after a wait. Waits above the largest timeout are not recorded: they are failures,
// and no timeout that is possible would bridge them.
func (l *lateness) waited(ticks int, cause Late) {
	if ticks <= 1 || ticks > l.most { // a wait of one tick is what heartbeats cause
		return
	}
	l.recent[cause] = max(l.recent[cause], ticks)
	if ticks > l.longest {
		l.longest, l.cause = ticks, cause
	}
}

// tick advances the clock by one tick.
func (l *lateness) tick() {
	if l.age++; l.age < l.hold {
		return
	}
	l.longest /= 2
	for cause, ticks := range l.recent {
		if ticks > l.longest {
			l.longest, l.cause = ticks, Late(cause)
		}
	}
	if l.longest == 0 {
		l.cause = NotLate
	}
	l.recent, l.age = [lateCauses]int{}, 0
}

// timeout is the election timeout.
func (l *lateness) timeout() int { return max(l.least, min(lateFactor*l.longest, l.most)) }

// contact is when a leader was last heard.
type contact struct {
	leader, term uint64 // 0: none
	ticks        int    // since its last message
}

// contacts are the present leader and the one before, as this member hears them. The former leader is remembered
// because its next message shows that it was deposed although it lived.
type contacts struct{ now, before contact }

// tick advances the clock by one tick. A leader that was silent for longer than most has failed.
func (c *contacts) tick(most int) {
	for _, k := range []*contact{&c.now, &c.before} {
		if k.ticks++; k.ticks > most {
			*k = contact{}
		}
	}
}

// heard records a message of a leader, and returns for how long this member had waited for it.
func (c *contacts) heard(leader, term uint64) (waited int) {
	switch (contact{leader: leader, term: term}) {
	case contact{leader: c.now.leader, term: c.now.term}:
		waited, c.now.ticks = c.now.ticks, 0
	case contact{leader: c.before.leader, term: c.before.term}:
		waited, c.before = c.before.ticks, contact{}
	default:
		if term > c.now.term {
			c.before, c.now = c.now, contact{leader: leader, term: term}
		}
	}
	return waited
}

// broken forgets a leader whose connection broke: that its next message is late has another reason.
func (c *contacts) broken(controller uint64) {
	if wire.ControllerOf(c.now.leader) == controller {
		c.now = contact{}
	}
}
