package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/trial"
)

func init() { applications["burst"] = plain(trial.NewBurst) }

// modesBench is a run of bench modes.
type modesBench struct {
	kills, seconds, rounds int
	durability             string
}

// switchModes are the ways to connect a switch.
var switchModes = []struct {
	name            string
	stock, barriers bool
}{{"agent", false, false}, {"stock_bundles", true, false}, {"stock_barriers", true, true}}

func benchModesCommand() *cobra.Command {
	var b modesBench
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "modes",
		Short: "Open vSwitch with an agent, without one, and without bundles",
		Long: `Run Open vSwitches, in network namespaces (this needs root), in each of three ways: with an agent;
connected to all controllers, with bundles; and the same, as switches that have no bundles. Measure
how many commands per second they execute, how long one takes from the packet to the command that
sends it back, and how long a failover takes. The ways take turns, so that what else the machine does
falls on all of them; figures are medians. While leaders are killed everything is compared, as in
the demo: without bundles a command may be repeated when a leader dies.`,
		Example: `  sudo holdfast bench modes --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.validate(); err != nil {
				return err
			}
			if err := netlab.Available(); err != nil {
				return fmt.Errorf("bench modes runs real switches: %w", err)
			}
			bar := newProgress(cmd.ErrOrStderr())
			r, inexact, err := b.run(cmd.Context(), bar)
			bar.clear()
			if err != nil {
				return err
			}
			return errors.Join(r.print(cmd.OutOrStdout(), asJSON), inexact)
		},
	}
	cmd.Flags().IntVar(&b.kills, "kills", 5, "how often the leader is killed in each mode and round")
	cmd.Flags().IntVar(&b.seconds, "seconds", 4, "how long each measurement of speed lasts")
	cmd.Flags().IntVar(&b.rounds, "rounds", 3, "how often each mode is measured")
	cmd.Flags().StringVar(&b.durability, "durability", "memory", "memory or disk")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (b modesBench) validate() error {
	return cmp.Or(inRange("kills", b.kills, 1, 1000), inRange("seconds", b.seconds, 1, 3600),
		inRange("rounds", b.rounds, 1, 100), isDurability(b.durability))
}

const modesSwitches = 2

// run also returns an error if something was lost or repeated where nothing may be.
func (b modesBench) run(ctx context.Context, bar *progress) (out report, inexact, err error) {
	binary, err := self()
	if err != nil {
		return out, nil, err
	}
	speed, median, p99, failover := map[string][]float64{}, map[string][]float64{}, map[string][]float64{},
		map[string][]float64{}
	figures := map[string]float64{}
	for round := range b.rounds {
		for _, m := range switchModes {
			cfg := trial.Config{Binary: binary, OVS: true, Switches: modesSwitches, Stock: m.stock,
				Barriers: m.barriers, Durability: b.durability}
			each := time.Duration(b.seconds) * time.Second
			stop := bar.during(2*each+4*time.Second, fmt.Sprintf("%s, speed, round %d of %d", m.name, round+1,
				b.rounds))
			s, err := trial.Measure(ctx, cfg, each)
			stop()
			if err != nil {
				return out, nil, fmt.Errorf("speed of %s: %w", m.name, err)
			}
			speed[m.name] = append(speed[m.name], s.CommandsPerSecond)
			median[m.name] = append(median[m.name], s.Median.Seconds()*1e6)
			p99[m.name] = append(p99[m.name], s.P99.Seconds()*1e6)

			cfg.Kills, cfg.Between, cfg.PingInterval, cfg.Progress = b.kills, 300*time.Millisecond, 5*time.Millisecond,
				bar.show
			r, err := trial.Run(ctx, cfg)
			if err != nil {
				return out, nil, fmt.Errorf("failover of %s: %w", m.name, err)
			}
			if m.barriers {
				err = os.RemoveAll(r.Evidence) // of what is expected
			} else if err = verdict(r); err != nil {
				err = fmt.Errorf("%s: %w", m.name, err)
			}
			inexact = errors.Join(inexact, err)
			for _, k := range r.Kills {
				failover[m.name] = append(failover[m.name], k.Command.Seconds()*1e3)
			}
			for name, n := range counts(r) {
				figures[name+"_"+m.name] += n
			}
		}
	}
	for _, m := range switchModes {
		figures["commands_per_s_"+m.name] = quantile(speed[m.name], 0.5)
		figures["latency_us_median_"+m.name] = quantile(median[m.name], 0.5)
		figures["latency_us_p99_"+m.name] = quantile(p99[m.name], 0.5)
		figures["failover_ms_median_"+m.name] = quantile(failover[m.name], 0.5)
		figures["failover_ms_max_"+m.name] = quantile(failover[m.name], 1)
	}
	return report{"modes", figures, map[string]any{
		"controllers": "3 processes on loopback", "switches": fmt.Sprintf(
			"%d Open vSwitch bridges in network namespaces, each with a relay before it", modesSwitches),
		"agents": "agent: a process for each switch; stock: none, each switch is connected to all controllers; " +
			"stock_barriers: the relay refuses bundles, as the switch would",
		"commands": "flow-mods, 64 for each packet-in, 8 packet-ins on their way for each switch",
		"latency":  "of one packet at a time, from the host and back to it by a packet-out",
		"failover": "until the end of the longest silence of commands at the switches that began within 5 ms of " +
			"the kill; hosts ping every 5 ms through packet-ins",
		"rounds": b.rounds, "seconds": b.seconds, "durability": b.durability,
	}}, inexact, nil
}
