package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// levelsBench is a run of bench levels.
type levelsBench struct {
	switches, window, addresses, seconds, rounds int
	durability                                   string
}

// setting is one way to run the controllers.
type setting struct {
	name        string
	controllers int
	level       app.Level
}

// settings are what is compared: none is replicated nowhere, and bare keeps nothing besides.
func settings() []setting {
	list := []setting{{"bare", 1, app.Unordered}, {"none", 1, app.ExactlyOnce}}
	for l := app.Unordered; l <= app.ExactlyOnce; l++ {
		list = append(list, setting{l.String(), 3, l})
	}
	return list
}

func benchLevelsCommand() *cobra.Command {
	var b levelsBench
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "levels",
		Short: "What each consistency level costs",
		Long: `Run the learning application with each consistency level for packet-ins on three controllers.
The load is the same each time: fake switches send packet-ins as fast as they are answered with
a flow-mod, then one at a time. Two settings are for comparison: none is one controller, exactly
once in its own log, without replication; bare is one controller, unordered. The settings take
turns, every second round backwards, so that what else the machine does falls on all of them;
figures are medians, of ratios those of the rounds, with the least and the greatest; unanswered
are sums. Below exactly once answers are lost, and then unanswered, if the leadership changes,
as it may on a machine that is too busy.`,
		Example: `  holdfast bench levels --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.validate(); err != nil {
				return err
			}
			return printRun(cmd, b.run, asJSON)
		},
	}
	cmd.Flags().IntVar(&b.switches, "switches", 16, "how many fake switches")
	cmd.Flags().IntVar(&b.window, "window", 256, "packet-ins outstanding for each switch")
	cmd.Flags().IntVar(&b.addresses, "addresses", 1000, "hosts behind each switch")
	cmd.Flags().IntVar(&b.seconds, "seconds", 3, "how long each measurement lasts")
	cmd.Flags().IntVar(&b.rounds, "rounds", 6, "how often each setting is measured")
	cmd.Flags().StringVar(&b.durability, "durability", "memory", "memory or disk")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (b levelsBench) validate() error {
	return cmp.Or(
		inRange("switches", b.switches, 1, load.MaxSwitches),
		inRange("window", b.window, 1, load.MaxWindow),
		inRange("addresses", b.addresses, 1, load.MaxMACs),
		inRange("seconds", b.seconds, 1, 3600),
		inRange("rounds", b.rounds, 1, 100),
		isDurability(b.durability))
}

func (b levelsBench) run(ctx context.Context, bar *progress) (report, error) {
	throughput, latency, ratio, toBare := map[string][]float64{}, map[string][]float64{}, map[string][]float64{},
		map[string][]float64{}
	unanswered := map[string]uint64{}
	for round := range b.rounds {
		for _, s := range inTurn(settings(), round) {
			full, idle, err := b.measure(ctx, bar, s, fmt.Sprintf("%s, round %d of %d", s.name, round+1, b.rounds))
			if err != nil {
				return report{}, fmt.Errorf("level %s: %w", s.name, err)
			}
			unanswered[s.name] += full.Unanswered + idle.Unanswered
			throughput[s.name] = append(throughput[s.name], full.PerSecond)
			latency[s.name] = append(latency[s.name], float64(idle.Latency.Quantile(0.5))/1e3)
		}
		for name, values := range throughput {
			ratio[name] = append(ratio[name], values[round]/throughput["none"][round])
			toBare[name] = append(toBare[name], values[round]/throughput["bare"][round])
		}
	}
	figures := map[string]float64{}
	for _, s := range settings() {
		figures["answers_per_s_"+s.name] = quantile(throughput[s.name], 0.5)
		figures["latency_us_median_"+s.name] = quantile(latency[s.name], 0.5)
		figures["unanswered_"+s.name] = float64(unanswered[s.name])
		if s.controllers > 1 {
			figures["throughput_ratio_"+s.name] = quantile(ratio[s.name], 0.5)
			figures["throughput_ratio_min_"+s.name] = quantile(ratio[s.name], 0)
			figures["throughput_ratio_max_"+s.name] = quantile(ratio[s.name], 1)
			figures["throughput_ratio_to_bare_"+s.name] = quantile(toBare[s.name], 0.5)
		}
	}
	return report{"levels", figures, map[string]any{
		"controllers": "3 processes on loopback; none: 1, exactly once; bare: 1, unordered",
		"agents":      "1 process for all switches", "app": "learning, the level is that of packet-ins",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each; 1 "+
			"for latency", b.switches, b.window),
		"hosts":  fmt.Sprintf("%d behind each switch, learned before the measurement", b.addresses),
		"answer": "a flow-mod", "durability": b.durability, "seconds": b.seconds, "rounds": b.rounds,
	}}, nil
}

// inTurn gives the settings in the order of a round: every second one backwards, so that a machine that becomes slower
// or faster favours none.
func inTurn(list []setting, round int) []setting {
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

// measure runs a site with one setting.
func (b levelsBench) measure(ctx context.Context, bar *progress, s setting, what string) (full, idle load.Result,
	err error) {
	return measureLoad(ctx, bar, cluster.Config{Controllers: s.controllers, Durability: b.durability,
		Apps: []string{"learning"}, Levels: map[string]map[string]string{"learning": {"packet_in": s.level.String()}}},
		load.Config{Switches: b.switches, Window: b.window, MACsPerSwitch: b.addresses, Warmup: time.Second,
			Duration: time.Duration(b.seconds) * time.Second}, what)
}
