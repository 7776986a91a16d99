package consensus

// A leader does not wait for its own disk before it sends entries, and they are committed when enough others have
// stored them. But it hands out what is committed only when it has stored that itself. So one
// slow disk, in the leader, would slow everything down. Then the leadership belongs elsewhere.

const (
	reliefAfter = 4  // election timeouts that something committed waits for the leader's own disk
	reliefPause = 20 // of a leadership that are let go by before, and from one try to the next: all disks may be slow
)

// relief is what a leader knows of its own disk, in ticks of Core.clock.
type relief struct {
	index uint64 // committed, and not stored here at since; 0: there was no such thing
	since uint64
	next  uint64 // not before
	to    uint64 // whom it was handed to, for the next Ready; 0: nobody
}

// relieve begins to hand the leadership to another member, if this one's disk is so slow that it holds up what the
// others have stored. It is called once a tick.
func (c *Core) relieve() {
	r, timeout := &c.relief, uint64(c.election.ticks)
	switch {
	case !c.role.Leading:
		*r = relief{next: c.clock + reliefPause*timeout}
	case r.index != 0 && r.index > c.log.last():
		if c.clock < r.since+reliefAfter*timeout || c.clock < r.next || c.Transferring() {
			return
		}
		r.next = c.clock + reliefPause*timeout
		if to, ok := c.Status().Successor(); ok && c.TransferLeader(to) == nil {
			r.to = to
		}
	case c.commit > c.log.last():
		r.index, r.since = c.commit, c.clock
	default:
		r.index = 0
	}
}
