package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Levels measures what each consistency level costs the learning application. The settings take turns, every second
// round backwards, so that what else the machine does falls on all of them.
type Levels struct {
	Binary     string // the holdfast binary
	Switches   int    // fake ones
	Window     int    // packet-ins outstanding for each switch
	Addresses  int    // hosts behind each switch
	Seconds    int    // how long each measurement lasts
	Rounds     int    // how often each setting is measured
	Durability string
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

// Validate returns a *FieldError for a value that cannot be.
func (b Levels) Validate() error {
	return cmp.Or(
		inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("window", b.Window, 1, load.MaxWindow),
		inRange("addresses", b.Addresses, 1, load.MaxMACs),
		inRange("seconds", b.Seconds, 1, 3600),
		inRange("rounds", b.Rounds, 1, 100),
		isDurability(b.Durability))
}

// Run runs the benchmark.
func (b Levels) Run(ctx context.Context, progress Progress) (Report, error) {
	throughput, latency, ratio, toBare := map[string][]float64{}, map[string][]float64{}, map[string][]float64{},
		map[string][]float64{}
	unanswered := map[string]uint64{}
	for round := range b.Rounds {
		for _, s := range inTurn(settings(), round) {
			full, idle, err := b.measure(ctx, progress, s, fmt.Sprintf("%s, round %d of %d", s.name, round+1, b.Rounds))
			if err != nil {
				return Report{}, fmt.Errorf("level %s: %w", s.name, err)
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
	return Report{Bench: "levels", Figures: figures, Setup: map[string]any{
		"controllers": "3 processes on loopback; none: 1, exactly once; bare: 1, unordered",
		"agents":      "1 process for all switches", "app": "learning, the level is that of packet-ins",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each; 1 "+
			"for latency", b.Switches, b.Window),
		"hosts":  fmt.Sprintf("%d behind each switch, learned before the measurement", b.Addresses),
		"answer": "a flow-mod", "durability": b.Durability, "seconds": b.Seconds, "rounds": b.Rounds,
	}}, nil
}

// inTurn gives the settings in the order of a round: every second one backwards, so that a machine that becomes slower
// or faster favours none.
func inTurn[T any](list []T, round int) []T {
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

// measure runs a cluster with one setting.
func (b Levels) measure(ctx context.Context, progress Progress, s setting, what string) (full, idle load.Result,
	err error) {
	processes := cluster.Config{Binary: b.Binary, Controllers: s.controllers, Durability: b.Durability,
		Apps: []string{"learning"}, Levels: map[string]map[string]string{"learning": {"packet_in": s.level.String()}}}
	return measureLoad(ctx, progress, processes, load.Config{Switches: b.Switches, Window: b.Window,
		MACsPerSwitch: b.Addresses, Warmup: time.Second, Duration: time.Duration(b.Seconds) * time.Second}, what)
}
