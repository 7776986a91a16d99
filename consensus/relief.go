package consensus

// A leader does not wait for its own disk before it sends entries, and they are committed when enough others have
// stored them. But it hands out what is committed only when it has stored that itself. So one
// slow disk, in the leader, would slow everything down. Then the leadership belongs elsewhere.

const (
	reliefAfter = 4  // election timeouts for which, in all, the leader's own disk has held up what is committed
	reliefPause = 50 // of a leadership that are let go by before, and from one try to the next: all disks may be slow
)

// relief is what a leader knows of its own disk, in ticks of Core.clock.
type relief struct {
	index uint64 // committed, and not stored here at since; 0: there was no such thing
	since uint64
	score uint64 // grows by 2 in a tick in which the disk holds something up, and falls by 1 in others
	next  uint64 // not before
	to    uint64 // whom it was handed to, for the next Ready; 0: nobody
}

// relieve begins to hand the leadership to another member, if this one's disk is so slow that it holds up what the
// others have stored. It is called once a tick.
func (c *Core) relieve() {
	r, timeout := &c.relief, uint64(c.election.ticks)
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
	if r.index == 0 || c.clock < r.since+timeout/2 { // so long it takes on any disk, now and then
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
