package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/trial"
)

func benchFailoverCommand() *cobra.Command {
	var kills int
	var asJSON, ovs, stock bool
	var durability string
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Time from SIGKILL of the leader until a switch receives the next command",
		Long: `Run three controllers, four agents and four switches (with --stock no agents); hosts ping
through packet-ins all the time. Kill the leader again and again, and measure each time how long
it takes from SIGKILL until the switches receive commands again. Ends with what was lost and
repeated.`,
		Example: `  holdfast bench failover --kills 30 --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(inRange("kills", kills, 1, 10_000), isDurability(durability)); err != nil {
				return err
			}
			binary, err := self()
			if err != nil {
				return err
			}
			bar := newProgress(cmd.ErrOrStderr())
			r, err := trial.Run(cmd.Context(), trial.Config{Binary: binary, OVS: ovs, Stock: stock, Kills: kills,
				Between:      300 * time.Millisecond,
				PingInterval: 5 * time.Millisecond, Durability: durability, Progress: bar.show})
			bar.clear()
			if err != nil {
				return err
			}
			out := failoverReport(r, durability, ovs, stock)
			if err := out.print(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			return verdict(r)
		},
	}
	cmd.Flags().IntVar(&kills, "kills", 30, "how often the leader is killed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&ovs, "ovs", false, "Open vSwitch in network namespaces (needs root) instead of embedded "+
		"switches")
	cmd.Flags().BoolVar(&stock, "stock", false, "no agents: each switch is connected to all controllers")
	cmd.Flags().StringVar(&durability, "durability", "memory", "memory or disk")
	return cmd
}

func failoverReport(r trial.Result, durability string, ovs, stock bool) report {
	var command, hosts []float64
	for _, k := range r.Kills {
		command = append(command, k.Command.Seconds()*1e3)
		hosts = append(hosts, k.Hosts.Seconds()*1e3)
	}
	f := counts(r)
	f["failover_ms_median"], f["failover_ms_p99"], f["failover_ms_max"] = quantile(command, 0.5),
		quantile(command, 0.99), quantile(command, 1)
	f["host_silence_ms_median"], f["host_silence_ms_max"] = quantile(hosts, 0.5), quantile(hosts, 1)
	switches, agents := "4 embedded switches in a row", "4 processes"
	if ovs {
		switches = "4 Open vSwitch bridges in a row"
	}
	if stock {
		agents = "none: each switch is connected to all controllers"
	}
	return report{"failover", f, map[string]any{
		"controllers": "3 processes on loopback", "agents": agents, "switches": switches, "app": "hub",
		"load": fmt.Sprintf("4 hosts ping every 5 ms, every packet a packet-in at every switch; %d events in all",
			r.EventsSent),
		"kill": "SIGKILL of the leader, restarted after 1 s", "durability": durability,
		"failover": "until the end of the longest silence of commands at the switches that began within 5 ms of " +
			"the kill",
	}}
}

// counts are the four that must be zero, and what they are of.
func counts(r trial.Result) map[string]float64 {
	return map[string]float64{
		"events_sent": float64(r.EventsSent), "events_processed": float64(r.EventsProcessed),
		"events_lost": float64(r.EventsLost), "events_repeated": float64(r.EventsRepeated),
		"commands_issued": float64(r.CommandsIssued), "commands_executed": float64(r.CommandsExecuted),
		"commands_lost": float64(r.CommandsLost), "commands_repeated": float64(r.CommandsRepeated),
		"commands_reordered": float64(r.CommandsReordered),
		"kills":              float64(len(r.Kills)),
	}
}

// verdict is an error if anything was lost, repeated or out of order.
func verdict(r trial.Result) error {
	if r.Exact() {
		return nil
	}
	return fmt.Errorf("not exactly once: %d events lost, %d repeated; %d commands lost, %d repeated, %d out of "+
		"order; logs and audit files are in %s",
		r.EventsLost, r.EventsRepeated, r.CommandsLost, r.CommandsRepeated, r.CommandsReordered, r.Evidence)
}

// quantile returns the value below or at which the share q of the values is; 0 without values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}
