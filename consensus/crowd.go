package consensus

import "go.etcd.io/raft/v3"

// When a quiet machine becomes busy, nothing was measured yet that would bridge the first wait (see Lateness). But a
// member that is about to give up a silent leader, or silent followers, can see how busy its own machine is. If n
// threads want each processor, a member there gets 1/n of one, and all that it does takes n times as long. So the
// election timeout is n times that of a quiet machine. This helps members that share a machine. If the leader's machine
// alone is busy, another member had better lead.

// Doubts reports whether the leader, or a majority, has been silent for half of the time after which this member gives
// it up. Then the owner calls Crowded before the next Tick.
func (c *Core) Doubts() bool {
	e := &c.election
	switch s := c.raft.BasicStatus(); {
	case s.RaftState == raft.StateLeader:
		return c.answers.age >= e.timeout()
	case s.Lead == raft.None:
		return false
	default:
		return 2*(e.elapsed+e.owed+1) >= e.timeout()
	}
}

// Crowded takes how many threads run or wait for each processor of this machine; 1 if these are no crowd. The least of
// a silence counts, since a quiet machine is crowded for moments. After the silence it is nothing.
func (c *Core) Crowded(threads int) {
	e := &c.election
	if c.Doubts() && (e.crowd == 0 || threads < e.crowd) {
		e.crowd = threads
	}
}

// excuse raises the election timeout if this machine is crowded, before a silence has consequences.
func (e *election) excuse() {
	if e.crowd > 1 {
		e.late.waited(min(e.crowd*e.base, e.late.most)/lateFactor, LateCrowd)
	}
}
