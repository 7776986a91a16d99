package consensus

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// The first leader of a new group dies before it has raised its term. The next one raises it, though it has heard of a
// leader since it started.
func TestFirstTermAfterADeath(t *testing.T) {
	const first = 1_000_000
	s := newStarved(t, 1)
	s.members = nil
	boot := Bootstrap(0, map[uint64]string{1: "a", 2: "b", 3: "c"})
	for id := range uint64(3) {
		core, err := NewCore(CoreConfig{ID: id + 1, HeartbeatTicks: 1, ElectionTicks: starvedElection,
			MostTicks: starvedMost, HoldTicks: starvedHold, Stagger: Stagger, Seed: id, FirstTerm: first,
			Saved: storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s.members = append(s.members, &starvedMember{core: core})
	}
	lose := func() { // what asks for votes in the raised term
		for _, m := range s.members {
			m.inbox = slices.DeleteFunc(m.inbox, func(w wire.Message) bool {
				return w.Raft.GetType() == raftpb.MsgVote && w.Raft.GetTerm() > first
			})
		}
	}
	dies := s.members[0]
	dies.core.campaign()
	for i := 0; dies.core.term < first; i++ {
		s.ready(dies)
		lose()
		for _, m := range s.members {
			if len(m.inbox) > 0 {
				w := m.inbox[0]
				m.inbox = m.inbox[1:]
				_ = m.core.Step(w)
				if m != dies {
					s.ready(m)
				}
			}
		}
		if i == 100 {
			t.Fatal("the first leader does not raise its term")
		}
	}
	s.stop(dies, 1<<20)
	lose()
	s.run(20 * starvedElection)
	if l := s.leader(); l == nil || l == dies || l.role.Term < first {
		t.Errorf("the next leader is %+v, want a term above %d", l, first)
	}
}
