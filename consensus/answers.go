package consensus

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// answers is when the other members last answered this leader. A leader that a majority has not answered for two
// election timeouts steps down: the others, if they form a majority, have started an election by then. Raft does that
// as well, but with one timeout for good.
type answers struct {
	heard map[uint64]uint64 // by member; all times are of Core.clock
	term  uint64            // in which this member leads, or led last; 0: none
	since uint64            // when that began
	age   int               // ticks since a majority last answered, as of the last tick
}

// observe notices that this member has become the leader.
func (a *answers) observe(c *Core) {
	if c.state == raft.StateLeader && a.term != c.term {
		a.term, a.since, a.age = c.term, c.clock, 0
	}
}

// tick measures for how long a majority has not answered. It continues after the leader has stepped down, until the
// next term: answers that come then show that its members were only late.
func (a *answers) tick(c *Core) {
	if a.term == 0 || a.term != c.term {
		return
	}
	conf := c.members.conf()
	last := a.majority(c, conf.Voters)
	if len(conf.VotersOutgoing) > 0 {
		last = min(last, a.majority(c, conf.VotersOutgoing))
	}
	age := int(c.clock - max(last, a.since))
	if age < a.age {
		c.election.late.waited(a.age, LateFollowers)
		c.election.crowd = 0
	}
	a.age = age
}

// majority is the latest time since when a majority of the voters has answered.
func (a *answers) majority(c *Core, voters []uint64) uint64 {
	var few [7]uint64 // on the stack
	times := few[:0]
	for _, id := range voters {
		if id == c.id {
			times = append(times, c.clock)
		} else {
			times = append(times, a.heard[id])
		}
	}
	slices.Sort(times)
	return times[(len(times)-1)/2]
}

// mostTransfer bounds the time of a leadership transfer, in election timeouts of a quiet machine: proposals wait
// meanwhile, and another member may accept.
const mostTransfer = 4

// tickLeader is the leader's part of Tick.
func (c *Core) tickLeader() {
	if c.answers.age >= 2*c.election.timeout() {
		c.election.excuse()
	}
	timeout := c.election.timeout()
	switch {
	case c.answers.age >= 2*timeout:
		c.stepDown()
		return
	case c.Transferring() && c.clock-c.transferAt >= uint64(min(timeout, mostTransfer*c.election.base)):
		c.raft.TransferLeader(c.id) // ends the transfer
	}
	c.raft.Tick()
}

// stepDown makes this leader a follower. Raft steps down at a check of the quorum if no majority has answered since the
// check before. RawNode accepts the message, which is local, as one of the storage.
func (c *Core) stepDown() {
	for range 2 {
		_ = c.raft.Step(&raftpb.Message{Type: raftpb.MsgCheckQuorum.Enum(), From: ptr(uint64(raft.LocalAppendThread))})
	}
}

// active says whether another member has answered within the election timeout.
func (c *Core) active(member uint64) bool {
	at, ok := c.answers.heard[member]
	return ok && c.clock-at <= uint64(c.election.timeout())
}
