package consensus

// Heartbeats do not pass through the owner of a node, so a leader whose owner hangs would lead for ever and do nothing.
// A leader therefore asks its owner for a sign of life, by an empty Update. If the owner has taken no update for the
// time of its patience, the leader transfers the leadership, and the member does not take it again before its owner has
// taken an update: it declines transfers, and starts elections only as a last resort.

// stall measures for how long an owner has taken nothing, in ticks of Core.clock. While this member gets no processor
// time there are no ticks either, so a process that was stopped blames nobody.
type stall struct {
	patience uint64 // 0: unlimited
	heard    uint64 // when the owner took an update, or this member became the leader
	leading  bool   // it led at the last tick
	asked    bool   // an empty update waits for the owner
	next     uint64 // the earliest tick of the next transfer
	to       uint64 // target of the transfer, for the next Ready; 0: none
}

// Taken records that the owner has taken an update.
func (c *Core) Taken() {
	s := &c.stall
	s.heard, s.asked, c.election.hangs = c.clock, false, false
}

// checkOwner begins a leadership transfer if the owner of this leader hangs. It is called once a tick.
func (c *Core) checkOwner() {
	s := &c.stall
	began := c.role.Leading && !s.leading
	s.leading = c.role.Leading
	switch {
	case !s.leading || s.patience == 0:
		return
	case began:
		s.heard = c.clock
	}
	silent := c.clock - s.heard
	if silent >= s.patience/2 && !s.asked {
		s.asked = true
		c.updates = append(c.updates, Update{})
	}
	if silent < s.patience || c.clock < s.next || c.Transferring() {
		return
	}
	s.next = c.clock + s.patience
	if to, ok := c.Status().Successor(); ok && c.TransferLeader(to) == nil { // else nobody can lead instead
		c.election.hangs, s.to = true, to
	}
}
