package command

import (
	"context"
	"io"

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
read all changes. Dashboards do so too, and two of three ask every two seconds for what their view shows.

Packet-ins come at a rate, at equal distances, whether earlier ones are answered or not. The rate is a share (--load) of
what the cluster answers with one packet-in outstanding for each switch. It is lower if controllers, agent and switches
alone would use more than --busy percent of the processors: the clients share these, and without a processor that is
free, the figures would be about the machine. A latency counts from when the packet-in was due.

The report has the 99th percentile of the control path alone and with clients (control_p99_ratio is the median of the
quotients of all pairs, at most 1.2), what processor time the controllers use, the 99th percentile of the dashboards'
requests (p99_ms), how many requests a second are answered if they do not pause (requests_per_s), and how many watchers
that stop reading are cut off (slow_cut; it has to be all). The clients share the machine with the controllers, so they
are a process that only runs when no other wants to. sent_late_p99_ms says how late packet-ins were sent: that is in the
latencies. processors_busy_percent says how busy the processors were with all that ran on the machine: above 90 percent
the ratio says little about the API.`,
		Example: `  holdfast bench api --json
  holdfast bench api --watchers 0 --dashboards 10`,
	}
	cmd.Flags().IntVar(&b.Load, "load", 25,
		"highest rate of packet-ins, in percent of what is answered with one outstanding for each switch")
	cmd.Flags().IntVar(&b.Busy, "busy", 50,
		"the rate is lower if the control path alone would use more than this percent of the processors")
	cmd.Flags().IntVar(&b.Watchers, "watchers", 1000, "number of watchers")
	cmd.Flags().IntVar(&b.Dashboards, "dashboards", 100, "number of dashboards")
	cmd.Flags().IntVar(&b.Slow, "slow", 20, "number of further watchers that stop reading")
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "number of switches")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each slice lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 5, "pairs of slices, alone and with clients")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

// benchAPIClients is one of the processes of bench api.
func benchAPIClients() *cobra.Command {
	return partOfBench(bench.APIClients, "api", "It watches the API of a controller until its input ends.",
		`{"Address": "127.0.0.1:8653", "Watchers": 1000}`,
		func(ctx context.Context, c bench.Clients, out io.Writer) error { return c.Run(ctx, out) })
}
