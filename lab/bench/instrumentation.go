package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Instrumentation measures what it costs that leaders count what actors do (Beehive, figure 9): the processor time that
// the leader needs for an event, with and without. In each round a cluster with it and one without run side by side,
// and get the load by turns.
//
// Clusters differ by chance, for example in where the memory of their processes is. So the interval of the overhead is
// that of the rounds, each of which has clusters of its own, and not of the turns.
type Instrumentation struct {
	Binary      string // the holdfast binary
	Controllers int    // of each cluster: an odd number
	Switches    int    // fake ones
	Window      int    // packet-ins outstanding for each switch
	Durability  string
	Measure     time.Duration // how long each measurement lasts
	Turns       int           // measurements of each cluster in a round
	Rounds      int
}

// Validate returns a *FieldError for a value that cannot be.
func (b Instrumentation) Validate() error {
	if b.Measure < 100*time.Millisecond || b.Measure > time.Hour {
		return &FieldError{"measure", b.Measure.String(), "100ms to 1h"}
	}
	return cmp.Or(isOdd("controllers", b.Controllers), inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("window", b.Window, 1, load.MaxWindow), inRange("turns", b.Turns, 1, 1000),
		inRange("rounds", b.Rounds, minInterval, 1000), isDurability(b.Durability))
}

// instrumented is what one kind of cluster gave in all turns.
type instrumented struct{ speeds, times []float64 }

// Run runs the benchmark.
func (b Instrumentation) Run(ctx context.Context, progress Progress) (Report, error) {
	var all [2]instrumented       // without, with
	var overheads, slow []float64 // by round, by turn
	unanswered := uint64(0)
	for round := range b.Rounds {
		got, err := b.round(ctx, progress, round)
		if err != nil {
			return Report{}, err
		}
		var cpu []float64
		for turn := range b.Turns {
			off, on := got[0][turn], got[1][turn]
			slow = append(slow, 100*(1-on.PerSecond/off.PerSecond))
			cpu = append(cpu, 100*(on.cpu/off.cpu-1))
			for i, m := range []measured{off, on} {
				all[i].speeds, all[i].times = append(all[i].speeds, m.PerSecond), append(all[i].times, m.cpu)
				unanswered += m.Unanswered
			}
		}
		overheads = append(overheads, quantile(cpu, 0.5))
	}
	low, high := medianInterval(overheads)
	return Report{Bench: "instrumentation", Figures: map[string]float64{
		"overhead_percent": median(overheads), "overhead_percent_low": low, "overhead_percent_high": high,
		"cpu_us_per_event_with": quantile(all[1].times, 0.5), "cpu_us_per_event_without": quantile(all[0].times, 0.5),
		"throughput_overhead_percent":     quantile(slow, 0.5),
		"throughput_overhead_percent_p10": quantile(slow, 0.1), "throughput_overhead_percent_p90": quantile(slow, 0.9),
		"answers_per_s_with": quantile(all[1].speeds, 0.5), "answers_per_s_without": quantile(all[0].speeds, 0.5),
		"unanswered": float64(unanswered),
	}, Setup: map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback, and as many with instrumentation: false", b.Controllers),
		"agents":      "1 process for all switches of a cluster", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each",
			b.Switches, b.Window),
		"overhead": "by how much the processor time of the leader for an event is more, user and system: median of " +
			"the rounds' medians; low and high: at least 95 % confidence interval of that",
		"throughput_overhead": "by how much the answers are fewer: median, p10 and p90 of the turns",
		"paper":               "Beehive, figure 9: very low",
		"turns":               b.Turns, "rounds": b.Rounds, "measure": b.Measure.String(), "durability": b.Durability,
	}}, nil
}

// round measures two clusters by turns: one without and one with.
func (b Instrumentation) round(ctx context.Context, progress Progress, round int) (got [2][]measured, err error) {
	var clusters [2]*cluster.Cluster
	var leaders [2]*cluster.Controller
	for _, i := range inTurn([]int{0, 1}, round) {
		c, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: b.Controllers,
			Apps: []string{"learning"}, Durability: b.Durability,
			Sections: fmt.Sprintf("instrumentation: %v\n", i == 1)})
		if err != nil {
			return got, err
		}
		defer end()
		if leaders[i], err = c.WaitLeader(ctx); err != nil {
			return got, c.WithLogs(err)
		}
		clusters[i] = c
	}
	for turn := range b.Turns {
		for _, i := range inTurn([]int{0, 1}, round+turn) {
			c := clusters[i]
			m, err := measureCPU(ctx, progress, load.Config{Switches: b.Switches, Window: b.Window,
				FirstDatapathID: openflow.DatapathID(turn+1) << 32, Warmup: b.Measure / 4, Duration: b.Measure,
				Dial: load.TCP(c.Agents()[0].Listen)},
				fmt.Sprintf("round %d of %d, turn %d of %d", round+1, b.Rounds, turn+1, b.Turns),
				func() time.Duration { return runTime(leaders[i].Pid()) })
			if err != nil {
				return got, c.WithLogs(err)
			}
			got[i] = append(got[i], m)
		}
	}
	return got, nil
}

// minInterval is the fewest values of whose median there is a 95 % confidence interval.
const minInterval = 6

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// medianInterval returns a confidence interval, of at least 95 %, of the median of what the values are a sample of. It
// assumes nothing about the distribution: each value is below the median with probability 1/2, so the number of those
// that are is binomial. There are at least minInterval values.
func medianInterval(values []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	k, tail, exactly := 0, 0.0, math.Pow(0.5, float64(n)) // the probability that exactly k values are below
	for tail+exactly <= 0.025 {
		tail += exactly
		exactly *= float64(n-k) / float64(k+1)
		k++
	}
	return s[k-1], s[n-k]
}
