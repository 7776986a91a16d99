package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// ownMessages is what the learning application sends each switch besides answers: the
// table-miss entry, and the packet-out for the announcement of the destination.
const ownMessages = 2

// throughput is a benchmark run.
type throughput struct {
	switches, replicas, window int
	durability                 string
	seconds                    int
}

func benchThroughputCommand() *cobra.Command {
	var t throughput
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "throughput",
		Short: "Packet-ins per second answered with a flow-mod, exactly once",
		Long: `Run controllers with the learning application and an agent, and fake switches that send
packet-ins as fast as they are answered. Every event is in the log of a majority before
its answer leaves; the answer is executed exactly once. Then measure the latency with
one packet-in outstanding for each switch.`,
		Example: `  holdfast bench throughput --switches 16 --replicas 3 --durability memory --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.validate(); err != nil {
				return err
			}
			return printRun(cmd, t.run, asJSON)
		},
	}
	cmd.Flags().IntVar(&t.switches, "switches", 16, "how many fake switches")
	cmd.Flags().IntVar(&t.replicas, "replicas", 3, "how many controllers: an odd number")
	cmd.Flags().IntVar(&t.window, "window", 256, "packet-ins outstanding for each switch")
	cmd.Flags().StringVar(&t.durability, "durability", "memory", "memory or disk")
	cmd.Flags().IntVar(&t.seconds, "seconds", 8, "how long each of the two measurements lasts")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (t throughput) validate() error {
	if t.replicas%2 == 0 || t.replicas < 1 || t.replicas > 9 {
		return fmt.Errorf("--replicas %d: use an odd number from 1 to 9; an even one survives no more failures",
			t.replicas)
	}
	return cmp.Or(
		inRange("switches", t.switches, 1, load.MaxSwitches),
		inRange("window", t.window, 1, load.MaxWindow),
		inRange("seconds", t.seconds, 1, 3600),
		isDurability(t.durability))
}

func (t throughput) run(ctx context.Context, bar *progress) (report, error) {
	full, idle, err := t.measure(ctx, bar, t.replicas)
	if err != nil {
		return report{}, err
	}
	figures := map[string]float64{
		"answers_per_s":               full.PerSecond,
		"unanswered":                  float64(full.Unanswered),
		"repeated_answers":            float64(full.Total.Unexpected) - float64(ownMessages*t.switches),
		"latency_us_median_saturated": micros(full.Latency.Quantile(0.5)),
		"latency_us_p99_saturated":    micros(full.Latency.Quantile(0.99)),
		"latency_us_median":           micros(idle.Latency.Quantile(0.5)),
		"latency_us_p99":              micros(idle.Latency.Quantile(0.99)),
		"latency_answers_per_s":       idle.PerSecond,
	}
	if t.replicas > 1 {
		one, _, err := t.measure(ctx, bar, 1)
		if err != nil {
			return report{}, err
		}
		figures["answers_per_s_one_controller"] = one.PerSecond
		figures["throughput_ratio_one_controller"] = full.PerSecond / one.PerSecond
	}
	return report{"throughput", figures, map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback; then 1, for the ratio", t.replicas),
		"agents":      "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each; 1 "+
			"for latency", t.switches, t.window),
		"answer": "a flow-mod, after the event and its outcome are logged by a majority", "durability": t.durability,
		"seconds": t.seconds,
	}}, nil
}

// measure runs a site of so many controllers.
func (t throughput) measure(ctx context.Context, bar *progress, replicas int) (full, idle load.Result, err error) {
	return measureLoad(ctx, bar, cluster.Config{Controllers: replicas, Apps: []string{"learning"},
		Durability: t.durability},
		load.Config{Switches: t.switches, Window: t.window, Warmup: 2 * time.Second,
			Duration: time.Duration(t.seconds) * time.Second},
		fmt.Sprintf("%d controllers", replicas))
}
