package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchAPICommand() *cobra.Command {
	var b bench.API
	cmd := &cobra.Command{
		Use:   "api",
		Short: "What watchers and dashboards cost the control path",
		Long: `Run three controllers and an agent with switches that send packets, alone and beside clients of the API
of the leader, in turn. Watchers read all changes. Pollers ask once a second for what a dashboard shows. The
report has the 99th percentile of the control path alone and beside them (control_p99_ratio is the quotient,
at most 1.2), that of the pollers' requests (p99_ms), and how many requests a second are answered if they do
not pause (requests_per_s). The clients share the machine with the controllers.`,
		Example: `  holdfast bench api --json
  holdfast bench api --watchers 0 --pollers 10`,
	}
	cmd.Flags().IntVar(&b.Watchers, "watchers", 1000, "number of watchers")
	cmd.Flags().IntVar(&b.Pollers, "pollers", 100, "number of pollers")
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "number of switches")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each slice lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 3, "number of slices alone, and beside clients")
	return benchmarkCommand(cmd, &b, &b.Binary)
}
