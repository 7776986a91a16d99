package consensus

import (
	"errors"
	"maps"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// led returns three members. Member 1 leads.
func led(t *testing.T) *sim {
	s := newSim(t, 1, 1, 2, 3)
	s.members[1].core.campaign()
	s.drain(s.members[1])
	s.rest()
	s.check(s.members[1].role.Leading, "member 1 does not lead")
	return s
}

// beat makes one tick pass at a member.
func (s *sim) beat(id uint64) {
	s.members[id].core.Tick(0)
	s.drain(s.members[id])
	s.rest()
}

func (s *sim) hint(at, down uint64) {
	s.members[at].core.Hint(down)
	s.drain(s.members[at])
}

func (s *sim) die(id uint64) { s.members[id].core = nil }

// TestHint: after the death of a leader, the next one is elected without any time passing, whichever follower gets
// the hint first.
func TestHint(t *testing.T) {
	for _, order := range [][]uint64{{2, 3}, {3, 2}} {
		s := led(t)
		s.die(1)
		s.hint(order[0], 1)
		s.rest() // a request of member 2 is at 3 now, for which 1 still seems to live
		s.check(!s.members[2].role.Leading, "member 2 leads alone")
		s.hint(order[1], 1)
		s.rest()
		s.check(s.members[2].role.Leading, "hints at %v: member 2 does not lead, but is %+v", order, s.members[2].role)
		s.check(s.members[3].role.Leader == 2, "member 3 follows %d", s.members[3].role.Leader)
		s.check(s.members[2].role.Term == 3, "%d terms instead of one more", s.members[2].role.Term)
	}
}

// TestHintByRank: the second in rank waits, and does not start an election when the first has won.
func TestHintByRank(t *testing.T) {
	s := led(t)
	s.die(1)
	three := s.members[3].core
	three.Hint(1)
	rd := three.Ready()
	s.check(rd.Elect == Stagger && len(sentOf(rd, raftpb.MsgPreVote)) == 0, "member 3 asks to stand after %v, and "+
		"sends %v", rd.Elect, rd.Messages)
	s.hint(2, 1)
	s.rest()
	three.Elect()
	s.check(!three.HasReady(), "member 3 stands against a leader")

	s = led(t) // the same, but the first in rank gets the hint last
	s.die(1)
	s.hint(3, 1)
	s.members[3].core.Elect()
	s.rest() // the request reaches 2 before its hint
	s.hint(2, 1)
	s.rest()
	s.check(s.members[3].role.Leading, "member 3 does not lead, but is %+v", s.members[3].role)
}

// TestRanksOfGroups: after the death of a controller, the first in rank differs from group to group, so its groups
// spread evenly over the others. In each group the ranks differ. The groups of a controller that stops spread too.
func TestRanksOfGroups(t *testing.T) {
	first := make(map[uint64]int)      // how many groups a controller takes over
	successors := make(map[uint64]int) // how many it is given
	for group := range uint64(12) {
		s := newSimOf(t, group, 1, wire.ReplicaID(4, 2), wire.ReplicaID(1, uint16(group)), 2, 3)
		dead := s.members[wire.ReplicaID(4, 2)]
		dead.core.campaign()
		s.drain(dead)
		s.rest()
		s.check(dead.role.Leading, "controller 4 does not lead group %d", group)
		to, _ := dead.core.Status().Successor()
		successors[wire.ControllerOf(to)]++
		s.die(dead.id)
		waits := make(map[time.Duration]bool)
		for _, m := range s.up() {
			m.core.Hint(4)
			rd := m.core.Ready()
			if waits[rd.Elect] = true; rd.Elect == 0 {
				first[wire.ControllerOf(m.id)]++
			}
			asks, nominates := sentOf(rd, raftpb.MsgPreVote), sentOf(rd, raftpb.MsgPreVoteResp)
			s.check(rd.Elect == 0 && len(asks) == 3 && len(nominates) == 0 || rd.Elect > 0 && len(asks) == 0 &&
				len(nominates) == 1, "%v in rank, and sends %v", rd.Elect, rd.Messages)
		}
		s.check(len(waits) == 3 && waits[0] && waits[Stagger] && waits[2*Stagger], "group %d: waits %v", group, waits)
	}
	if want := map[uint64]int{1: 4, 2: 4, 3: 4}; !maps.Equal(first, want) || !maps.Equal(successors, want) {
		t.Errorf("groups by controller: %v taken over, %v given", first, successors)
	}
}

// TestHintWithShorterLog: the first in rank cannot win, and the second does not wait for its turn.
func TestHintWithShorterLog(t *testing.T) {
	s := led(t)
	s.cut[[2]uint64{1, 2}] = true
	s.propose(s.members[1])
	s.rest()
	s.die(1)
	s.hint(2, 1)
	s.hint(3, 1)
	s.rest()
	s.check(s.members[3].role.Leading, "member 3 does not lead, but is %+v", s.members[3].role)
	s.check(s.members[2].applied == s.members[3].applied && s.newest > 0, "the entry is lost")
}

// TestWrongHint: a live leader keeps the leadership, whichever member believes it dead.
func TestWrongHint(t *testing.T) {
	s := led(t)
	for range 10 {
		s.hint(2, 1)
		s.rest()
		s.beat(1)
		s.check(s.members[1].role.Leading && s.members[1].role.Term == 2, "member 1 is %+v", s.members[1].role)
		s.check(s.members[2].role == Role{Term: 2, Leader: 1}, "member 2 is %+v", s.members[2].role)
	}
}

// TestSilentLeader: without a hint, followers wait for the election timeout. The leader, which is cut off, steps
// down by itself.
func TestSilentLeader(t *testing.T) {
	s := led(t)
	for _, pair := range [][2]uint64{{1, 2}, {1, 3}, {2, 1}, {3, 1}} {
		s.cut[pair] = true
	}
	ticks := 0
	for ; !s.members[2].role.Leading && !s.members[3].role.Leading; ticks++ {
		s.check(ticks < 20, "nobody leads after %d ticks", ticks)
		for id := range uint64(3) {
			s.beat(id + 1)
		}
	}
	s.check(ticks >= 4, "a leader was given up after %d ticks", ticks)
	for range 10 {
		s.beat(1)
	}
	s.check(!s.members[1].role.Leading, "two leaders")
}

// TestTransfer: proposals wait during a transfer. If the other member does not take over, the leader continues in
// the same term, and its owner notices nothing.
func TestTransfer(t *testing.T) {
	s := led(t)
	one := s.members[1]
	s.check(one.core.TransferLeader(1) != nil && one.core.TransferLeader(9) != nil, "transfer to nobody")
	s.check(errors.Is(s.members[2].core.TransferLeader(3), ErrNotLeader), "transfer by a follower")
	s.cut[[2]uint64{1, 2}] = true
	s.must(one.core.TransferLeader(2))
	s.drain(one)
	s.rest()
	s.check(!one.core.Accepts(), "proposals are taken during a transfer")
	for ticks := 0; !one.core.Accepts(); ticks++ {
		s.check(ticks < 10, "the transfer does not end")
		s.beat(1)
	}
	s.check(one.role.Leading && one.role.Term == 2, "member 1 is %+v", one.role)
	s.propose(one)
	clear(s.cut)
	s.beat(1)
	s.check(s.newest > 0, "the proposal is lost")

	s.must(one.core.TransferLeader(2))
	s.drain(one)
	s.rest()
	s.check(s.members[2].role.Leading, "member 2 does not lead, but is %+v", s.members[2].role)
}

func TestCoreLostLog(t *testing.T) {
	s := led(t)
	s.propose(s.members[1])
	s.rest()
	commit, typ := s.members[1].core.commit, raftpb.MsgHeartbeat
	blank := newSim(t, 1, 1, 2, 3).members[2].core
	err := blank.Step(wire.Message{Raft: &raftpb.Message{Type: &typ, From: ptr(uint64(1)), To: ptr(uint64(2)),
		Term: ptr(uint64(2)), Commit: &commit}})
	var lost *LostLogError
	if !errors.As(err, &lost) || *lost != (LostLogError{ID: 2, Leader: 1, Known: commit, Has: bootIndex}) {
		t.Errorf("%v", err)
	}
}

// TestTail: entries that a slightly slower follower still needs stay in memory.
func TestTail(t *testing.T) {
	s := newSim(t, 1, 1)
	m := s.members[1]
	s.rest()
	for range 3 * tailEntries {
		s.propose(m)
	}
	s.rest()
	s.compact(m)
	s.rest()
	status := m.core.Status()
	if kept := status.Snapshot - status.First + 1; kept != tailEntries || status.Snapshot != m.applied {
		t.Errorf("%d entries before the snapshot are kept, not %d", kept, tailEntries)
	}
}

// TestCompactedEntriesAreFreed: what was queued when the disk and the owner were slow does not stay in memory.
func TestCompactedEntriesAreFreed(t *testing.T) {
	s := newSim(t, 1, 1)
	m := s.members[1]
	s.rest()
	var early []weak.Pointer[raftpb.Entry]
	for range 20 {
		s.propose(m)
	}
	for len(m.saving) > 0 {
		s.save(m, 1)
		for _, e := range m.core.log.entries[len(early):] {
			early = append(early, weak.Make(e))
		}
	}
	for range 2 * tailEntries {
		s.rest()
		s.propose(m)
	}
	s.rest()
	s.compact(m)
	s.rest()
	runtime.GC()
	for _, e := range early {
		if e := e.Value(); e != nil {
			t.Errorf("entry %d is in memory, and the log begins at %d", e.GetIndex(), m.core.Status().First)
		}
	}
	runtime.KeepAlive(s)
}

// TestSnapshotOlderThanTheLeaders: a snapshot that becomes ready after a newer one was received is dropped.
func TestSnapshotOlderThanTheLeaders(t *testing.T) {
	s := led(t)
	one := s.members[1]
	for range 3 {
		s.propose(one)
		s.rest()
	}
	newer, err := one.core.SnapshotAt(one.applied, nil)
	s.must(err)
	one.core.newest = newer.Index()
	if _, err := one.core.SnapshotAt(one.applied-1, nil); !errors.Is(err, ErrCompacting) {
		t.Errorf("%v: its owner would end", err)
	}
	if _, err := one.core.SnapshotAt(one.applied+1, nil); err == nil || errors.Is(err, ErrCompacting) {
		t.Errorf("a snapshot of what was not delivered: %v", err)
	}
}

// TestFirstTerm: the first leader after a start of all members leads in a term above the clock's. A failure of a leader
// costs one term, whatever the clock says.
func TestFirstTerm(t *testing.T) {
	s := newSim(t, 1, 1, 2, 3)
	start := func(clock uint64) {
		s.firstTerm = clock
		for _, m := range s.members {
			s.crash(m)
			s.start(m)
		}
		s.members[1].core.campaign()
		s.drain(s.members[1])
		s.rest()
	}
	led := func(id, term uint64) {
		t.Helper()
		if r := s.members[id].role; !r.Leading || r.Term != term {
			t.Fatalf("member %d is %+v, and does not lead in term %d", id, r, term)
		}
	}
	start(1000)
	led(1, 1001)
	s.firstTerm = 2000
	s.crash(s.members[1])
	s.start(s.members[1])
	s.hint(2, 1)
	s.hint(3, 1)
	s.rest()
	led(2, 1002)
	start(1000) // a clock that was set back
	led(1, 1003)
	s.beat(1) // all members store what is committed
	start(2000)
	led(1, 2001)
	if _, low := s.leaders[1004]; low {
		t.Error("the owner was told to lead in a term that is not above the clock")
	}
}

// TestTermAhead: a message whose term would use up the terms is not taken, whatever it says.
func TestTermAhead(t *testing.T) {
	s := led(t)
	before := s.members[2].core.term
	for _, typ := range []raftpb.MessageType{raftpb.MsgHeartbeat, raftpb.MsgApp, raftpb.MsgVote, raftpb.MsgPreVoteResp,
		raftpb.MsgSnap} {
		for _, term := range []uint64{clockTerms + 1, 1 << 36, 1<<64 - 1} {
			err := s.members[2].core.Step(wire.Message{Raft: &raftpb.Message{Type: &typ, From: ptr(uint64(1)),
				To: ptr(uint64(2)), Term: &term}})
			if ahead, is := errors.AsType[*TermError](err); !is || ahead.Term != term || ahead.From != 1 {
				t.Errorf("%s of term %d: %v", typ, term, err)
			}
		}
	}
	s.drain(s.members[2])
	s.propose(s.members[1])
	s.rest()
	if core := s.members[2].core; core.term != before || core.commit != s.members[1].core.commit {
		t.Errorf("member 2 is at entry %d in term %d", core.commit, core.term)
	}
	if a, b := maxTerm(clockTerms-1), maxTerm(clockTerms+5); a != clockTerms+1<<10-1 || b != clockTerms+5+1<<10 {
		t.Errorf("terms go on to %d, and %d", a, b)
	}
}
