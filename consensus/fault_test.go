package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/relay"
)

// linked starts three members, with a relay for each ordered pair.
func linked(t testing.TB) ([]*owner, map[[2]uint64]*relay.Relay) {
	links := make(map[[2]uint64]*relay.Relay)
	var owners []*owner
	for _, cfg := range configs(t, 3) {
		members := maps.Clone(cfg.Members)
		for id, addr := range cfg.Members {
			if id != cfg.HostConfig.ID {
				r := relay.Start(listen(t), addr)
				t.Cleanup(r.Close)
				links[[2]uint64{cfg.HostConfig.ID, id}] = r
				members[id] = r.Addr()
			}
		}
		cfg.Members = members
		owners = append(owners, start(t, cfg))
	}
	return owners, links
}

// TestBrokenConnections: a live leader keeps the leadership when one connection breaks, however often, and the
// group recovers.
func TestBrokenConnections(t *testing.T) {
	owners, links := linked(t)
	leader := leaderOf(t, owners...)
	id := leader.n.cfg.ID
	other := id%3 + 1
	settle(t, leader, owners)
	for range 20 {
		links[[2]uint64{id, other}].Break()
		time.Sleep(20 * time.Millisecond)
		links[[2]uint64{other, id}].Break()
		time.Sleep(20 * time.Millisecond)
	}
	settle(t, leader, owners)
	if term := leader.n.leading.Load(); term != leader.term {
		t.Errorf("term %d after broken connections in term %d", term, leader.term)
	}

	// A member that is cut off from the leader only, in both directions, follows nobody and deposes nobody.
	for _, pair := range [][2]uint64{{id, other}, {other, id}} {
		links[pair].Set(relay.Faults{Refuse: true})
	}
	time.Sleep(time.Second)
	if term := leader.n.leading.Load(); term != leader.term {
		t.Errorf("term %d after a partition in term %d", term, leader.term)
	}
	for _, pair := range [][2]uint64{{id, other}, {other, id}} {
		links[pair].Set(relay.Faults{})
	}
	settle(t, leader, owners)
}

// settle proposes an entry and waits until all members have it.
func settle(t testing.TB, leader leadership, owners []*owner) {
	t.Helper()
	mark := fmt.Sprint("mark", time.Now().UnixNano())
	if err := leader.n.Propose(leader.term, []byte(mark)); err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		for string(o.entry(t).Data) != mark {
		}
	}
}

func TestFollowerCatchesUpBySnapshot(t *testing.T) {
	cfgs := configs(t, 3)
	dir := t.TempDir()
	for i := range cfgs {
		cfgs[i].Dir = filepath.Join(dir, fmt.Sprint(i))
	}
	var owners []*owner
	for _, cfg := range cfgs {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	late := leader.n.cfg.ID % 3
	addr := cfgs[late].Listener.Addr().String()
	settle(t, leader, owners)
	if err := owners[late].close(); err != nil {
		t.Fatal(err)
	}
	// More entries than the leader keeps in memory, and a state of several chunks.
	state := make([]byte, 3<<20)
	var last Entry
	for i := range 2 * tailEntries {
		if err := leader.n.Propose(leader.term, fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * tailEntries {
		last = leader.entry(t)
	}
	binary.BigEndian.PutUint64(state, last.Index)
	if err := leader.n.Compact(last.Index, state); err != nil {
		t.Fatal(err)
	}
	if err := leader.n.Compact(last.Index, state); err == nil {
		t.Error("compacted twice at one index")
	}
	await.Until(t, "the log to be compacted", func() bool { return leader.n.Status().First >= 1000 })
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cfgs[late].Listener = l
	again := start(t, cfgs[late])
	select {
	case s := <-again.snaps:
		if s.Index != last.Index || len(s.State) != len(state) || binary.BigEndian.Uint64(s.State) != last.Index {
			t.Errorf("snapshot at %d of %d bytes", s.Index, len(s.State))
		}
	case <-time.After(await.Limit):
		t.Fatalf("no snapshot within %v", await.Limit)
	}
	settle(t, leader, []*owner{again})
	for _, p := range leader.n.Status().Peers {
		if !p.Connected || !p.Active || p.State != "replicate" {
			t.Errorf("peer %+v", p)
		}
	}
}

// TestTransferUnderLoad: the leader proposes all the time. Proposals do not prevent transfers, and transfers lose
// no proposals.
func TestTransferUnderLoad(t *testing.T) {
	var owners []*owner
	for _, cfg := range configs(t, 3) {
		owners = append(owners, start(t, cfg))
	}
	leaderOf(t, owners...)
	stop := make(chan struct{})
	var proposing sync.WaitGroup
	for _, o := range owners {
		proposing.Go(func() {
			for seq := uint64(0); ; seq++ {
				select {
				case <-stop:
					return
				default:
				}
				for len(o.entries) > 0 { // a member whose entries nobody reads stops
					<-o.entries
				}
				if o.n.Propose(o.n.leading.Load(), binary.BigEndian.AppendUint64(nil, seq)) != nil || seq%256 == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for done := 0; done < 10 && ctx.Err() == nil; { // one may fail: the other member is behind for too long
		leader := leaderOf(t, owners...)
		if err := leader.n.Transfer(ctx, leader.n.cfg.ID%3+1); err == nil {
			done++
		}
	}
	close(stop)
	proposing.Wait()
	if err := ctx.Err(); err != nil {
		t.Errorf("10 transfers: %v", err)
	}
	for _, o := range owners {
		if err := o.n.Err(); err != nil {
			t.Error(err)
		}
	}
	settle(t, leaderOf(t, owners...), owners)
}

// What somebody has waited for and given up is not done later: the check of await may act, as that of ChangeMembers
// does.
func TestGivenUp(t *testing.T) {
	o := start(t, configs(t, 1)[0])
	leaderOf(t, o)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	checks := make(chan bool, 100)
	err := o.n.await(gone, func(*Core) error { return nil }, func(*Core) (bool, error) {
		checks <- true
		return false, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for range 3 {
		o.n.Status() // a turn
	}
	if len(checks) > 0 {
		t.Errorf("it was looked at in %d turns", len(checks))
	}
}

func TestChangeMembers(t *testing.T) {
	cfgs := configs(t, 3)
	var owners []*owner
	for _, cfg := range cfgs {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	settle(t, leader, owners)

	l := listen(t)
	fourth := start(t, config{HostConfig{Election: 300 * time.Millisecond, ID: 4, Cluster: "test", Listener: l,
		Logger: testLogger(t)}, GroupConfig{Join: true, Members: cfgs[0].Members}})
	gone := owners[leader.n.cfg.ID%3]
	for _, c := range []struct {
		change MemberChange
		says   string
	}{
		{MemberChange{}, "empty"},
		{MemberChange{Remove: []uint64{leader.n.cfg.ID}}, "transfer the leadership first"},
		{MemberChange{Remove: []uint64{9}}, "not in the group"},
		{MemberChange{Add: map[uint64]string{1: "x"}}, "already"},
		{MemberChange{Add: map[uint64]string{5: ""}}, "address"},
	} {
		if err := leader.n.ChangeMembers(ctx, c.change); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, which does not say %q", c.change, err, c.says)
		}
	}
	if err := gone.n.ChangeMembers(ctx, MemberChange{Remove: []uint64{1}}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("change at a follower: %v", err)
	}
	wish := Goal{Add: 4, Address: l.Addr().String(), Remove: gone.n.cfg.ID}
	for {
		step, err := Plan(leader.n.Status(), wish)
		if err != nil {
			t.Fatal(err)
		}
		if step.Done {
			break
		}
		if step.Wait != nil {
			time.Sleep(time.Millisecond)
		} else if err := leader.n.ChangeMembers(ctx, step.Change); err != nil {
			t.Fatal(err)
		}
	}
	members := leader.n.Status().Members
	if _, still := members[gone.n.cfg.ID]; still || members[4] != l.Addr().String() || len(members) != 3 {
		t.Errorf("members %v", members)
	}
	gone.close()
	rest := []*owner{fourth}
	for _, o := range owners {
		if o != gone {
			rest = append(rest, o)
		}
	}
	settle(t, leader, rest)
	if err := leader.n.Transfer(ctx, 4); err != nil {
		t.Fatal(err)
	}
	settle(t, leaderOf(t, fourth), rest)
}

// TestLostLog: a member that returns without its log reports that. It neither votes nor panics.
func TestLostLog(t *testing.T) {
	cfgs := configs(t, 3)
	var owners []*owner
	for _, cfg := range cfgs {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	settle(t, leader, owners)
	blank := leader.n.cfg.ID % 3
	addr := cfgs[blank].Listener.Addr().String()
	owners[blank].close()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cfgs[blank].Listener = l
	again := start(t, cfgs[blank])
	await.End(t, "it", again.ended)
	var lost *LostLogError
	if err := again.n.Err(); !errors.As(err, &lost) || !strings.Contains(err.Error(), "with a new id and an empty folder") {
		t.Errorf("%v", err)
	}
	if err := again.n.Propose(1, []byte("x")); !errors.As(err, &lost) {
		t.Errorf("Propose: %v", err)
	}
}

// TestFullDisk: the owner is told, and nothing is acknowledged that was not saved.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=150m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	cfg := single(t)
	cfg.Dir = filepath.Join(dir, "log")
	o := start(t, cfg)
	term := o.leads(t)
	data := make([]byte, 1<<20)
	var err error
	sent := uint64(0)
	for ; err == nil; sent++ {
		binary.BigEndian.PutUint64(data, sent)
		err = o.n.Propose(term, append([]byte(nil), data...))
	}
	<-o.ended
	if err := o.close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v, which does not say that %s is full", err, dir)
	}
	committed := uint64(len(o.entries))
	if committed == 0 || committed >= sent {
		t.Errorf("%d of %d proposals of 1 MiB fit into 150 MB", committed, sent)
	}
	t.Logf("%d of %d MiB committed", committed, sent)
}

func TestConfig(t *testing.T) {
	good := config{HostConfig{ID: 1, Listener: listen(t)},
		GroupConfig{Members: map[uint64]string{1: "", 2: "127.0.0.1:1"}}}
	defer good.Listener.Close()
	for _, c := range []struct {
		says   string
		change func(*config)
	}{
		{"cannot have the id 0", func(c *config) { c.HostConfig.ID = 0 }},
		{"ids are from 1 to 281474976710653", func(c *config) { c.HostConfig.ID = wire.MaxController + 1 }},
		{"cannot be at controller 1", func(c *config) { c.GroupConfig.ID = wire.ReplicaID(2, 1) }},
		{"not among the members", func(c *config) { c.GroupConfig.ID = wire.ReplicaID(1, 1) }},
		{"is reserved", func(c *config) { c.Members = map[uint64]string{raft.LocalAppendThread: "x", 1: ""} }},
		{"member id 0", func(c *config) { c.Members = map[uint64]string{0: "x", 1: ""} }},
		{"member 2 has no address", func(c *config) { c.Members = map[uint64]string{1: "", 2: ""} }},
		{"needs a listener", func(c *config) { c.Listener = nil }},
		{"fsync without a directory", func(c *config) { c.Fsync = true }},
		{"at least 1ms", func(c *config) { c.Heartbeat = time.Microsecond }},
		{"would depose the leader", func(c *config) { c.Election = 10 * time.Millisecond }},
		{"not a multiple", func(c *config) { c.Election = 55 * time.Millisecond }},
		{"at most 255", func(c *config) { c.Cluster = strings.Repeat("x", 256) }},
	} {
		cfg := good
		c.change(&cfg)
		if _, _, err := begin(cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, which does not say %q", err, c.says)
		}
	}
}
