package consensus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func testLogger(t testing.TB) *slog.Logger {
	if os.Getenv("CONSENSUS_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// owner does with a node what a ledger does, in as little code as possible: it reads updates and records them.
type owner struct {
	host    *Host // nil if several owners share it
	n       *Node
	entries chan Entry
	roles   chan Role
	snaps   chan Snapshot
	ended   chan struct{}
}

// updates are those of a node until it ends.
func updates(n *Node) iter.Seq[Update] {
	return func(yield func(Update) bool) {
		for {
			for u, ok := n.Next(); ok; u, ok = n.Next() {
				if !yield(u) {
					return
				}
			}
			if n.Err() != nil {
				return
			}
			<-n.News()
		}
	}
}

// update waits for the next update.
func update(t testing.TB, n *Node) Update {
	t.Helper()
	for {
		if u, ok := n.Next(); ok {
			return u
		}
		await.End(t, "the wait for an update", n.News())
	}
}

func own(n *Node) *owner {
	o := &owner{n: n, entries: make(chan Entry, 1<<20), roles: make(chan Role, 1024), snaps: make(chan Snapshot, 16),
		ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		for u := range updates(n) {
			for _, e := range u.Entries {
				o.entries <- e
			}
			if u.Role != nil {
				o.roles <- *u.Role
			}
			if u.Snapshot != nil {
				o.snaps <- *u.Snapshot
			}
		}
	}()
	return o
}

// close ends the node and its host, as the end of a process does.
func (o *owner) close() error { return errors.Join(o.n.Close(), o.host.Close()) }

func (o *owner) entry(t testing.TB) Entry {
	t.Helper()
	return await.End(t, "the wait for an entry", o.entries)
}

// leads waits until the node leads, and returns the term.
func (o *owner) leads(t testing.TB) uint64 {
	t.Helper()
	return leaderOf(t, o).term
}

type leadership struct {
	*owner
	term uint64
}

// leaderOf waits until one of the owners leads.
func leaderOf(t testing.TB, owners ...*owner) leadership {
	t.Helper()
	var found leadership
	await.Until(t, "a leader", func() bool {
		for _, o := range owners {
			if term := o.n.leading.Load(); term != 0 {
				found = leadership{o, term}
				return true
			}
		}
		return false
	})
	return found
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// config is a controller with one group.
type config struct {
	HostConfig
	GroupConfig
}

// single is a controller with a group of its own.
func single(t testing.TB) config {
	return config{HostConfig{ID: 1, Logger: testLogger(t)}, GroupConfig{Members: map[uint64]string{1: ""}}}
}

// configs returns the configurations of a group of members on loopback.
func configs(t testing.TB, count int) []config {
	t.Helper()
	members := make(map[uint64]string)
	cfgs := make([]config, count)
	for i := range cfgs {
		l := listen(t)
		members[uint64(i+1)] = l.Addr().String()
		cfgs[i] = config{
			HostConfig{
				ID: uint64(i + 1), Cluster: "test", Listener: l, Logger: testLogger(t),
				Election: 300 * time.Millisecond, // so long that a busy machine causes no elections
			}, GroupConfig{Members: members},
		}
	}
	return cfgs
}

func begin(cfg config) (*Host, *Node, error) {
	h, err := NewHost(cfg.HostConfig)
	if err != nil {
		return nil, nil, err
	}
	n, err := h.Start(cfg.GroupConfig)
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return h, n, nil
}

func start(t testing.TB, cfg config) *owner {
	t.Helper()
	h, n, err := begin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := own(n)
	o.host = h
	t.Cleanup(func() {
		if n.Close(); !h.closed {
			h.Close()
		}
		<-o.ended
	})
	return o
}

func TestOneMember(t *testing.T) {
	o := start(t, single(t))
	term := o.leads(t)
	for i := range 100 {
		if err := o.n.Propose(term, fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if e := o.entry(t); string(e.Data) != fmt.Sprint(i) || e.Term != term {
			t.Fatalf("entry %d is %q of term %d", i, e.Data, e.Term)
		}
	}
	if err := o.n.Propose(term+1, []byte("x")); !errors.Is(err, ErrNotLeader) {
		t.Errorf("proposal in a later term: %v", err)
	}
	if err := o.n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := o.n.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
}

func TestThreeMembers(t *testing.T) {
	var owners []*owner
	for _, cfg := range configs(t, 3) {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	for i := range 1000 {
		if err := leader.n.Propose(leader.term, fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range owners {
		for i := range 1000 {
			if e := o.entry(t); string(e.Data) != fmt.Sprint(i) {
				t.Fatalf("member %d: entry %d is %q", o.n.cfg.ID, i, e.Data)
			}
		}
	}
	to := leader.n.cfg.ID%3 + 1
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	if err := leader.n.Transfer(ctx, to); err != nil {
		t.Fatal(err)
	}
	if next := leaderOf(t, owners[to-1]); next.term <= leader.term {
		t.Errorf("leads in term %d after term %d", next.term, leader.term)
	}
}

// TestOwnerDoesNotRead: an owner may propose as much as it likes before it reads. The updates that wait are
// bounded, and the node continues.
func TestOwnerDoesNotRead(t *testing.T) {
	h, n, err := begin(single(t))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	term, count := uint64(0), 0
	for term == 0 {
		if u := update(t, n); u.Role != nil && u.Role.Leading {
			term = u.Role.Term
		}
	}
	for range 150 {
		if err := n.Propose(term, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "100 committed entries", func() bool { return n.Status().Committed >= 100 })
	if s := n.Status(); s.Delivered > 5 {
		t.Errorf("%d entries delivered to nobody", s.Delivered)
	}
	for count < 150 {
		u := update(t, n)
		count += len(u.Entries)
		if len(u.Entries) > maxUndelivered>>20+1 {
			t.Errorf("%d MiB in one update", len(u.Entries))
		}
	}
}

func TestLargeProposals(t *testing.T) {
	var owners []*owner
	for _, cfg := range configs(t, 3) {
		owners = append(owners, start(t, cfg))
	}
	leader := leaderOf(t, owners...)
	for _, size := range []int{1 << 20, MaxProposal, 1} {
		if err := leader.n.Propose(leader.term, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		for _, o := range owners {
			if e := o.entry(t); len(e.Data) != size {
				t.Errorf("%d bytes of %d", len(e.Data), size)
			}
		}
	}
	for _, size := range []int{0, MaxProposal + 1} {
		if err := leader.n.Propose(leader.term, make([]byte, size)); err == nil {
			t.Errorf("a proposal of %d bytes is taken", size)
		}
	}
}
