package consensus

import (
	"context"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"go.etcd.io/raft/v3/raftpb"
)

// TestChangeKeepsQuorum: a leader refuses a change that would leave no quorum of members that it hears, and no
// other change.
func TestChangeKeepsQuorum(t *testing.T) {
	for _, c := range []struct {
		name   string
		change MemberChange
		ok     bool
	}{
		{"a new one", MemberChange{Add: map[uint64]string{4: "new"}}, true},
		{"one that is there, and the one that is left is not", MemberChange{Remove: []uint64{2}}, false},
		{"one that is not there", MemberChange{Remove: []uint64{3}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := led(t)
			s.die(3)
			for range 7 { // 3 is silent for long enough
				s.beat(1)
			}
			err := s.members[1].core.ProposeConfChange(1, c.change)
			var lost *QuorumError
			if c.ok && err != nil || !c.ok && !errors.As(err, &lost) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStandby: a learner has all entries and no vote. When it is promoted it can lead.
func TestStandby(t *testing.T) {
	s := led(t)
	one := s.members[1]
	s.changeTo(one, MemberChange{Add: map[uint64]string{4: "new"}})
	s.propose(one)
	s.rest()
	four := s.members[4]
	s.check(four.applied == s.newest && s.newest > 0, "member 4 is at %d of %d", four.applied, s.newest)
	for range 100 {
		four.core.Tick(0)
		four.core.Elect()
	}
	s.drain(four)
	s.check(len(s.flying) == 0, "member 4 stands for election: %v", s.flying)
	s.check(one.core.TransferLeader(4) != nil, "the leadership goes to who does not vote")
	status := one.core.Status()
	s.check(len(status.Members) == 4 && slices.Equal(status.Voters, []uint64{1, 2, 3}), "%+v", status)

	s.beat(1)
	s.changeTo(one, MemberChange{Promote: []uint64{4}, Remove: []uint64{3}})
	s.check(slices.Equal(one.core.Status().Voters, []uint64{1, 2, 4}), "%+v", one.core.Status())
	s.check(s.members[3] == nil, "member 3 has not heard that it is removed")
	s.must(one.core.TransferLeader(4))
	s.drain(one)
	s.rest()
	s.check(four.role.Leading, "member 4 does not lead, but is %+v", four.role)

	for _, c := range []struct {
		change MemberChange
		says   string
	}{
		{MemberChange{Add: map[uint64]string{3: "new"}}, "use a new id"},
		{MemberChange{Promote: []uint64{1}}, "is not a learner"},
		{MemberChange{Demote: []uint64{4}}, "leads"},
		{MemberChange{Demote: []uint64{9}}, "does not vote"},
	} {
		if err := four.core.ProposeConfChange(2, c.change); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, which does not say %q", c.change, err, c.says)
		}
	}
}

// changeTo changes the members, and waits until the change has taken effect at all of them.
func (s *sim) changeTo(leader *simMember, change MemberChange) {
	s.t.Helper()
	id := s.rand.Uint64()
	s.must(leader.core.ProposeConfChange(id, change))
	for added := range change.Add {
		s.members[added] = &simMember{id: added, disk: new(storage.Memory)}
		s.start(s.members[added])
	}
	s.drain(leader)
	s.rest()
	s.beat(leader.id)
	s.check(leader.core.ConfChangeApplied(id), "the change %+v is not in effect", change)
}

// TestBlankMember: a member that has lost its log, and waits to be added, has no vote. When it learns that it used
// to be a member, it stops.
func TestBlankMember(t *testing.T) {
	s := led(t)
	s.propose(s.members[1])
	s.rest()
	blank := &simMember{id: 3, disk: new(storage.Memory)}
	s.members[3] = blank
	s.start(blank)
	s.die(1)
	s.members[2].core.campaign() // it would lead a later term without what 3 has acknowledged
	s.drain(s.members[2])
	s.rest()
	s.check(!s.members[2].role.Leading, "the blank member has voted")

	s = led(t)
	s.propose(s.members[1])
	s.rest()
	snapshot := s.members[1].core.members.now().raftSnapshot(5, 2)
	s.members[3].disk = new(storage.Memory)
	s.start(s.members[3])
	err := s.members[3].core.Step(wire.Message{Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: ptr(uint64(1)),
		To:   ptr(uint64(3)),
		Term: ptr(uint64(2)), Snapshot: snapshot}})
	var lost *LostLogError
	if !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
}

// TestFoundedWithOthers: a member that was bootstrapped with other members gets no votes from the rest.
func TestFoundedWithOthers(t *testing.T) {
	s := newSim(t, 1, 1, 2, 3)
	other := &simMember{id: 4, disk: new(storage.Memory), foreign: true}
	s.must(other.disk.Save([]storage.Batch{Bootstrap(0, map[uint64]string{1: "a", 2: "b", 4: "d"})}))
	s.members[4] = other
	s.start(other)
	other.core.campaign()
	s.drain(other)
	s.rest()
	s.check(!other.role.Leading, "member 4 leads, which 1 and 2 do not know")

	one := s.members[1]
	one.core.campaign()
	s.drain(one)
	s.rest()
	s.must(one.core.ProposeConfChange(1, MemberChange{Add: map[uint64]string{4: "d"}}))
	s.drain(one)
	s.rest()
	s.check(s.members[4] == nil, "member 4 is added, and goes on")
}

// TestDeferElection: a member that defers elections leaves the leadership to another, but takes it if no other
// member can win.
func TestDeferElection(t *testing.T) {
	s := led(t)
	two := s.members[2]
	two.core.DeferElection(true)
	s.must(s.members[1].core.TransferLeader(2))
	s.drain(s.members[1])
	s.rest()
	s.check(!two.role.Leading, "it took a leadership that was transferred")
	s.die(1)
	s.hint(2, 1) // it is the first in rank
	s.rest()
	s.check(!two.role.Leading, "it did not wait for the other")
	s.hint(3, 1)
	s.members[3].core.Elect()
	s.rest()
	s.check(s.members[3].role.Leading, "member 3 does not lead, but is %+v", s.members[3].role)

	s = led(t)
	s.members[2].core.DeferElection(true)
	s.cut[[2]uint64{1, 3}] = true
	s.propose(s.members[1])
	s.rest()
	s.die(1)
	s.hint(2, 1)
	s.hint(3, 1)
	s.members[3].core.Elect()
	s.rest()
	s.check(s.members[2].role.Leading, "member 2, whose log is the longest, does not lead, but is %+v",
		s.members[2].role)
}

// TestGiveAwayAgain: a member that has declined the leadership is asked again in the next attempt.
func TestGiveAwayAgain(t *testing.T) {
	for _, willing := range []uint64{2, 3} {
		s := led(t)
		one := s.members[1]
		attempt := func() error {
			s.must(one.core.giveAway())
			for range 1000 {
				s.drain(one)
				s.rest()
				if done, err := one.core.givenAway(); done {
					return err
				}
				s.beat(1)
			}
			t.Fatal("the attempt does not end")
			return nil
		}
		s.members[2].core.DeferElection(true)
		s.members[3].core.DeferElection(true)
		if err := attempt(); err == nil {
			t.Fatal("a member that defers elections took the leadership")
		}
		s.members[willing].core.DeferElection(false)
		if err := attempt(); err != nil || !s.members[willing].role.Leading {
			t.Errorf("member %d would take it, and is %+v: %v", willing, s.members[willing].role, err)
		}
	}
}

// TestDrained: a drained member leaves the leadership to others, and takes it when there are none.
func TestDrained(t *testing.T) {
	s := led(t)
	one := s.members[1]
	s.members[2].core.Drain()
	s.must(one.core.TransferLeader(2))
	s.drain(one)
	s.rest()
	s.check(!s.members[2].role.Leading, "a drained member took the leadership")
	s.die(1)
	s.hint(2, 1)
	s.hint(3, 1)
	for ticks := 0; !s.members[3].role.Leading; ticks++ {
		s.check(ticks < 20, "member 3 does not lead after %d ticks", ticks)
		s.check(!s.members[2].role.Leading, "the drained one leads, and the other was there")
		s.beat(2)
		s.beat(3)
	}
	s.members[3].core.Drain() // no member is left that is not drained
	s.start(one)
	one.core.Drain()
	s.die(3)
	for ticks := 0; !s.members[2].role.Leading && !one.role.Leading; ticks++ {
		s.check(ticks < 100*lastResort, "nobody leads, though two could")
		s.beat(1)
		s.beat(2)
	}
}

// TestDrainNode: the leader gives the leadership away and does not get it back.
func TestDrainNode(t *testing.T) {
	var owners []*owner
	for _, cfg := range configs(t, 3) {
		owners = append(owners, start(t, cfg))
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	first := leaderOf(t, owners...)
	settle(t, first, owners)
	if err := first.n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	second := leaderOf(t, owners...)
	if second.n == first.n {
		t.Fatal("the drained member leads")
	}
	settle(t, second, owners)
	if err := second.n.Transfer(ctx, first.n.cfg.ID); err == nil {
		t.Error("the drained member took the leadership back")
	}
	if err := second.n.Drain(ctx); err != nil { // the third takes over, whichever is asked first
		t.Fatal(err)
	}
	third := leaderOf(t, owners...)
	settle(t, third, owners)
	if err := third.n.Drain(ctx); err == nil || third.n.Status().Leader != third.n.cfg.ID {
		t.Errorf("%v, and %+v leads: nobody is left who would take over", err, third.n.Status().Role)
	}
	alone := start(t, single(t))
	alone.leads(t)
	if err := alone.n.Drain(ctx); err == nil || !strings.Contains(err.Error(), "no other member can lead") {
		t.Errorf("a single member is drained: %v", err)
	}
}

// TestRemovedHears: a member that was removed while it was down is told when it returns.
func TestRemovedHears(t *testing.T) {
	cfgs := configs(t, 3)
	var owners []*owner
	dir := t.TempDir()
	for i := range cfgs {
		cfgs[i].Dir = filepath.Join(dir, string(rune('a'+i)))
		owners = append(owners, start(t, cfgs[i]))
	}
	leader := leaderOf(t, owners...)
	settle(t, leader, owners)
	gone := leader.n.cfg.ID % 3 // used as an index
	addr := cfgs[gone].Listener.Addr().String()
	if err := owners[gone].close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	if err := leader.n.ChangeMembers(ctx, MemberChange{Remove: []uint64{cfgs[gone].HostConfig.ID}}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cfgs[gone].Listener = l
	again := start(t, cfgs[gone])
	select {
	case <-again.ended:
	case <-ctx.Done():
		t.Fatal("it goes on")
	}
	if err := again.n.Err(); !errors.Is(err, ErrRemoved) {
		t.Errorf("%v", err)
	}
}

// TestFound: the log of a first member is created once. A member that has lost it does not start.
func TestFound(t *testing.T) {
	cfg := config{HostConfig{ID: 1, Cluster: "test", Founded: true, Dir: t.TempDir(), Logger: testLogger(t)},
		GroupConfig{Members: map[uint64]string{1: "c1@"}}}
	if _, _, err := begin(cfg); !errors.Is(err, ErrNoLog) {
		t.Fatalf("a member without a log: %v", err)
	}
	if err := Found(cfg.HostConfig, cfg.GroupConfig); err != nil {
		t.Fatal(err)
	}
	if err := Found(cfg.HostConfig, cfg.GroupConfig); err == nil ||
		!strings.Contains(err.Error(), "holds a log already") {
		t.Errorf("founded twice: %v", err)
	}
	o := start(t, cfg)
	o.leads(t)
	if got := o.n.Status().Members; got[1] != "c1@" {
		t.Errorf("members %v", got)
	}
	if got := o.n.Present().Names; len(got) != 1 || got[1] != "c1" {
		t.Errorf("names %v", got)
	}
}

func TestSplitAddress(t *testing.T) {
	for _, c := range [][3]string{{"c1@10.0.0.1:7001", "c1", "10.0.0.1:7001"}, {"[::1]:7001", "", "[::1]:7001"},
		{"", "", ""}} {
		if name, addr := SplitAddress(c[0]); name != c[1] || addr != c[2] {
			t.Errorf("%q is %q and %q", c[0], name, addr)
		}
	}
}

// TestSnapshotData: a snapshot contains the members. Snapshots of releases without members can be read.
func TestSnapshotData(t *testing.T) {
	at := membersAt{known: 7, conf: &raftpb.ConfState{Voters: []uint64{1}}, addrs: map[uint64]string{1: "c1@a:1"},
		gone: []uint64{5, 1 << 40}}
	data := at.raftSnapshot(9, 2).GetData()
	known, addrs, gone, err := parseSnapshotData(data)
	if diff := cmp.Diff(at.addrs, addrs); err != nil || known != 9 || diff != "" || !slices.Equal(gone, at.gone) {
		t.Errorf("%d, %v, %v, %v", known, addrs, gone, err)
	}
	for n := range data {
		_, _, gone, err := parseSnapshotData(data[:n])
		if whole := len(data) - len(appendGone(nil, at.gone)); (err == nil) != (n == whole) || len(gone) > 0 {
			t.Errorf("the first %d of %d bytes: %v, %v", n, len(data), gone, err)
		}
	}
}

// FuzzSnapshotData: the decoder does not panic on any bytes, and what it accepts is encoded to the same bytes.
func FuzzSnapshotData(f *testing.F) {
	f.Add(membersAt{known: 7, addrs: map[uint64]string{1: "c1@a:1", 300: ""}, gone: []uint64{5}}.raftSnapshot(9,
		2).GetData())
	f.Add([]byte{9, 1, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		known, addrs, gone, err := parseSnapshotData(b)
		if err != nil {
			return
		}
		again := membersAt{known: known, addrs: addrs, gone: gone}.raftSnapshot(0, 0).GetData()
		if k, a, g, err := parseSnapshotData(again); err != nil || k != known || !maps.Equal(a, addrs) ||
			!slices.Equal(g, gone) {
			t.Errorf("%d, %v, %v became %d, %v, %v: %v", known, addrs, gone, k, a, g, err)
		}
	})
}

// TestStrangerStops: a member was founded with the members of a running group and itself. They tell it that it is not
// one of them, and it disturbs them in nothing.
func TestStrangerStops(t *testing.T) {
	cfgs := configs(t, 3)
	var owners []*owner
	for _, cfg := range cfgs {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	settle(t, leader, owners)
	before := leader.n.Status()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wrong := cfgs[0]
	wrong.HostConfig.ID, wrong.Listener, wrong.Members = 7, l, maps.Clone(wrong.Members)
	wrong.Members[7], wrong.Members[8] = l.Addr().String(), "127.0.0.1:1"
	stranger := start(t, wrong)
	await.End(t, "it", stranger.ended)
	if err := stranger.n.Err(); !errors.Is(err, ErrStranger) {
		t.Errorf("it ended because %v", err)
	}
	if after := leader.n.Status(); after.Term != before.Term || !after.Leading {
		t.Errorf("the leader's role was %+v, and is %+v", before.Role, after.Role)
	}
}
