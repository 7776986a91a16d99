// Package commit measures what a bare commit costs: the members of a Raft group of package consensus, each a process of
// its own, replicate entries that nothing executes, one at a time. A controller that logs each event cannot answer
// sooner.
//
// It knows no switches: package load measures what these see.
package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
)

// EntryBytes is the size of an entry: about that of an event.
const EntryBytes = 100

// Most is how many commits are timed at most.
const Most = 1 << 20

// Config is what one member of the group is told.
type Config struct {
	ID        uint64
	Addresses []string // of member 1, 2, and so on, on loopback
	Dir       string   // of the log
	Fsync     bool     // before an entry is acknowledged
	Warmup    time.Duration
	Duration  time.Duration // of the measurement
}

// Result is how long a commit took, from the proposal until its owner received the entry.
type Result struct {
	Commits  int
	P50, P99 time.Duration
}

// Run is a member until ctx ends. The one that leads first measures, and writes a Result as a line of JSON to out. A
// change of the leader during the measurement is an error.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	if cfg.ID < 1 || cfg.ID > uint64(len(cfg.Addresses)) {
		return fmt.Errorf("member %d of %d", cfg.ID, len(cfg.Addresses))
	}
	l, err := net.Listen("tcp", cfg.Addresses[cfg.ID-1])
	if err != nil {
		return fmt.Errorf("listen for other members: %w", err)
	}
	h, err := consensus.NewHost(consensus.HostConfig{ID: cfg.ID, Cluster: "commit", Listener: l, Dir: cfg.Dir,
		Fsync: cfg.Fsync, Heartbeat: 10 * time.Millisecond, Election: 500 * time.Millisecond})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	members := map[uint64]string{}
	for i, a := range cfg.Addresses {
		members[uint64(i+1)] = a
	}
	n, err := h.Start(consensus.GroupConfig{Members: members})
	if err != nil {
		return errors.Join(err, h.Close())
	}
	o := owner{cfg: cfg, node: n, out: out}
	return errors.Join(o.run(ctx), h.Close())
}

// owner is what executes the entries of a node: nothing.
type owner struct {
	cfg     Config
	node    *consensus.Node
	out     io.Writer
	term    uint64 // in which this member leads; 0 if it does not
	started time.Time
	sent    time.Time // the proposal that is under way
	took    []time.Duration
	done    bool
}

func (o *owner) run(ctx context.Context) error {
	for {
		for u, ok := o.node.Next(); ok; u, ok = o.node.Next() {
			if err := o.take(u, time.Now()); err != nil {
				return err
			}
		}
		if err := o.node.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.node.News():
		}
	}
}

func (o *owner) take(u consensus.Update, now time.Time) error {
	switch {
	case u.Role != nil && u.Role.Leading:
		o.term, o.started, o.took = u.Role.Term, now, nil
	case u.Role != nil && o.term != 0 && !o.done:
		return errors.New("the leader changed in the measurement: the machine is too busy to measure")
	case u.Role != nil:
		o.term = 0
	case len(u.Entries) > 0 && o.term != 0 && now.Sub(o.started) > o.cfg.Warmup && len(o.took) < Most:
		o.took = append(o.took, now.Sub(o.sent))
	}
	if o.term == 0 || o.done || u.Role == nil && len(u.Entries) == 0 {
		return nil
	}
	if now.Sub(o.started) > o.cfg.Warmup+o.cfg.Duration {
		o.done = true
		return o.report()
	}
	o.sent = time.Now()
	return o.node.Propose(o.term, make([]byte, EntryBytes))
}

func (o *owner) report() error {
	slices.Sort(o.took)
	r := Result{Commits: len(o.took)}
	if len(o.took) > 0 {
		r.P50, r.P99 = o.took[len(o.took)/2], o.took[len(o.took)*99/100]
	}
	return json.NewEncoder(o.out).Encode(r)
}
