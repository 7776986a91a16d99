package consensus

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// regrouper is three controllers of which each has one group or, once it is regrouped, two.
type regrouper struct {
	t       *testing.T
	cfgs    []config
	hosts   []*Host
	systems []*owner // group 0 of those that are regrouped; nil: not yet
	owners  []*owner // of the group that is there from the beginning
	written []string
}

func (r *regrouper) start(i int) {
	r.t.Helper()
	h, err := NewHost(r.cfgs[i].HostConfig)
	if err != nil {
		r.t.Fatal(err)
	}
	r.hosts[i] = h
	group := r.cfgs[i].GroupConfig
	if r.cfgs[i].Several {
		system := group
		system.State = []byte("first")
		n, err := h.Start(system)
		if err != nil {
			r.t.Fatal(err)
		}
		r.systems[i] = own(n)
		group.Group = 1
	}
	n, err := h.Start(group)
	if err != nil {
		r.t.Fatal(err)
	}
	r.owners[i] = own(n)
}

func (r *regrouper) stop(i int) {
	r.t.Helper()
	if err := r.hosts[i].Close(); err != nil {
		r.t.Error(err)
	}
	<-r.owners[i].ended
	if r.systems[i] != nil {
		<-r.systems[i].ended
	}
	r.hosts[i] = nil
}

// write writes an entry by the leader of some controllers, and waits until all of these have everything, once.
func (r *regrouper) write(among ...int) {
	r.t.Helper()
	var owners []*owner
	for _, i := range among {
		owners = append(owners, r.owners[i])
	}
	text := fmt.Sprint("entry ", len(r.written))
	for { // a leader may be deposed
		l := leaderOf(r.t, owners...)
		if err := l.n.Propose(l.term, []byte(text)); err == nil {
			break
		} else if !errors.Is(err, ErrNotLeader) {
			r.t.Fatal(err)
		}
	}
	r.written = append(r.written, text)
	for _, o := range owners {
		if e := o.entry(r.t); string(e.Data) != text {
			r.t.Fatalf("%q instead of %q", e.Data, text)
		}
	}
}

// replayed waits until a controller that was restarted has everything.
func (r *regrouper) replayed(i int) {
	r.t.Helper()
	for _, want := range r.written {
		if e := r.owners[i].entry(r.t); string(e.Data) != want {
			r.t.Fatalf("controller %d: %q instead of %q", i, e.Data, want)
		}
	}
}

// The controllers of a cluster with one group are regrouped one after the other, while the others commit. Nothing is
// lost or repeated, the others and those that are regrouped do not meet, and the other group begins with its state.
func TestRegroup(t *testing.T) {
	r := &regrouper{t: t, cfgs: configs(t, 3), hosts: make([]*Host, 3), systems: make([]*owner, 3),
		owners: make([]*owner, 3)}
	for i := range r.cfgs {
		r.cfgs[i].Dir = t.TempDir()
		r.start(i)
	}
	t.Cleanup(func() {
		for i, h := range r.hosts {
			if h != nil {
				r.stop(i)
			}
		}
	})
	regroup := func(i int, system GroupConfig) error { return Regroup(r.cfgs[i].HostConfig, system) }
	next := func(i int) {
		r.stop(i)
		system := r.cfgs[i].GroupConfig
		system.State = []byte("first")
		other := system
		other.Members = maps.Clone(system.Members)
		delete(other.Members, 2)
		if err := regroup(i, other); err == nil || !strings.Contains(err.Error(), "controllers of the log") {
			t.Fatalf("with other members: %v", err)
		}
		if err := regroup(i, system); err != nil {
			t.Fatal(err)
		}
		if _, err := NewHost(r.cfgs[i].HostConfig); !errors.Is(err, ErrGrouping) {
			t.Fatalf("it starts with one group: %v", err)
		}
		if err := regroup(i, system); !errors.Is(err, ErrSeveral) {
			t.Fatalf("once more: %v", err)
		}
		r.cfgs[i].Several = true
		l, err := net.Listen("tcp", r.cfgs[i].Members[r.cfgs[i].HostConfig.ID])
		if err != nil {
			t.Fatal(err)
		}
		r.cfgs[i].Listener = l
		r.start(i)
	}
	r.write(0, 1, 2)
	next(0)
	r.write(1, 2)
	time.Sleep(3 * r.hosts[0].cfg.Election)
	if s := r.owners[0].n.Status(); s.Leader != 0 {
		t.Errorf("the first that is regrouped has the leader %d", s.Leader)
	}
	r.write(1, 2)
	next(1)
	r.replayed(0)
	r.replayed(1)
	r.write(0, 1)
	next(2)
	r.replayed(2)
	r.write(0, 1, 2)
	leaderOf(t, r.systems...)
	for i, o := range r.systems {
		if s := <-o.snaps; string(s.State) != "first" {
			t.Errorf("controller %d begins with %q", i, s.State)
		}
	}
}

// A Regroup that was interrupted is finished by the next one.
func TestRegroupAgain(t *testing.T) {
	cfg := single(t)
	cfg.Dir = t.TempDir() + "/c1"
	o := start(t, cfg)
	if err := o.n.Propose(o.leads(t), []byte("entry")); err != nil {
		t.Fatal(err)
	}
	o.entry(t)
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cfg.Dir+".regrouped/wal", 0o700); err != nil { // it was just begun
		t.Fatal(err)
	}
	system := cfg.GroupConfig
	if err := Regroup(cfg.HostConfig, system); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(cfg.Dir, cfg.Dir+".regrouped"), os.MkdirAll(cfg.Dir+".before/wal", 0o700),
		os.WriteFile(cfg.Dir+".before/wal/0000000000000000-0000000000000000.wal", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Regroup(cfg.HostConfig, system); err != nil { // it was interrupted between the renames
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.Dir + ".before"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old folder: %v", err)
	}
	cfg.Several, cfg.Group = true, 1
	o = start(t, cfg)
	if e := o.entry(t); string(e.Data) != "entry" {
		t.Errorf("%q", e.Data)
	}
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
}
