package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/failover"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// Modes measures Open vSwitches, in network namespaces (root), with an agent, connected to all controllers, and as
// switches without bundles. The modes take turns, so that what else the machine does falls on all of them.
type Modes struct {
	Binary     string // the holdfast binary
	Kills      int    // of the leader, in each mode and round
	Seconds    int    // how long each measurement of speed lasts
	Rounds     int    // how often each mode is measured
	Durability string
}

// switchModes are the ways to connect a switch.
var switchModes = []struct {
	name          string
	stock, legacy bool
}{{"agent", false, false}, {"stock_bundles", true, false}, {"stock_legacy", true, true}}

// Validate returns a *FieldError for a value that cannot be.
func (b Modes) Validate() error {
	return cmp.Or(inRange("kills", b.Kills, 1, 1000), inRange("seconds", b.Seconds, 1, 3600),
		inRange("rounds", b.Rounds, 1, 100), isDurability(b.Durability))
}

const modesSwitches = 2

// modesFigures are what the rounds gave, by the name of a mode.
type modesFigures struct {
	speed, median, p99, failover map[string][]float64
	counts                       map[string]float64 // sums, by the name of a counter and of a mode
}

// Run runs the benchmark. If something was lost or repeated where nothing may be, the report is complete, and the error
// is that of failover.Result.Err.
func (b Modes) Run(ctx context.Context, progress Progress) (Report, error) {
	if err := netlab.Available(); err != nil {
		return Report{}, fmt.Errorf("bench modes runs real switches: %w", err)
	}
	f := modesFigures{map[string][]float64{}, map[string][]float64{}, map[string][]float64{}, map[string][]float64{},
		map[string]float64{}}
	var inexact error
	for round := range b.Rounds {
		for _, m := range switchModes {
			cfg := failover.Config{Binary: b.Binary, OVS: true, Switches: modesSwitches, Stock: m.stock,
				NoBundles: m.legacy, Durability: b.Durability}
			what := fmt.Sprintf("%s, speed, round %d of %d", m.name, round+1, b.Rounds)
			if err := b.measure(ctx, progress, m.name, what, cfg, &f); err != nil {
				return Report{}, err
			}
			exact, err := b.kill(ctx, progress, m.name, cfg, &f)
			if err != nil {
				return Report{}, err
			}
			inexact = errors.Join(inexact, exact)
		}
	}
	return b.report(f), inexact
}

// measure measures the speed of a mode.
func (b Modes) measure(ctx context.Context, progress Progress, mode, what string, cfg failover.Config,
	f *modesFigures) error {
	each := time.Duration(b.Seconds) * time.Second
	stop := progress.during(2*each+4*time.Second, what)
	s, err := failover.Measure(ctx, cfg, each)
	stop()
	if err != nil {
		return fmt.Errorf("speed of %s: %w", mode, err)
	}
	f.speed[mode] = append(f.speed[mode], s.CommandsPerSecond)
	f.median[mode] = append(f.median[mode], micros(s.Median))
	f.p99[mode] = append(f.p99[mode], micros(s.P99))
	return nil
}

// kill measures the failovers of a mode. inexact says what was lost or repeated where nothing may be.
func (b Modes) kill(ctx context.Context, progress Progress, mode string, cfg failover.Config,
	f *modesFigures) (inexact, err error) {
	cfg.Kills, cfg.Between, cfg.PingInterval, cfg.Progress = b.Kills, 300*time.Millisecond, 5*time.Millisecond, progress
	r, err := failover.Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("failover of %s: %w", mode, err)
	}
	for _, k := range r.Kills {
		f.failover[mode] = append(f.failover[mode], k.Command.Seconds()*1e3)
	}
	for name, n := range counts(r) {
		f.counts[name+"_"+mode] += n
	}
	if cfg.NoBundles {
		return nil, os.RemoveAll(r.Evidence) // losses are expected without bundles
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: %w", mode, err), nil
	}
	return nil, nil
}

func (b Modes) report(f modesFigures) Report {
	figures := f.counts
	for _, m := range switchModes {
		figures["commands_per_s_"+m.name] = quantile(f.speed[m.name], 0.5)
		figures["latency_us_median_"+m.name] = quantile(f.median[m.name], 0.5)
		figures["latency_us_p99_"+m.name] = quantile(f.p99[m.name], 0.5)
		figures["failover_ms_median_"+m.name] = quantile(f.failover[m.name], 0.5)
		figures["failover_ms_max_"+m.name] = quantile(f.failover[m.name], 1)
	}
	return Report{Bench: "modes", Figures: figures, Setup: map[string]any{
		"controllers": "3 processes on loopback", "switches": fmt.Sprintf(
			"%d Open vSwitch bridges in network namespaces, each with a relay before it", modesSwitches),
		"agents": "agent: a process for each switch; stock: none, each switch is connected to all controllers; " +
			"stock_legacy: the relay refuses bundles, as the switch would",
		"commands": "flow-mods, 64 for each packet-in, 8 packet-ins on their way for each switch",
		"latency":  "of one packet at a time, from the host and back to it by a packet-out",
		"failover": "until the end of the longest silence of commands at the switches that began within 5 ms of " +
			"the kill; hosts ping every 5 ms through packet-ins",
		"rounds": b.Rounds, "seconds": b.Seconds, "durability": b.Durability,
	}}
}
