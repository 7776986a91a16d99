package consensus

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// notices counts the appends without entries in flight to a member.
func (s *sim) notices(to uint64) (n int) {
	for _, w := range s.flying {
		if w.Raft.GetType() == raftpb.MsgApp && w.Raft.GetTo() == to && len(w.Raft.GetEntries()) == 0 {
			n++
		}
	}
	return n
}

// acknowledged makes member 2 acknowledge the first of two entries. So the first is committed, and the second is in
// flight.
func acknowledged(t *testing.T) *sim {
	s := led(t)
	one, two := s.members[1], s.members[2]
	s.propose(one)
	s.save(one, len(one.saving))
	for len(two.saving) == 0 {
		s.pass(2)
	}
	s.save(two, len(two.saving))
	s.propose(one)
	before := one.core.commit
	for one.core.commit == before {
		s.pass(1)
	}
	s.check(one.core.last == one.core.commit+1, "the log ends at %d, committed up to %d", one.core.last,
		one.core.commit)
	return s
}

// pass delivers the oldest message to a member.
func (s *sim) pass(to uint64) {
	i := slices.IndexFunc(s.flying, func(w wire.Message) bool { return w.Raft.GetTo() == to })
	s.check(i >= 0, "nothing is on its way to member %d", to)
	s.deliver(i)
	s.drain(s.members[to])
}

// TestNotices: followers learn that an entry is committed with the next entry, or at once if none is in flight.
func TestNotices(t *testing.T) {
	s := acknowledged(t)
	one := s.members[1]
	for _, to := range []uint64{2, 3} {
		s.check(s.notices(to) == 0, "%d notices to member %d while an entry is on its way", s.notices(to), to)
	}
	s.propose(one)
	s.check(len(one.core.notices.waiting) == 0, "%d notices wait, and entries have said more",
		len(one.core.notices.waiting))
	s.rest() // without a tick
	for _, id := range []uint64{2, 3} {
		s.check(s.members[id].applied == one.applied && one.applied == one.core.last,
			"member %d has %d entries, the leader %d of %d",
			id, s.members[id].applied, one.applied, one.core.last)
	}
}

// TestNoticesAreDue: if nobody answers, the notice is sent at the next tick.
func TestNoticesAreDue(t *testing.T) {
	s := acknowledged(t)
	one := s.members[1]
	s.flying = nil
	one.core.Tick(0)
	s.drain(one)
	for _, to := range []uint64{2, 3} {
		s.check(s.notices(to) == 1, "%d notices to member %d after a tick", s.notices(to), to)
	}
	one.core.Tick(0)
	s.check(!one.core.notices.due, "a notice is due twice")
}

// TestNoticesOfFormerLeaders: a former leader sends no notices.
func TestNoticesOfFormerLeaders(t *testing.T) {
	s := acknowledged(t)
	one := s.members[1]
	s.check(len(one.core.notices.waiting) > 0, "no notice waits")
	typ := raftpb.MsgHeartbeat
	s.must(one.core.Step(wire.Message{Raft: &raftpb.Message{Type: &typ, From: ptr(uint64(2)), To: ptr(one.id),
		Term: ptr(one.role.Term + 1)}}))
	s.drain(one)
	s.check(one.core.role.Leader == 2, "member 1 is %+v", one.core.role)
	one.core.Tick(0)
	s.check(len(one.core.notices.waiting) == 0 && !one.core.notices.due, "%d notices", len(one.core.notices.waiting))
}

// TestNoticesUnderLoad: with an entry every few milliseconds, followers learn of a commit with the next entry,
// whether or not one is in flight.
func TestNoticesUnderLoad(t *testing.T) {
	s := led(t)
	one, two := s.members[1], s.members[2]
	s.beat(1)
	s.beat(1)
	for range oftenEntries {
		s.check(two.applied == one.applied, "without load member 2 has %d entries at once, and the leader %d",
			two.applied, one.applied)
		s.propose(one)
		s.rest()
	}
	for range 3 * oftenEntries {
		before := one.applied
		s.propose(one)
		s.rest()
		s.check(one.applied > before && two.applied == before,
			"under load member 2 has %d entries, and the leader %d after %d", two.applied, one.applied, before)
	}
	s.beat(1)
	s.check(two.applied == one.applied, "after a tick member 2 has %d entries, and the leader %d", two.applied,
		one.applied)
	s.beat(1)
	s.propose(one)
	s.rest()
	s.check(two.applied == one.applied, "when the load is over member 2 has %d entries, and the leader %d", two.applied,
		one.applied)
}
