package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// rewindEntries is how many entries a Rewind puts into one update.
const rewindEntries = 1024

// Rewind makes the updates begin anew, for another owner: with the newest snapshot, all entries after it that were
// delivered before or were about to be, and the role. The former owner must not use the node any more. If this member
// leads, it becomes a follower, and there is an election: to prevent that, call HandOver first.
func (n *Node) Rewind() error {
	return n.do(func(c *Core) error {
		updates, err := c.rewind()
		if err == nil {
			n.leading.Store(0)
			n.outbox.replace(updates)
		}
		return err
	})
}

// resign makes a leader a follower in the next term, as the message of a member would that has it.
func (c *Core) resign() error {
	s := c.raft.BasicStatus()
	if s.RaftState != raft.StateLeader {
		return nil
	}
	return c.raft.Step(&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: ptr(c.id), To: ptr(c.id),
		Term: ptr(s.HardState.GetTerm() + 1)})
}

// rewind returns the updates of Rewind. Those that Ready has not returned yet are among them.
func (c *Core) rewind() (updates []Update, err error) {
	if err := c.resign(); err != nil {
		return nil, fmt.Errorf("consensus: give up the leadership: %w", err)
	}
	if c.role.Leading {
		c.role = Role{Term: c.role.Term} // the next Ready says more
	}
	c.updates = nil
	c.Delivered(c.log.snapshot.Index()) // nobody takes these entries any more
	c.deliverSnapshot(c.log.snapshot)
	updates, c.updates = c.updates, nil
	var entries []Entry
	for _, e := range c.log.entries {
		i := e.GetIndex()
		if i <= c.log.snapshot.Index() || i > c.given || e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		entries = append(entries, Entry{Index: i, Term: e.GetTerm(), Data: e.GetData()})
		if len(entries) == rewindEntries {
			updates = append(updates, Update{Entries: entries})
			entries = nil
		}
	}
	if entries != nil {
		updates = append(updates, Update{Entries: entries})
	}
	role := c.role
	return append(updates, Update{Role: &role}), nil
}
