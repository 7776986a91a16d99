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
of a leader, in turn. Everything uses TLS, each controller leads a group, and the clients have the role viewer. Watchers
read all changes. Dashboards do so too, and two of three ask every two seconds for what their view shows. The report
has the 99th percentile of the control path alone and with them (control_p99_ratio is the median of the quotients of
all pairs, at most 1.2), that of the dashboards' requests (p99_ms), how many requests a second are answered if
they do not pause (requests_per_s), and how many watchers that stop reading are cut off (slow_cut; it has to be all).
The clients share the machine with the controllers.`,
		Example: `  holdfast bench api --json
  holdfast bench api --watchers 0 --dashboards 10`,
	}
	cmd.Flags().IntVar(&b.Watchers, "watchers", 1000, "number of watchers")
	cmd.Flags().IntVar(&b.Dashboards, "dashboards", 100, "number of dashboards")
	cmd.Flags().IntVar(&b.Slow, "slow", 20, "number of further watchers that stop reading")
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "number of switches")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each slice lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 5, "pairs of slices, alone and with clients")
	return benchmarkCommand(cmd, &b, &b.Binary)
}
