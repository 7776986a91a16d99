package consensus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"go.etcd.io/raft/v3/raftpb"
)

// groupCluster is hosts that take part in the same groups.
type groupCluster struct {
	hosts  []*Host
	groups [][]*owner // by group, and then by host
}

// placed is the number of a group's replicas at their controllers: the replicas of group 0 are the first ones.
func placed(group uint64) uint16 { return uint16(group) }

// startGroups starts hosts with some groups each.
func startGroups(t testing.TB, count int, groups uint64) *groupCluster {
	c := &groupCluster{groups: make([][]*owner, groups)}
	cfgs := configs(t, count)
	for _, cfg := range cfgs {
		h, err := NewHost(cfg.HostConfig)
		if err != nil {
			t.Fatal(err)
		}
		c.hosts = append(c.hosts, h)
		var owners []*owner
		t.Cleanup(func() {
			if !h.closed {
				h.Close()
			}
			for _, o := range owners {
				<-o.ended
			}
		})
		for group := range groups {
			members := make(map[uint64]string)
			for id, addr := range cfg.Members {
				members[wire.ReplicaID(id, placed(group))] = addr
			}
			n, err := h.Start(GroupConfig{Group: group, ID: wire.ReplicaID(cfg.HostConfig.ID, placed(group)),
				Members: members})
			if err != nil {
				t.Fatal(err)
			}
			owners = append(owners, own(n))
			c.groups[group] = append(c.groups[group], owners[group])
		}
	}
	return c
}

// A group may have replicas on some hosts only, and members that are learners from the beginning: these receive the log
// and do not vote.
func TestFoundedPlacement(t *testing.T) {
	cfgs := configs(t, 3)
	placement := []GroupConfig{{Members: cfgs[0].Members, Learners: []uint64{3}},
		{Group: 1, Members: map[uint64]string{2: cfgs[0].Members[2], 3: cfgs[0].Members[3]}}}
	owners := make([][]*owner, len(placement))
	for _, cfg := range cfgs {
		h, err := NewHost(cfg.HostConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		for i, g := range placement {
			if _, here := g.Members[cfg.HostConfig.ID]; !here {
				continue
			}
			n, err := h.Start(g)
			if err != nil {
				t.Fatal(err)
			}
			owners[i] = append(owners[i], own(n))
		}
	}
	for group, members := range owners {
		leader := leaderOf(t, members...)
		if err := leader.n.Propose(leader.term, []byte("entry")); err != nil {
			t.Fatal(err)
		}
		for _, o := range members {
			if e := o.entry(t); string(e.Data) != "entry" {
				t.Errorf("group %d: entry %q", group, e.Data)
			}
			want := []uint64{1, 2}
			if group == 1 {
				want = []uint64{2, 3}
			}
			if s := o.n.Status(); !slices.Equal(s.Voters, want) || len(s.Members) != len(members) {
				t.Errorf("group %d: voters %v of %v", group, s.Voters, s.Members)
			}
		}
	}
	none := GroupConfig{Group: 2, Members: cfgs[0].Members, Learners: []uint64{1, 2, 3}}
	if _, err := owners[0][0].n.host.Start(none); err == nil {
		t.Error("a group in which nobody votes")
	}
}

// give makes the first host the leader of all groups.
func (c *groupCluster) give(t testing.TB) {
	t.Helper()
	for _, owners := range c.groups {
		await.Until(t, "the leadership of the first host", func() bool {
			leader := leaderOf(t, owners...)
			if leader.owner == owners[0] {
				return true
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return leader.n.Transfer(ctx, owners[0].n.cfg.ID) == nil
		})
	}
}

// Three hosts take part in four groups. Each group has its own leader, log and term. When one group ends at a host, the
// others do not notice; when a host ends, the others lead the groups that it led. TestRanksOfGroups says which.
func TestHosts(t *testing.T) {
	c := startGroups(t, 3, 4)
	for group, owners := range c.groups {
		leader := leaderOf(t, owners...)
		for i := range 10 * (group + 1) {
			if err := leader.n.Propose(leader.term, fmt.Appendf(nil, "%d of %d", i, group)); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range owners {
			for i := range 10 * (group + 1) {
				if e := o.entry(t); string(e.Data) != fmt.Sprintf("%d of %d", i, group) {
					t.Fatalf("group %d: entry %d is %q", group, i, e.Data)
				}
			}
		}
	}
	c.give(t)
	var terms []uint64
	for _, owners := range c.groups {
		leader := leaderOf(t, owners[0])
		settle(t, leader, owners)
		terms = append(terms, leader.term)
	}

	if err := c.groups[3][0].n.Close(); err != nil {
		t.Fatal(err)
	}
	settle(t, leaderOf(t, c.groups[3][1:]...), c.groups[3][1:])
	for group, owners := range c.groups[:3] {
		settle(t, leaderOf(t, owners[0]), owners)
		if term := owners[0].n.leading.Load(); term != terms[group] {
			t.Errorf("group %d: term %d after term %d, because another group ended", group, term, terms[group])
		}
	}
	if !c.hosts[1].transport.Connected(1) {
		t.Error("not connected to the host of a group that ended")
	}

	if err := c.hosts[0].Close(); err != nil {
		t.Fatal(err)
	}
	for _, owners := range c.groups[:3] {
		settle(t, leaderOf(t, owners[1:]...), owners[1:])
	}
}

// A group whose loop is stuck at a host holds up no other: neither their messages and payloads, nor their heartbeats.
// What it cannot take is dropped, and sent again when it runs.
func TestStuckGroup(t *testing.T) {
	c := startGroups(t, 3, 2)
	c.give(t)
	for _, owners := range c.groups {
		settle(t, leaderOf(t, owners[0]), owners)
	}
	stuck, release, began := c.groups[1][1], make(chan struct{}), make(chan struct{})
	run := sync.OnceFunc(func() { close(release) })
	t.Cleanup(run)
	if err := stuck.n.inbox.call(func(*Core) { close(began); <-release }); err != nil {
		t.Fatal(err)
	}
	<-began
	large := wire.Message{Group: 1, Raft: &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: ptr(wire.ReplicaID(1, 1)),
		To: ptr(wire.ReplicaID(2, 1)), Entries: []*raftpb.Entry{{Data: make([]byte, maxMessageSize)}}}}
	full := func() bool {
		stuck.n.inbox.mu.Lock()
		defer stuck.n.inbox.mu.Unlock()
		return stuck.n.inbox.bytes > maxQueuedBytes
	}
	for !full() { // of an old term, so they mean nothing
		received{c.hosts[1]}.Received(large)
	}
	terms := c.groups[0][0].n.leading.Load()
	one := leaderOf(t, c.groups[1][0])
	for range 20 {
		settle(t, leaderOf(t, c.groups[0][0]), c.groups[0])
		settle(t, one, []*owner{c.groups[1][0], c.groups[1][2]})
	}
	time.Sleep(2 * c.hosts[0].cfg.Election)
	settle(t, leaderOf(t, c.groups[0][0]), c.groups[0])
	if now := c.groups[0][0].n.leading.Load(); now != terms {
		t.Errorf("group 0 has changed from term %d to %d, because another one is stuck", terms, now)
	}
	run()
	settle(t, leaderOf(t, c.groups[1]...), []*owner{stuck})
}

// Messages for a group that is not at a host, or for an earlier replica, are dropped and logged once, and harm nobody.
func TestAbsentGroup(t *testing.T) {
	var log await.Log
	cfgs := configs(t, 2)
	cfgs[1].Logger = log.Logger()
	var owners []*owner
	for _, cfg := range cfgs {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	settle(t, leader, owners)
	for range 5 {
		owners[0].host.transport.Send([]wire.Message{
			{Group: 7, Raft: &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: ptr(uint64(1)), To: ptr(uint64(2))}},
			{Raft: &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: ptr(uint64(1)),
				To: ptr(wire.ReplicaID(2, 1)), Term: ptr(uint64(1 << 60))}},
		})
	}
	owners[0].host.transport.SendPayload(7, 2, []byte("nobody takes this"))
	log.Line(t, "group=7 replica=2")
	settle(t, leader, owners) // comes behind the messages
	if term := leader.n.leading.Load(); term != leader.term {
		t.Fatalf("term %d after messages for others in term %d", term, leader.term)
	}
	log.Line(t, fmt.Sprintf("group=0 replica=%d", wire.ReplicaID(2, 1)))
}

// faulty is a storage that fails from some time on.
type faulty struct {
	storage.Memory
	failing atomic.Bool
}

var errFaulty = errors.New("the disk is on fire")

func (f *faulty) Save(batches []storage.Batch) error {
	if f.failing.Load() {
		return errFaulty
	}
	return f.Memory.Save(batches)
}

// A fault of the log stops all groups, and none can be started any more. Nothing is acknowledged that was not saved.
func TestFaultOfLog(t *testing.T) {
	store := new(faulty)
	h, err := NewHost(HostConfig{ID: 1, Storage: store, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(h.Close)
	t.Cleanup(func() { _ = end() })
	var owners []*owner
	for group := range uint64(3) {
		n, err := h.Start(GroupConfig{Group: group, Members: map[uint64]string{1: ""}})
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, own(n))
	}
	term := owners[1].leads(t)
	store.failing.Store(true)
	if err := owners[1].n.Propose(term, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for group, o := range owners {
		await.End(t, fmt.Sprint("group ", group), o.ended)
		if err := o.n.Err(); !errors.Is(err, errFaulty) || len(o.entries) > 0 {
			t.Errorf("group %d has stopped with %d entries because of %v", group, len(o.entries), err)
		}
	}
	if _, err := h.Start(GroupConfig{Group: 9, Members: map[uint64]string{1: ""}}); !errors.Is(err, errFaulty) {
		t.Errorf("a group is started: %v", err)
	}
	if err := end(); !errors.Is(err, errFaulty) {
		t.Errorf("Close: %v", err)
	}
}

// A group is started once, before the Host is closed. The other groups do not depend on it.
func TestStartOfGroups(t *testing.T) {
	h, err := NewHost(HostConfig{ID: 1, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	of := func(group uint64) GroupConfig { return GroupConfig{Group: group, Members: map[uint64]string{1: ""}} }
	first, err := h.Start(of(5))
	if err != nil {
		t.Fatal(err)
	}
	o := own(first)
	o.leads(t)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(of(5)); err == nil || !strings.Contains(err.Error(), "group 5 was started before") {
		t.Errorf("started again: %v", err)
	}
	second, err := h.Start(of(6))
	if err != nil {
		t.Fatal(err)
	}
	o = own(second)
	o.leads(t)
	if err := h.Close(); err != nil || !errors.Is(second.Err(), ErrClosed) {
		t.Errorf("Close: %v, and a node: %v", err, second.Err())
	}
	<-o.ended
	if _, err := h.Start(of(7)); !errors.Is(err, ErrClosed) {
		t.Errorf("started after the end: %v", err)
	}
}

// The controllers of all groups are dialed, at the address that the first of their groups knows. Those that have left
// group 0 were removed, unless they came back.
func TestPeersOfGroups(t *testing.T) {
	later := wire.ReplicaID(3, 1)
	got := controllers(map[uint64]map[uint64]string{
		4: {1: "a", later: "old", wire.ReplicaID(5, 2): "e"},
		0: {1: "a", 2: "b", 3: "older", later: "c"},
	})
	if want := map[uint64]string{1: "a", 2: "b", 3: "c", 5: "e"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	gone := removed(map[uint64]string{1: "a", wire.ReplicaID(3, 2): "c"}, []uint64{3, later, 2, wire.ReplicaID(7, 1)})
	if !slices.Equal(gone, []uint64{2, 7}) {
		t.Errorf("removed are %d", gone)
	}
}

// The log of a controller keeps what each of its groups saved. A group that was not founded here has lost its log.
func TestFoundGroups(t *testing.T) {
	cfg := HostConfig{ID: 1, Founded: true, Dir: filepath.Join(t.TempDir(), "log"), Logger: testLogger(t)}
	of := func(group uint64) GroupConfig { return GroupConfig{Group: group, Members: map[uint64]string{1: ""}} }
	if err := Found(cfg, of(0), of(1)); err != nil {
		t.Fatal(err)
	}
	const entries = 10
	for life := range 3 {
		h, err := NewHost(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Start(of(2)); !errors.Is(err, ErrNoLog) {
			t.Errorf("a group that was not founded: %v", err)
		}
		for _, group := range []uint64{1, 0} {
			n, err := h.Start(of(group))
			if err != nil {
				t.Fatal(err)
			}
			o := own(n)
			term := o.leads(t)
			var last Entry
			if life == 2 && group == 1 {
				if s := <-o.snaps; string(s.State) != "state of 1" || string(o.entry(t).Data) != "after" {
					t.Errorf("snapshot %q", s.State)
				}
			} else {
				for i := range entries * life {
					if last = o.entry(t); string(last.Data) != fmt.Sprintf("%d of %d", i%entries, group) {
						t.Fatalf("life %d: entry %d of group %d is %q", life, i, group, last.Data)
					}
				}
			}
			for i := range entries {
				if err := n.Propose(term, fmt.Appendf(nil, "%d of %d", i, group)); err != nil {
					t.Fatal(err)
				}
				last = o.entry(t)
			}
			if life == 1 && group == 1 {
				if err := n.Compact(last.Index, []byte("state of 1")); err != nil {
					t.Fatal(err)
				}
				await.Until(t, "the snapshot", func() bool { return n.Status().Snapshot == last.Index })
				if err := n.Propose(term, []byte("after")); err != nil {
					t.Fatal(err)
				}
				o.entry(t) // it is saved behind the snapshot
			}
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A replica that has left a group is forgotten, and a later one of the same controller begins with an empty log. After
// a restart the log says which of them it is of.
func TestForget(t *testing.T) {
	cfg := HostConfig{ID: 1, Founded: true, Dir: filepath.Join(t.TempDir(), "log"), Logger: testLogger(t)}
	if err := Found(cfg, GroupConfig{Members: map[uint64]string{1: ""}}); err != nil {
		t.Fatal(err)
	}
	later := wire.ReplicaID(1, 1)
	for life, id := range []uint64{1, later} {
		h, err := NewHost(cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint64]uint64{0: 1}
		if life > 0 {
			want[5] = 1
		}
		if got := h.Idle(); !maps.Equal(got, want) {
			t.Errorf("life %d: logs of %v, want %v", life, got, want)
		}
		if life > 0 {
			if err := h.Forget(5); err != nil {
				t.Fatal(err)
			}
		}
		n, err := h.Start(GroupConfig{Group: 5, ID: id, New: true, Members: map[uint64]string{id: ""}})
		if err != nil {
			t.Fatal(err)
		}
		o := own(n)
		if err := n.Propose(o.leads(t), fmt.Append(nil, id)); err != nil {
			t.Fatal(err)
		}
		if e := o.entry(t); string(e.Data) != fmt.Sprint(id) {
			t.Errorf("the first entry of replica %#x is %q", id, e.Data)
		}
		if err := h.Forget(5); err == nil {
			t.Error("a replica that runs is forgotten")
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h, err := NewHost(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Idle(); !maps.Equal(got, map[uint64]uint64{0: 1, 5: later}) {
		t.Errorf("logs of %v", got)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}
