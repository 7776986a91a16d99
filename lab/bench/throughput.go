package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// ownMessages is what the learning application sends each switch besides answers: the
// table-miss entry, and the packet-out for the announcement of the destination.
const ownMessages = 2

// Throughput measures how many packet-ins per second are answered with a flow-mod, exactly once, and the latency with
// one packet-in outstanding for each switch.
type Throughput struct {
	Binary     string // the holdfast binary
	Switches   int    // fake ones
	Replicas   int    // controllers: an odd number
	Window     int    // packet-ins outstanding for each switch
	Durability string
	Seconds    int // how long each of the two measurements lasts
}

// Validate returns a *FieldError for a value that cannot be.
func (t Throughput) Validate() error {
	return cmp.Or(
		isOdd("replicas", t.Replicas),
		inRange("switches", t.Switches, 1, load.MaxSwitches),
		inRange("window", t.Window, 1, load.MaxWindow),
		inRange("seconds", t.Seconds, 1, 3600),
		isDurability(t.Durability))
}

// Run runs the benchmark.
func (t Throughput) Run(ctx context.Context, progress Progress) (Report, error) {
	full, idle, err := t.measure(ctx, progress, t.Replicas)
	if err != nil {
		return Report{}, err
	}
	figures := map[string]float64{
		"answers_per_s":               full.PerSecond,
		"unanswered":                  float64(full.Unanswered),
		"repeated_answers":            float64(full.Total.Unexpected) - float64(ownMessages*t.Switches),
		"latency_us_median_saturated": micros(full.Latency.Quantile(0.5)),
		"latency_us_p99_saturated":    micros(full.Latency.Quantile(0.99)),
		"latency_us_median":           micros(idle.Latency.Quantile(0.5)),
		"latency_us_p99":              micros(idle.Latency.Quantile(0.99)),
		"latency_answers_per_s":       idle.PerSecond,
	}
	if t.Replicas > 1 {
		one, _, err := t.measure(ctx, progress, 1)
		if err != nil {
			return Report{}, err
		}
		figures["answers_per_s_one_controller"] = one.PerSecond
		figures["throughput_ratio_one_controller"] = full.PerSecond / one.PerSecond
	}
	return Report{Bench: "throughput", Figures: figures, Setup: map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback; then 1, for the ratio", t.Replicas),
		"agents":      "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each; 1 "+
			"for latency", t.Switches, t.Window),
		"answer": "a flow-mod, after the event and its outcome are logged by a majority", "durability": t.Durability,
		"seconds": t.Seconds,
	}}, nil
}

// measure runs a cluster of so many controllers.
func (t Throughput) measure(ctx context.Context, progress Progress, replicas int) (full, idle load.Result, err error) {
	processes := cluster.Config{Binary: t.Binary, Controllers: replicas, Apps: []string{"learning"},
		Durability: t.Durability}
	return measureLoad(ctx, progress, processes, load.Config{Switches: t.Switches, Window: t.Window,
		Warmup: 2 * time.Second, Duration: time.Duration(t.Seconds) * time.Second},
		fmt.Sprintf("%d controllers", replicas))
}
