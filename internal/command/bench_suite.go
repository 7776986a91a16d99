package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchSuiteCommand() *cobra.Command {
	var b bench.Suite
	cmd := &cobra.Command{
		Use:   "suite",
		Short: "What the network suite costs, how fast it installs paths, and how soon triggers fire",
		Long: `Run three controllers with the learning switch alone, and with as much of the network suite beside it
as can run together, under packet-ins of fake switches: the report has the answers per second of both, and
their ratio. Then install paths on a line of fake switches, one at a time and in large requests, and let
the counters of ports rise until triggers fire. The load shares the machine with the controllers.`,
		Example: `  holdfast bench suite --json
  holdfast bench suite --rounds 5 --groups per-controller`,
	}
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "fake switches for forwarding")
	cmd.Flags().IntVar(&b.Window, "window", 64, "packet-ins outstanding for each switch")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 5, "how long each measurement of forwarding lasts")
	cmd.Flags().IntVar(&b.Paths, "paths", 16_000, "paths that are installed together")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 3, "how often each measurement is repeated; the figures are medians")
	groupsFlag(cmd, &b.Groups)
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}
