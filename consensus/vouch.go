package consensus

import (
	"bytes"
	"math"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// vouch lets a follower commit without being told. A leader says in an append up to where it has stored its own log
// (wire.Message.Stored), if it and the receiver are a quorum, as in a group of three. What both have stored is
// committed, and the receiver knows that one round trip earlier than from the leader. This needs no more messages, but
// it is only early if the leader stores entries before it sends them, so with a log that does not wait for the disk. It
// costs the receiver a wake-up that it would not have, so it is done at once only for entries that the owner has named
// (docs/decisions/0082-a-replica-relays-what-is-for-its-own-controller.md), and for all others when the leader has died
// (docs/decisions/0121-a-leader-that-lacks-nothing-leads-at-once.md).
type vouch struct {
	// At a follower.
	term, stored uint64 // what the leader of that term has stored
	due          uint64 // up to here it commits what both have stored

	// At a leader.
	whole bool              // all entries of the last append were stored before
	next  []uint64          // controllers that are to know early what is proposed next
	until map[uint64]uint64 // by controller: the last entry that it is to know early
}

// early marks the message with which a follower tells raft that entries are committed, so that it does not answer.
var early = []byte("early")

// Hasten lets the replicas at some controllers commit early what is proposed until the next Ready.
func (c *Core) Hasten(controllers ...uint64) { c.vouch.next = append(c.vouch.next, controllers...) }

// proposed notes up to which entry Hasten holds.
func (v *vouch) proposed(last uint64) {
	for _, id := range v.next {
		if v.until == nil {
			v.until = make(map[uint64]uint64)
		}
		v.until[id] = last
	}
	v.next = v.next[:0]
}

// cease forgets what a leader knows.
func (v *vouch) cease() { *v = vouch{term: v.term, stored: v.stored, due: v.due} }

// Vouch completes the messages of a Ready before they are sent. What is saved before that, and reported by Stored, is
// known to their receivers sooner.
func (c *Core) Vouch(messages []wire.Message) {
	if c.state != raft.StateLeader {
		return
	}
	stored := c.log.last() // what it replaced was stored before the vote for itself
	for i := range messages {
		m := &messages[i]
		entries := m.Raft.GetEntries()
		if m.Raft.GetType() != raftpb.MsgApp || len(entries) == 0 || m.Raft.GetTerm() != c.term ||
			!c.members.quorum(c.id, m.Raft.GetTo()) {
			continue
		}
		c.vouch.whole = entries[len(entries)-1].GetIndex() <= stored
		m.Stored = stored
		if c.vouch.until[wire.ControllerOf(m.Raft.GetTo())] >= entries[0].GetIndex() {
			m.Hasten = true
			c.notices.hurry = c.notices.hurry || !c.vouch.whole
		}
	}
}

// Vouches returns the members that know without being told what this leader has committed, as long as it stores its
// entries promptly; nil at a follower. The caller does not change the list.
func (c *Core) Vouches() []uint64 {
	if !c.role.Leading || !c.vouch.whole {
		return nil
	}
	return c.members.seconds(c.id)
}

// heardStored takes what the leader of a term says that it has stored.
func (c *Core) heardStored(term, stored uint64, hasten bool) {
	if stored == 0 || term < c.vouch.term {
		return
	}
	if term > c.vouch.term {
		c.vouch.term, c.vouch.stored, c.vouch.due = term, 0, 0
	}
	c.vouch.stored = max(c.vouch.stored, stored)
	if hasten {
		c.vouch.due = c.vouch.stored
		c.commitEarly()
	}
}

// commitStored commits all that this follower and its leader are known to have stored, before the follower stands for
// election. A change of the membership is left out, with all that follows: raft lets nobody stand who knows that one is
// committed and has not applied it.
func (c *Core) commitStored() {
	last := min(c.vouch.stored, c.log.last())
	if last <= c.commit {
		return
	}
	entries, err := c.log.Entries(c.commit+1, last+1, math.MaxUint64)
	if err != nil {
		return // it waits for an entry of its own term, as without the knowledge
	}
	if i := slices.IndexFunc(entries, isChange); i >= 0 {
		last = c.commit + uint64(i)
	}
	c.vouch.due = max(c.vouch.due, last)
	c.commitEarly()
}

func isChange(e *raftpb.Entry) bool { return e.GetType() != raftpb.EntryNormal }

// commitEarly commits what this follower and its leader have stored, if the leader has said that they are a quorum. An
// entry of the leader's term that is stored here is in the log of the leader, and so is all that is before it.
func (c *Core) commitEarly() {
	index := min(c.vouch.due, c.log.last())
	if index <= c.commit {
		return
	}
	s := c.raft.BasicStatus()
	if s.RaftState != raft.StateFollower || s.Lead == raft.None || s.HardState.GetTerm() != c.vouch.term ||
		index <= s.HardState.GetCommit() {
		return
	}
	if term, err := c.log.Term(index); err != nil || term != c.vouch.term {
		return
	}
	_ = c.raft.Step(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: ptr(s.Lead), To: ptr(c.id),
		Term: ptr(c.vouch.term), Commit: ptr(index), Context: early})
}

// ownNotice reports whether a message is the answer to the one of commitEarly.
func ownNotice(m *raftpb.Message) bool {
	return m.GetType() == raftpb.MsgHeartbeatResp && bytes.Equal(m.GetContext(), early)
}

// quorum reports whether two members are a majority of the voters.
func (m *membership) quorum(a, b uint64) bool {
	return slices.Contains(m.seconds(a), b)
}

// seconds returns the members that are a quorum together with a member.
func (m *membership) seconds(of uint64) []uint64 {
	if m.pairs.conf != m.conf() || m.pairs.of != of {
		m.pairs = pairs{conf: m.conf(), of: of}
		for id := range m.addresses() {
			if id != of && majority(m.conf().Voters, of, id) && majority(m.conf().VotersOutgoing, of, id) {
				m.pairs.with = append(m.pairs.with, id)
			}
		}
		slices.Sort(m.pairs.with)
	}
	return m.pairs.with
}

// pairs remembers what seconds has found.
type pairs struct {
	conf *raftpb.ConfState
	of   uint64
	with []uint64
}

// majority reports whether two members are a majority of the voters, of which there may be none.
func majority(voters []uint64, a, b uint64) bool {
	n := 0
	for _, id := range voters {
		if id == a || id == b {
			n++
		}
	}
	return len(voters) == 0 || n > len(voters)/2
}
