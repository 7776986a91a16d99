package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Instrumentation measures what it costs that leaders count what actors do (Beehive, figure 9): the throughput with and
// without. In each round a cluster with it and one without run side by side, and get the load by turns.
type Instrumentation struct {
	Binary      string // the holdfast binary
	Controllers int    // of each cluster: an odd number
	Switches    int    // fake ones
	Window      int    // packet-ins outstanding for each switch
	Durability  string
	Seconds     int // how long each measurement lasts
	Turns       int // measurements of each cluster in a round
	Rounds      int
}

// Validate returns a *FieldError for a value that cannot be.
func (b Instrumentation) Validate() error {
	return cmp.Or(isOdd("controllers", b.Controllers), inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("window", b.Window, 1, load.MaxWindow), inRange("seconds", b.Seconds, 1, 3600),
		inRange("turns", b.Turns, 1, 1000), inRange("rounds", b.Rounds, 1, 100), isDurability(b.Durability))
}

// Run runs the benchmark.
func (b Instrumentation) Run(ctx context.Context, progress Progress) (Report, error) {
	var speeds, times [2][]float64 // without, with
	var overheads, cpu []float64
	unanswered := uint64(0)
	for round := range b.Rounds {
		got, err := b.round(ctx, progress, round)
		if err != nil {
			return Report{}, err
		}
		for turn := range b.Turns {
			off, on := got[0][turn], got[1][turn]
			overheads = append(overheads, 100*(1-on.PerSecond/off.PerSecond))
			cpu = append(cpu, 100*(on.cpu/off.cpu-1))
			for i, m := range []measured{off, on} {
				speeds[i], times[i] = append(speeds[i], m.PerSecond), append(times[i], m.cpu)
				unanswered += m.Unanswered
			}
		}
	}
	return Report{Bench: "instrumentation", Figures: map[string]float64{
		"answers_per_s_with": quantile(speeds[1], 0.5), "answers_per_s_without": quantile(speeds[0], 0.5),
		"cpu_us_per_event_with": quantile(times[1], 0.5), "cpu_us_per_event_without": quantile(times[0], 0.5),
		"overhead_percent": quantile(overheads, 0.5), "overhead_percent_p10": quantile(overheads, 0.1),
		"overhead_percent_p90": quantile(overheads, 0.9), "cpu_overhead_percent": quantile(cpu, 0.5),
		"unanswered": float64(unanswered),
	}, Setup: map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback, and as many with instrumentation: false", b.Controllers),
		"agents":      "1 process for all switches of a cluster", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each",
			b.Switches, b.Window),
		"overhead": "median of the turns' ratios of throughput; cpu: of the processor time of an event",
		"paper":    "Beehive, figure 9: very low",
		"turns":    b.Turns, "rounds": b.Rounds, "seconds": b.Seconds, "durability": b.Durability,
	}}, nil
}

// round measures two clusters by turns: one without and one with.
func (b Instrumentation) round(ctx context.Context, progress Progress, round int) (got [2][]measured, err error) {
	var clusters [2]*cluster.Cluster
	for i := range clusters {
		c, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: b.Controllers,
			Apps: []string{"learning"}, Durability: b.Durability,
			Sections: fmt.Sprintf("instrumentation: %v\n", i == 1)})
		if err != nil {
			return got, err
		}
		defer end()
		clusters[i] = c
	}
	for turn := range b.Turns {
		for _, i := range inTurn([]int{0, 1}, round+turn) {
			c := clusters[i]
			pids := []int{c.Agents()[0].Pid()}
			for _, p := range c.Controllers() {
				pids = append(pids, p.Pid())
			}
			m, err := measureCPU(ctx, progress, load.Config{Switches: b.Switches, Window: b.Window,
				FirstDatapathID: openflow.DatapathID(turn+1) << 32, Warmup: time.Second,
				Duration: time.Duration(b.Seconds) * time.Second, Dial: load.TCP(c.Agents()[0].Listen)},
				fmt.Sprintf("round %d of %d, turn %d of %d", round+1, b.Rounds, turn+1, b.Turns), pids...)
			if err != nil {
				return got, c.WithLogs(err)
			}
			got[i] = append(got[i], m)
		}
	}
	return got, nil
}
