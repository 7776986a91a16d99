package consensus

// A leader sends entries before its own disk has stored them, and they are committed when a majority has stored them.
// But it delivers committed entries to its owner only when it has stored them itself. So a slow disk of the leader
// would slow the whole group down. Then the leader transfers the leadership.

const (
	reliefAfter = 4  // election timeouts for which, in total, the leader's own disk has delayed committed entries
	reliefPause = 50 // election timeouts before the first transfer, and between two: all disks may be slow
)

// relief measures how far the leader's own disk delays the group, in ticks of Core.clock.
type relief struct {
	index uint64 // an entry that was committed and not stored here at the tick since; 0: none
	since uint64
	score uint64 // grows by 2 in a tick in which the disk delays entries, and falls by 1 in others
	next  uint64 // the earliest tick of the next transfer
	to    uint64 // target of the transfer, for the next Ready; 0: none
}

// relieve begins a leadership transfer if this leader's disk is so slow that it delays what the others have stored. It
// is called once a tick.
func (c *Core) relieve() {
	r, timeout := &c.relief, uint64(c.election.timeout())
	if !c.role.Leading {
		*r = relief{next: c.clock + reliefPause*timeout}
		return
	}
	if r.index <= c.log.last() { // stored by now
		r.index = 0
		if c.commit > c.log.last() {
			r.index, r.since = c.commit, c.clock
		}
	}
	if r.index == 0 || c.clock < r.since+timeout/2 { // any disk takes that long now and then
		r.score = max(r.score, 1) - 1
		return
	}
	if r.score += 2; r.score < 2*reliefAfter*timeout || c.clock < r.next || c.Transferring() {
		return
	}
	r.score, r.next = 0, c.clock+reliefPause*timeout
	if to, ok := c.Status().Successor(); ok && c.TransferLeader(to) == nil {
		r.to = to
	}
}
