package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

const (
	busyMaxLoad    = 1000
	busyMaxSeconds = 3600
	// busyLook is how often the idle cluster is asked for its term. A term never falls, so none is missed between.
	busyLook = time.Second
)

// busyPoll is how often a controller is asked whether it leads, while the old leader hangs.
const busyPoll = 5 * time.Millisecond

// Busy measures what processes that compete for the processor do to a network in which nothing fails: how often an idle
// cluster of three controllers changes its leader, how long it takes to replace a leader that then hangs, and what a
// torus of Open vSwitches with the application recovery loses. Then it measures, without load, how soon a dead link is
// bypassed. It needs root.
type Busy struct {
	Binary  string // the holdfast binary
	Seconds int    // how long each part lasts
	Load    int    // processes that use all the processor time that they get; 0: none
}

// Validate returns a *FieldError for a value that cannot be.
func (b Busy) Validate() error {
	return cmp.Or(inRange("seconds", b.Seconds, 1, busyMaxSeconds), inRange("load", b.Load, 0, busyMaxLoad))
}

// Run runs the benchmark.
func (b Busy) Run(ctx context.Context, progress Progress) (Report, error) {
	r := Report{Bench: "busy", Figures: map[string]float64{}, Setup: map[string]any{
		"load":       fmt.Sprintf("%d processes, each an endless loop of a shell", b.Load),
		"processors": runtime.NumCPU(), "seconds": b.Seconds,
	}}
	parts := []func(context.Context, Progress, Report) error{b.idleCluster, b.torus, b.alone}
	for i, part := range parts {
		share := func(done float64, what string) { progress.show((float64(i)+done)/float64(len(parts)), what) }
		if err := part(ctx, share, r); err != nil {
			return Report{}, err
		}
	}
	return r, nil
}

func (b Busy) duration() time.Duration { return time.Duration(b.Seconds) * time.Second }

// idleCluster counts the terms of a cluster that has nothing to do. The load starts when the cluster has a leader.
func (b Busy) idleCluster(ctx context.Context, progress Progress, r Report) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return fmt.Errorf("directory of the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(ctx, cluster.Config{Binary: b.Binary, Dir: dir, Apps: []string{"learning"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	first, _, err := elections(ctx, c)
	if err != nil {
		return err
	}
	stop, err := burn(b.Load)
	if err != nil {
		return err
	}
	defer stop()
	defer progress.during(b.duration(), fmt.Sprintf("an idle cluster beside %d busy processes", b.Load))()
	last, longest, changes := first, int64(0), []int{}
	for start := time.Now(); time.Since(start) < b.duration(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(busyLook):
		}
		term, timeout, err := elections(ctx, c)
		if err == nil && term > last { // a busy controller may answer late
			last, changes = term, append(changes, int(time.Since(start).Seconds()))
		}
		longest = max(longest, timeout)
	}
	hang, within, err := hangLeader(ctx, c)
	if err != nil {
		return err
	}
	maps.Copy(r.Figures, map[string]float64{"term_changes": float64(last - first),
		"election_timeout_ms_max": float64(longest),
		"hang_ms":                 hang.Seconds() * 1e3, "hang_bound_ms": within.Seconds() * 1e3})
	maps.Copy(r.Setup, map[string]any{"cluster": "3 controllers on loopback, default timers, no switch",
		"term_changes":  "terms that began while the load ran",
		"term_change_s": changes,
		"hang":          "from SIGSTOP of the leader, at the end, until another controller says that it leads",
		"hang_bound":    "what status promised before, of the slowest follower; an election comes on top"})
	return nil
}

// hangLeader stops the leader, and returns how long it takes until another controller leads. within is what the slowest
// of the others promised in its status.
func hangLeader(ctx context.Context, c *cluster.Cluster) (took, within time.Duration, err error) {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return 0, 0, err
	}
	others := slices.DeleteFunc(slices.Clone(c.Controllers()), func(n *cluster.Controller) bool { return n == leader })
	for _, n := range others {
		s, err := n.Status(ctx)
		if err != nil {
			return 0, 0, err
		}
		within = max(within, time.Duration(s.Election.HangMs)*time.Millisecond)
	}
	start := time.Now()
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		return 0, 0, err
	}
	for time.Since(start) < 10*time.Second {
		for _, n := range others {
			if s, err := n.Status(ctx); err == nil && s.Role == "leader" {
				return time.Since(start), within, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(busyPoll):
		}
	}
	return 0, 0, c.WithLogs(errors.New("the leader was stopped, and no other controller led within 10 s"))
}

// elections returns the highest term that a controller knows, and the longest election timeout of one. The error is the
// last one, if no controller answered.
func elections(ctx context.Context, c *cluster.Cluster) (term uint64, timeoutMs int64, err error) {
	answered := false
	for _, n := range c.Controllers() {
		s, failed := n.Status(ctx)
		if failed != nil {
			err = failed
			continue
		}
		answered, term, timeoutMs = true, max(term, s.Term), max(timeoutMs, s.Election.TimeoutMs)
	}
	if answered {
		return term, timeoutMs, nil
	}
	return 0, 0, err
}

// burn starts n processes that use all the processor time that they get. stop ends them; it may be called twice.
func burn(n int) (stop func(), err error) {
	var running []*exec.Cmd
	var ended sync.WaitGroup
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill() // it may have ended
		}
		running = nil
		ended.Wait()
	}
	for range n {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		ended.Add(1)
		if err := lifeline.Start(cmd, func() { _ = cmd.Wait(); ended.Done() }); err != nil {
			ended.Done()
			stop()
			return nil, fmt.Errorf("start a busy process: %w", err)
		}
		running = append(running, cmd)
	}
	return stop, nil
}
