package consensus

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// vouched makes member 1, which leads, propose an entry, and delivers it to member 2, which saves it. stored: the
// leader has saved it before it is sent. asked: member 2 is to know early that it is committed. vouched returns what
// member 2 sends then.
func vouched(s *sim, stored, asked bool) []wire.Message {
	one, two := s.members[1], s.members[2]
	one.proposed++
	if asked {
		one.core.Hasten(2)
	}
	s.must(one.core.Propose(one.role.Term, fmt.Appendf(nil, "%d/%d", one.role.Term, one.proposed)))
	rd := one.core.Ready()
	one.inbox = append(one.inbox, rd.Updates...)
	if one.saving = rd.Append; stored {
		s.save(one, len(one.saving))
	}
	one.core.Vouch(rd.Messages)
	for _, m := range rd.Messages {
		if m.Raft.GetTo() == 2 {
			s.must(two.core.Step(m))
		}
	}
	rd = two.core.Ready()
	two.inbox = append(two.inbox, rd.Updates...)
	s.must(two.disk.Save(rd.Append))
	two.core.Stored(len(rd.Append))
	var sent []wire.Message
	for two.core.HasReady() {
		rd = two.core.Ready()
		sent, two.saving, two.inbox = append(sent, rd.Messages...), append(two.saving, rd.Append...),
			append(two.inbox, rd.Updates...)
	}
	return sent
}

// delivered reports whether an entry is among the updates for an owner.
func delivered(m *simMember) bool {
	return slices.ContainsFunc(m.inbox, func(u Update) bool { return u.Entries != nil })
}

// TestVouch: a follower commits what it and the leader have stored, if they are a quorum, without being told, and does
// not answer more often for that.
func TestVouch(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []uint64
		stored  bool
		asked   bool
		early   bool
	}{
		{"three members", []uint64{1, 2, 3}, true, true, true},
		{"two members", []uint64{1, 2}, true, true, true},
		{"not stored by the leader", []uint64{1, 2, 3}, false, true, false},
		{"five members", []uint64{1, 2, 3, 4, 5}, true, true, false},
		{"nobody asked", []uint64{1, 2, 3}, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSim(t, 1, c.members...)
			s.members[1].core.campaign()
			s.drain(s.members[1])
			s.rest()
			sent := vouched(s, c.stored, c.asked)
			s.check(delivered(s.members[2]) == c.early, "committed early: %v", !c.early)
			s.check(len(sent) == 1 && sent[0].Raft.GetType() == raftpb.MsgAppResp, "member 2 sends %v", sent)
			s.check((s.members[1].core.Vouches() != nil) == (c.early || !c.asked), "the leader vouches to %v",
				s.members[1].core.Vouches())
			s.flying = append(s.flying, sent...)
			s.heal()
			s.check(s.members[2].applied == s.newest && s.members[1].applied == s.newest, "not all are at %d", s.newest)
		})
	}
}

// TestVouchAgain: when a leader could not save at once what it has sent, the notice that it is committed does not wait.
func TestVouchAgain(t *testing.T) {
	s := led(t)
	for range oftenEntries { // else notices do not wait at all
		s.propose(s.members[1])
		s.rest()
	}
	s.flying = append(s.flying, vouched(s, true, true)...)
	s.rest()
	s.check(s.members[2].applied == s.newest, "member 2 is at %d", s.members[2].applied)
	s.flying = append(s.flying, vouched(s, false, true)...)
	s.save(s.members[1], len(s.members[1].saving))
	s.rest()
	s.check(s.members[1].applied == s.newest && s.members[2].applied == s.newest, "member 2 waits for a tick")
}

// TestVouchOfAnother: what the leader before has stored does not count for the next one.
func TestVouchOfAnother(t *testing.T) {
	core := led(t).members[2].core
	core.heardStored(core.term, 100, false)
	core.heardStored(core.term+1, 3, true)
	core.heardStored(core.term, 200, true)
	if got, want := core.vouch, (vouch{term: core.term + 1, stored: 3, due: 3}); got.term != want.term ||
		got.stored != want.stored || got.due != want.due {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSeconds: which members are a quorum together with the first.
func TestSeconds(t *testing.T) {
	var m membership
	addrs := map[uint64]string{1: "", 2: "", 3: "", 4: "", 5: ""}
	m.history = []membersAt{{addrs: addrs}}
	for _, c := range []struct {
		voters, outgoing, want []uint64
	}{
		{[]uint64{1, 2, 3}, nil, []uint64{2, 3}},
		{[]uint64{1}, nil, []uint64{2, 3, 4, 5}},
		{[]uint64{1, 2}, nil, []uint64{2}},
		{[]uint64{1, 2, 3, 4}, nil, nil},
		{[]uint64{1, 2, 3, 4, 5}, nil, nil},
		{[]uint64{2, 3, 4}, nil, nil},
		{[]uint64{1, 2, 3}, []uint64{1, 2, 4}, []uint64{2}},
		{[]uint64{1, 2, 3}, []uint64{1, 2, 3, 4}, nil},
		{[]uint64{1, 2, 3, 4}, []uint64{1, 2, 3}, nil},
	} {
		m.history = append(m.history, membersAt{addrs: addrs,
			conf: &raftpb.ConfState{Voters: c.voters, VotersOutgoing: c.outgoing}})
		if got := m.seconds(1); !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %v", c.voters, c.outgoing, got)
		}
	}
}
