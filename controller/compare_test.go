package controller

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// marking writes a row for each switch, which a test can damage.
func marking() ledger.Application {
	a := app.New("marking")
	marks := app.NewTable[app.Switch, string](a, "marks")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		marks.Put(tx, up.Switch, "intact")
		return nil
	})
	return a
}

// damage changes rows in the memory of a follower.
func (s *testCluster) damage(id uint64) {
	s.t.Helper()
	err := s.controllers[id].system().inLoop(s.t.Context(), func() {
		l := s.controllers[id].system().core.ledger
		state, err := l.Snapshot()
		if err != nil || !bytes.Contains(state, []byte("intact")) {
			s.t.Errorf("controller %d: %v, %d bytes", id, err, len(state))
		}
		if err := l.Restore(bytes.ReplaceAll(state, []byte("intact"), []byte("broken"))); err != nil {
			s.t.Error(err)
		}
	})
	if err != nil {
		s.t.Error(err)
	}
}

// intact waits until no replica has a damaged row.
func (s *testCluster) intact() {
	s.t.Helper()
	await.Until(s.t, "all replicas to be intact", func() bool {
		for _, c := range s.controllers {
			ok := false
			if err := c.system().inLoop(s.t.Context(), func() {
				rows, err := c.system().core.ledger.Rows("marking", 1<<20)
				ok = err == nil && len(rows) == 2 && bytes.Contains(rows[0].Value, []byte("intact"))
			}); err != nil || !ok {
				return false
			}
		}
		return true
	})
}

// Replicas that have come later are compared, and those that have left are not.
func TestPresentMembersAreCompared(t *testing.T) {
	s := newStand(t, CoreConfig{ID: 1, Names: map[uint64]string{1: "c1", 2: "c2", 3: "c3"}})
	var told []uint64
	s.send = func(member uint64, payload []byte) bool {
		if payload[0] == digestPayload {
			told = append(told, member)
		}
		return true
	}
	s.present.Voters = []uint64{1, 4, 5, 6, 7}
	s.present.Controllers = append(s.present.Voters, 8) // a learner, which counts for nothing
	s.ok(s.core.Tick(s.now))
	hear := func(from, sum uint64) {
		s.core.heardDigest(from, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 10), sum))
	}
	now := &s.core.comparison
	s.core.digested(10, 77)
	if !slices.Equal(told, []uint64{4, 5, 6, 7, 8}) {
		t.Errorf("told %d", told)
	}
	hear(2, 77)
	hear(3, 77)
	hear(8, 77)
	if hear(4, 77); now.known {
		t.Error("two of five are a majority")
	}
	if hear(5, 77); !now.equal {
		t.Error("three of five are no majority")
	}
	s.core.digested(20, 88)
	for from := range uint64(5) {
		s.core.heardDigest(from+2, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 20), 99))
	}
	if now.err == nil {
		t.Error("a replica that differs from four of five is not told")
	}
}

// A follower whose state differs begins anew and is equal afterwards; and so is one that leads when it is found out,
// and another one leads then. Switches do not notice.
func TestReplicasAreCompared(t *testing.T) {
	t.Parallel()
	s := newTestCluster(t, 500, func() []ledger.Application { return []ledger.Application{marking(), hub.New()} })
	end := s.load(2)
	var leader uint64
	await.Until(t, "a leader with both switches", func() bool {
		id, st := s.leader()
		leader = id
		return st.LastIndex > 50 && len(st.Switches) == 2
	})
	s.intact()
	first, second := leader%3+1, (leader+1)%3+1
	s.damage(first)
	await.Until(t, "the damaged follower to begin anew", func() bool { return s.controllers[first].rebuilt.Load() == 1 })
	s.intact()
	s.damage(second)
	if err := s.controllers[leader].system().node.Transfer(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the damaged leader to begin anew", func() bool { return s.controllers[second].rebuilt.Load() == 1 })
	s.intact()
	id, st := s.leader()
	if id == second {
		t.Errorf("controller %d, which was damaged, leads in term %d", id, st.Term)
	}
	if n := s.controllers[leader].rebuilt.Load(); n != 0 {
		t.Errorf("controller %d, which was never damaged, has begun anew %d times", leader, n)
	}
	end()
	s.down()
	s.quiet()
}
