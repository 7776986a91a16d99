package consensus

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// sentOf returns the messages of a type.
func sentOf(rd Ready, typ raftpb.MessageType) (sent []wire.Message) {
	for _, m := range rd.Messages {
		if m.Raft.GetType() == typ {
			sent = append(sent, m)
		}
	}
	return sent
}

// TestNomination: who is nominated, before or after its own hint, asks for votes without an answer to its PreVote.
func TestNomination(t *testing.T) {
	s := led(t)
	s.die(1)
	s.hint(3, 1)
	s.rest()
	s.members[2].core.Hint(1)
	rd := s.vote(2)
	s.check(len(sentOf(rd, raftpb.MsgVote)) == 2, "member 2 sends %v", rd.Messages)

	s = led(t)
	s.die(1)
	s.hint(2, 1)
	s.flying = nil
	s.hint(3, 1) // the nomination is the only message
	s.rest()
	s.check(s.members[2].role.Leading, "member 2 was nominated, and is %+v", s.members[2].role)
}

// vote saves what a member has to save, and returns its requests for votes, before anything else arrives.
func (s *sim) vote(id uint64) Ready {
	m := s.members[id]
	for m.core.HasReady() {
		rd := m.core.Ready()
		if len(sentOf(rd, raftpb.MsgVote)) > 0 {
			return rd
		}
		s.must(m.disk.Save(rd.Append))
		m.core.Stored(len(rd.Append))
	}
	return Ready{}
}

// TestNominationRefused: nominations that may not count.
func TestNominationRefused(t *testing.T) {
	nomination := func(s *sim) *raftpb.Message {
		two := s.members[2].core
		return &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), From: ptr(uint64(3)), To: ptr(uint64(2)),
			Term: ptr(two.term + 1), Index: ptr(two.last), LogTerm: ptr(two.lastTerm)}
	}
	for name, change := range map[string]func(m *raftpb.Message){
		"its log has more":       func(m *raftpb.Message) { m.Index = ptr(m.GetIndex() + 1) },
		"its log has a new term": func(m *raftpb.Message) { m.LogTerm, m.Index = ptr(m.GetLogTerm()+1), ptr(uint64(1)) },
		"an earlier term":        func(m *raftpb.Message) { m.Term = ptr(m.GetTerm() - 1) },
		"a later term":           func(m *raftpb.Message) { m.Term = ptr(m.GetTerm() + 1) },
		"a stranger":             func(m *raftpb.Message) { m.From = ptr(uint64(9)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := led(t)
			m := nomination(s)
			change(m)
			s.die(1)
			s.must(s.members[2].core.Step(wire.Message{Raft: m}))
			s.members[2].core.Hint(1)
			s.check(len(s.vote(2).Messages) == 0, "member 2 is a candidate")
		})
	}
}

// TestLeadsAtOnce: a leader that is known to have nothing that is not committed leads for its owner before an entry of
// its own is committed. If it does not know that, it waits.
func TestLeadsAtOnce(t *testing.T) {
	for _, stored := range []bool{true, false} {
		s := led(t)
		vouched(s, stored, false)
		s.die(1)
		s.flying = nil
		s.hint(3, 1)
		s.hint(2, 1)
		for len(s.flying) > 0 { // all but appends arrives
			if s.flying[0].Raft.GetType() == raftpb.MsgApp {
				s.flying = s.flying[1:]
			} else {
				s.deliver(0)
			}
			for _, m := range s.up() {
				s.save(m, len(m.saving))
			}
		}
		two := s.members[2].core
		s.check(two.state == raft.StateLeader && two.Leading(3) == stored, "stored %v: member 2 is %v, and %+v", stored,
			two.state, two.role)
	}
}

// TestNominationEnds: two members whose connections to the leader break one after the other do not depose it, if it is
// heard in between.
func TestNominationEnds(t *testing.T) {
	s := led(t)
	s.hint(3, 1)
	s.rest()
	s.beat(1)
	s.hint(2, 1)
	s.rest()
	s.beat(1)
	s.check(s.members[1].core.Leading(2), "member 1 is %+v", s.members[1].role)
}

// TestNominationWithChange: the first in rank stands for election, and takes over, although the last entry of the
// leader before is a change of the membership.
func TestNominationWithChange(t *testing.T) {
	for _, dies := range []bool{true, false} {
		s := led(t)
		one := s.members[1]
		for range oftenEntries { // else others are told at once what is committed
			s.propose(one)
			s.rest()
		}
		s.must(one.core.ProposeConfChange(7, MemberChange{Add: map[uint64]string{9: "new"}}))
		rd := one.core.Ready()
		s.must(one.disk.Save(rd.Append))
		one.core.Stored(len(rd.Append))
		one.core.Vouch(rd.Messages)
		s.flying = append(s.flying, rd.Messages...)
		for len(s.flying) > 0 && s.flying[0].Raft.GetType() == raftpb.MsgApp {
			to := s.members[s.flying[0].Raft.GetTo()]
			s.deliver(0)
			s.save(to, len(to.saving))
		}
		if dies {
			s.flying = nil
			s.die(1)
			s.hint(3, 1)
			s.hint(2, 1)
		} else {
			s.rest()
			s.must(one.core.TransferLeader(2))
			s.drain(one)
		}
		s.rest()
		s.check(s.members[2].role.Leading, "leader 1 dies %v: member 2 is %+v", dies, s.members[2].role)
	}
}
