package consensus

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// saving is a batch that is not durable yet, and the messages that raft sends once it is.
type saving struct {
	batch   storage.Batch
	answers []*raftpb.Message
}

// apply is the message that raft receives once the owner has taken the entries up to last.
type apply struct {
	last   uint64 // 0: none of the entries is for the owner
	answer *raftpb.Message
}

// pendingProposals counts the bytes that were proposed here and are not committed.
type pendingProposals struct {
	proposed int // since the last Ready, their indexes not known yet
	total    int
	entries  []pendingEntry
}

type pendingEntry struct {
	index uint64
	size  int
}

func (p *pendingProposals) bytes() int { return p.proposed + p.total }

func (p *pendingProposals) appended(entries []*raftpb.Entry) {
	p.proposed = 0
	for _, e := range entries {
		p.entries = append(p.entries, pendingEntry{e.GetIndex(), len(e.GetData())})
		p.total += len(e.GetData())
	}
}

func (p *pendingProposals) committed(index uint64) {
	n := 0
	for n < len(p.entries) && p.entries[n].index <= index {
		p.total -= p.entries[n].size
		n++
	}
	if n == len(p.entries) {
		p.entries = p.entries[:0]
	} else {
		p.entries = p.entries[n:]
	}
}

// HasReady says whether Ready has something to do.
func (c *Core) HasReady() bool {
	return c.raft.HasReady() || len(c.appends) > c.handed || len(c.acks) > 0 || c.notices.due || len(c.updates) > 0 ||
		c.election.armed || c.members.changed
}

// Ready returns everything that is to be done since the last Ready.
func (c *Core) Ready() Ready {
	var out Ready
	if c.raft.HasReady() {
		c.take(c.raft.Ready(), &out)
		c.lift()
	}
	out.Messages = append(out.Messages, c.notices.take()...)
	for _, m := range c.acks {
		out.Messages = append(out.Messages, wire.Message{Group: c.group, Raft: m})
	}
	c.acks = nil
	for _, s := range c.appends[c.handed:] {
		out.Append = append(out.Append, s.batch)
	}
	c.handed = len(c.appends)
	out.Updates, c.updates = c.updates, nil
	if c.members.changed {
		c.members.changed = false
		out.Members, out.Gone = c.members.addresses(), c.members.now().gone
		out.Voters = slices.Clone(c.members.conf().Voters)
	}
	out.Relief, c.relief.to = c.relief.to, 0
	out.Stalled, c.stall.to = c.stall.to, 0
	out.Stop = c.members.ended
	out.Elect = c.election.take()
	return out
}

func (c *Core) take(rd raft.Ready, out *Ready) {
	c.observe(rd)
	var committed *raftpb.Message
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.append(m)
		case raft.LocalApplyThread:
			committed = m
		default:
			if ownNotice(m) {
				continue
			}
			out.Messages = append(out.Messages, c.outgoing(m))
		}
	}
	out.Messages = c.notices.thin(out.Messages, len(rd.Entries), c.last > c.commit)
	clear(c.incoming)
	clear(c.log.lent)
	if committed != nil {
		c.apply(committed)
	}
	c.leadEarly(rd.Entries)
}

// leadEarly makes this member the leader for its owner as soon as it is elected, if all that its log had then is
// committed, and known to the owner. Else that waits for the first entry of its term, with which the others become
// committed. See docs/decisions/0121-a-leader-that-lacks-nothing-leads-at-once.md.
func (c *Core) leadEarly(appended []*raftpb.Entry) {
	if c.state != raft.StateLeader || c.role.Leading || !c.settled {
		return
	}
	first := slices.IndexFunc(appended, func(e *raftpb.Entry) bool { return e.GetTerm() == c.term })
	if first >= 0 && appended[first].GetIndex() == c.given+1 {
		c.setRole(Role{Term: c.term, Leader: c.id, Leading: true})
	}
}

// observe copies raft's state. If this member no longer leads, or has another leader, the owner is told that before
// anything else.
func (c *Core) observe(rd raft.Ready) {
	before := [3]uint64{c.term, c.vote, uint64(c.state)}
	lead := c.role.Leader
	if rd.SoftState != nil {
		c.state, lead = rd.SoftState.RaftState, rd.SoftState.Lead
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		c.term, c.vote, c.commit = rd.HardState.GetTerm(), rd.HardState.GetVote(), rd.HardState.GetCommit()
	}
	if lead != raft.None {
		c.election.lost = 0
	}
	if before != [3]uint64{c.term, c.vote, uint64(c.state)} {
		c.election.restart()
		c.answers.observe(c)
	}
	if c.state == raft.StateLeader {
		c.election.hinted = false
		c.pending.appended(rd.Entries)
		if n := len(rd.Entries); n > 0 {
			c.vouch.proposed(rd.Entries[n-1].GetIndex())
		}
		c.pending.committed(c.commit)
	} else {
		c.pending, c.notices = pendingProposals{}, notices{}
		c.vouch.cease()
		clear(c.declined)
	}
	if c.term != c.role.Term || lead != c.role.Leader {
		c.setRole(Role{Term: c.term, Leader: lead})
	}
}

func (c *Core) setRole(r Role) {
	c.role = r
	c.updates = append(c.updates, Update{Role: &r})
}

func (c *Core) append(m *raftpb.Message) {
	s := saving{batch: storage.Batch{Group: c.group, Entries: m.GetEntries()}, answers: m.GetResponses()}
	if n := len(s.batch.Entries); n > 0 {
		c.last, c.lastTerm = s.batch.Entries[n-1].GetIndex(), s.batch.Entries[n-1].GetTerm()
	}
	if m.Term != nil {
		s.batch.Hard = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	if snap := m.GetSnapshot(); !raft.IsEmptySnap(snap) {
		s.batch.Snapshot = &storage.Snapshot{Raft: snap, State: c.incoming[snap.GetMetadata().GetIndex()]}
		if err := c.members.restore(*s.batch.Snapshot); err != nil {
			panic("consensus: " + err.Error()) // Step has looked
		}
		c.newest = snap.GetMetadata().GetIndex()
		if len(s.batch.Entries) == 0 {
			c.last, c.lastTerm = c.newest, snap.GetMetadata().GetTerm()
		}
	}
	c.appends = append(c.appends, s)
}

// outgoing adds the state to a snapshot message.
func (c *Core) outgoing(m *raftpb.Message) wire.Message {
	out := wire.Message{Group: c.group, Raft: m}
	if m.GetType() == raftpb.MsgSnap {
		out.State = c.log.lent[m.GetSnapshot().GetMetadata().GetIndex()]
	}
	return out
}

// apply turns committed entries into updates. The first of them of this leader's term makes it the leader for the
// owner, unless leadEarly has.
func (c *Core) apply(m *raftpb.Message) {
	a := apply{answer: m.GetResponses()[0]}
	entries := make([]Entry, 0, len(m.GetEntries()))
	flush := func() {
		if len(entries) > 0 {
			c.updates = append(c.updates, Update{Entries: entries})
			a.last = entries[len(entries)-1].Index
			entries = nil
		}
	}
	for _, e := range m.GetEntries() {
		c.given = e.GetIndex()
		switch {
		case e.GetType() != raftpb.EntryNormal:
			c.applyConfChange(e)
		case len(e.GetData()) > 0:
			entries = append(entries, Entry{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.GetData()})
		}
		if c.state == raft.StateLeader && e.GetTerm() == c.term && !c.role.Leading {
			flush()
			c.setRole(Role{Term: c.term, Leader: c.id, Leading: true})
		}
	}
	flush()
	c.applies = append(c.applies, a)
	c.Delivered(0)
}

// Stored reports that the n oldest batches of Append that were not yet reported are durable.
func (c *Core) Stored(n int) {
	for _, s := range c.appends[:n] {
		if s.batch.Snapshot != nil {
			c.log.restore(*s.batch.Snapshot)
			c.deliverSnapshot(*s.batch.Snapshot)
		}
		c.log.append(s.batch.Entries)
		for _, m := range s.answers {
			if m.GetTo() == c.id {
				_ = c.raft.Step(m)
			} else {
				c.acks = append(c.acks, m)
			}
		}
	}
	c.appends = slices.Delete(c.appends, 0, n) // which clears what it leaves: entries would stay in memory
	c.handed -= n
	c.commitEarly()
}

// Delivered reports that the owner has taken the entries up to index.
func (c *Core) Delivered(index uint64) {
	n := 0
	for n < len(c.applies) && c.applies[n].last <= index {
		_ = c.raft.Step(c.applies[n].answer) // never refused
		n++
	}
	c.applies = slices.Delete(c.applies, 0, n)
}

func (c *Core) deliverSnapshot(s storage.Snapshot) {
	if meta := s.Raft.GetMetadata(); meta.GetIndex() > bootIndex || len(s.State) > 0 {
		c.updates = append(c.updates, Update{Snapshot: &Snapshot{Index: meta.GetIndex(), Term: meta.GetTerm(),
			State: s.State}})
	}
}
