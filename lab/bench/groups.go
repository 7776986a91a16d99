package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Groups compares clusters in which each controller leads a group with clusters of one group (Beehive, figure 14): 16
// switches for each controller, and every log replicated as often. On one machine the sum of the answers does not grow
// with the controllers, so the processor time of an event tells what groups cost.
type Groups struct {
	Binary      string // the holdfast binary
	Controllers []int  // sizes of clusters: odd numbers
	// Replication is how many replicas a group has: odd numbers, of which those are used that a cluster has
	// controllers. Without any, each controller has a replica of each group.
	Replication []int
	Durability  string
	Window      int // packet-ins outstanding for each switch
	Seconds     int // how long each measurement lasts
}

const switchesEach = 16

// Validate returns a *FieldError for a value that cannot be.
func (g Groups) Validate() error {
	for _, n := range g.Controllers {
		if err := isOdd("controllers", n); err != nil {
			return err
		}
	}
	for _, n := range g.Replication {
		if err := isOdd("replication", n); err != nil {
			return err
		}
	}
	return cmp.Or(inRange("window", g.Window, 1, load.MaxWindow), inRange("seconds", g.Seconds, 1, 3600),
		isDurability(g.Durability))
}

// Run runs the benchmark.
func (g Groups) Run(ctx context.Context, progress Progress) (Report, error) {
	f := map[string]float64{}
	for _, n := range g.Controllers {
		for _, r := range g.replications(n) {
			switches := switchesEach * n
			several, err := g.measure(ctx, progress, n, r, switches)
			if err != nil {
				return Report{}, err
			}
			one, err := g.measure(ctx, progress, r, 0, switches)
			if err != nil {
				return Report{}, err
			}
			of := fmt.Sprintf("_c%d_r%d", n, r)
			f["answers_per_s"+of], f["answers_per_s"+of+"_one_group"] = several.PerSecond, one.PerSecond
			f["cpu_us_per_event"+of], f["cpu_us_per_event"+of+"_one_group"] = several.cpu, one.cpu
			f["cpu_ratio"+of] = several.cpu / one.cpu
			f["leaders_spread"+of] = float64(several.most - several.fewest)
			f["unanswered"] += float64(several.Unanswered + one.Unanswered)
		}
	}
	return Report{Bench: "groups", Figures: f, Setup: map[string]any{
		"controllers": "processes on loopback, as many as the number after _c; each leads a group that has as many " +
			"replicas as the number after _r; then as many as that number, of which one leads the only group",
		"agents": "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process for each controller, %d packet-ins "+
			"outstanding each", switchesEach, g.Window),
		"cpu":            "of the controllers and the agent, user and system, with warm-up and drain",
		"leaders_spread": "the most groups with switches that a controller leads, minus the fewest",
		"durability":     g.Durability, "seconds": g.Seconds,
	}}, nil
}

// spread is a measurement, and how many groups with switches the controllers led.
type spread struct {
	measured
	most, fewest int
}

// replications are those that a cluster of n controllers can have.
func (g Groups) replications(n int) []int {
	if len(g.Replication) == 0 {
		return []int{n}
	}
	return slices.DeleteFunc(slices.Clone(g.Replication), func(r int) bool { return r > n })
}

// measure runs a cluster of n controllers, with the given number of replicas of each group; 0: it has one group.
func (g Groups) measure(ctx context.Context, progress Progress, n, replication, switches int) (s spread, err error) {
	what, sections := "one group", ""
	if replication > 0 {
		what = fmt.Sprintf("a group for each, with %d replicas", replication)
		sections = fmt.Sprintf("groups: %s\nreplication: %d\n", PerController, replication)
	}
	c, end, err := startCluster(ctx, cluster.Config{Binary: g.Binary, Controllers: n, Apps: []string{"learning"},
		Durability: g.Durability, Sections: sections})
	if err != nil {
		return s, err
	}
	defer end()
	if replication > 0 {
		if err := c.WaitHome(ctx); err != nil {
			return s, err
		}
	}
	pids := []int{c.Agents()[0].Pid()}
	for _, p := range c.Controllers() {
		pids = append(pids, p.Pid())
	}
	s.measured, err = measureCPU(ctx, progress, load.Config{Switches: switches, Window: g.Window,
		Warmup: 2 * time.Second, Duration: time.Duration(g.Seconds) * time.Second,
		Dial: load.At(c.Agents()[0].Listen)}, fmt.Sprintf("%d controllers, %s", n, what), cpuTimes(pids...))
	if err != nil {
		return s, c.WithLogs(err)
	}
	if replication > 0 {
		s.most, s.fewest, err = c.Leaderships(ctx)
	}
	return s, err
}
