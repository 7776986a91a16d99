package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/commit"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Latency measures the time from a packet-in of a switch to the flow-mod that answers it, exactly once, with one
// packet-in at a time: for each number of controllers and durability, on a cluster of its own. Beside it is what a bare
// commit of as many members costs, see package commit.
type Latency struct {
	Binary     string // the holdfast binary
	Replicas   []int  // controllers: odd numbers
	Durability []string
	Seconds    int // how long each measurement lasts
	Rounds     int // how often each combination is measured
}

// Validate returns a *FieldError for a value that cannot be.
func (l Latency) Validate() error {
	return cmp.Or(each(l.Replicas, func(n int) error { return isOdd("replicas", n) }),
		each(l.Durability, isDurability), inRange("seconds", l.Seconds, 1, 3600), inRange("rounds", l.Rounds, 1, 100))
}

// CommitMember is the name of the command, below bench, that is a member of the bare group of Latency.
const CommitMember = "commit-member"

// bare measures a commit without controllers.
func (l Latency) bare(ctx context.Context, progress Progress, c combination, what string) (commit.Result, error) {
	g := commit.Group{Command: []string{l.Binary, "bench", CommitMember}, Members: c.replicas,
		Fsync:  c.durability == string(config.Disk),
		Warmup: time.Second, Duration: time.Duration(l.Seconds) * time.Second}
	defer progress.during(g.Warmup+g.Duration, what)()
	return commit.Measure(ctx, g)
}

// Run runs the benchmark.
func (l Latency) Run(ctx context.Context, progress Progress) (Report, error) {
	list := replicated(l.Replicas, l.Durability)
	of := map[string][]float64{}
	for round := range l.Rounds {
		for _, c := range inTurn(slices.Clone(list), round) {
			name := fmt.Sprintf("_r%d_%s", c.replicas, c.durability)
			r, err := l.measure(ctx, progress, c, fmt.Sprintf("latency%s, round %d of %d", name, round+1, l.Rounds))
			if err != nil {
				return Report{}, fmt.Errorf("latency%s: %w", name, err)
			}
			of["p50_us"+name] = append(of["p50_us"+name], micros(r.Latency.Quantile(0.5)))
			of["p99_us"+name] = append(of["p99_us"+name], micros(r.Latency.Quantile(0.99)))
			bare, err := l.bare(ctx, progress, c, "a bare commit"+name)
			if err != nil {
				return Report{}, fmt.Errorf("latency%s: %w", name, err)
			}
			of["raft_commit_us_p50"+name] = append(of["raft_commit_us_p50"+name], micros(bare.P50))
			of["raft_commit_us_p99"+name] = append(of["raft_commit_us_p99"+name], micros(bare.P99))
		}
	}
	return Report{Bench: "latency", Figures: medians(of), Setup: map[string]any{
		"controllers": "processes on loopback, a cluster of its own for each measurement", "agents": "1",
		"app": "learning", "switches": "1 fake OpenFlow 1.3 switch in this process, 1 packet-in outstanding",
		"answer": "a flow-mod, after the event and its outcome are logged by a majority",
		"raft_commit": fmt.Sprintf("as many members of a Raft group, which commit %d bytes at a time and execute "+
			"nothing", commit.EntryBytes),
		"figures": "medians of the rounds", "rounds": l.Rounds, "seconds": l.Seconds,
	}}, nil
}

// measure runs a cluster.
func (l Latency) measure(ctx context.Context, progress Progress, c combination, what string) (load.Result, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: l.Binary, Controllers: c.replicas,
		Apps: []string{"learning"}, Durability: c.durability})
	if err != nil {
		return load.Result{}, err
	}
	defer end()
	cfg := load.Config{Mode: load.Latency, Switches: 1, MACsPerSwitch: 1000, Dial: load.At(cl.Agents()[0].Listen),
		Warmup: time.Second, Duration: time.Duration(l.Seconds) * time.Second}
	defer progress.during(cfg.Warmup+cfg.Duration, what)()
	r, err := load.Run(ctx, cfg)
	if err != nil {
		return r, cl.WithLogs(err)
	}
	return r, nil
}
