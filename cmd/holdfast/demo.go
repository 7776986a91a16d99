package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/failover"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
)

func demoCommand() *cobra.Command {
	b := bench.Failover{Kills: 3, Durability: "memory", Between: 4 * time.Second, PingInterval: 10 * time.Millisecond}
	var asJSON, ofStore bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill the leader three times under traffic and count what was lost",
		Long: `Run three controllers and four agents as separate processes, and four switches in a row
with a host at each. The hosts ping each other; no flow entries forward packets, so
every packet takes the control path. Kill the leader with SIGKILL three times and restart
it. Then compare, message by message, the events that switches sent and the commands that they
executed with the log of the controllers. Exits 1 if anything was lost or repeated.

The switches are embedded software switches, which need no root; with --ovs they are Open vSwitch
bridges in network namespaces, which do. With --stock there are no agents: each switch is connected
to all three controllers, and nothing runs beside it. With --groups per-controller each controller
leads a group with a third of the switches, and one after the other is killed. One actor, in one of
these groups, then handles the packets of all switches and sends them to the switch of their
destination, so nearly every packet passes several groups. The report compares what groups sent to
each other with what they received. With --migrate that actor and the switches move from group to group meanwhile.

With --store there are no switches: two processes in Go and one in Python write to the same tables of the data
store while the leader is killed three times, and the writes that were acknowledged are compared with the tables.`,
		Example: `  holdfast demo
  sudo holdfast demo --ovs --stock
  holdfast demo --groups per-controller
  holdfast demo --migrate
  holdfast demo --store
  holdfast demo --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ofStore {
				return demoStore(cmd, b.Kills, b.Between/4, asJSON)
			}
			if b.Migrate {
				b.Groups = bench.PerController
			}
			if b.Groups == bench.PerController {
				b.App = exchange.Name
			}
			err := validated(b)
			if err != nil {
				return err
			}
			if b.Binary, err = self(); err != nil {
				return err
			}
			talk := cmd.OutOrStdout()
			if asJSON {
				talk = cmd.ErrOrStderr()
			}
			bar, start := newProgress(cmd.ErrOrStderr()), time.Now()
			r, err := b.Kill(cmd.Context(), bar.callback(), func(line string) {
				bar.clear()
				fmt.Fprintf(talk, "%5.1f s  %s\n", time.Since(start).Seconds(), line)
			})
			bar.clear()
			if err != nil {
				return err
			}
			if asJSON {
				report := b.Report(r)
				report.Bench = "demo"
				err = printReport(cmd.OutOrStdout(), report, true)
			} else {
				err = printDemo(talk, r)
			}
			return errors.Join(err, r.Err())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; what happens goes to standard error")
	cmd.Flags().BoolVar(&ofStore, "store", false, "show the consistent data store, without switches")
	ovsFlag(cmd, &b.OVS)
	stockFlag(cmd, &b.Stock)
	groupsFlag(cmd, &b.Groups)
	cmd.Flags().BoolVar(&b.Migrate, "migrate", false,
		"move the actor and the switches from group to group all the time (groups: per-controller)")
	for _, other := range []string{"ovs", "stock", "groups", "migrate"} {
		cmd.MarkFlagsMutuallyExclusive("store", other)
	}
	return cmd
}

func printDemo(out io.Writer, r failover.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "\tsent\tprocessed\tlost\trepeated\t")
	fmt.Fprintf(w, "events\t%d\t%d\t%d\t%d\t\n", r.EventsSent, r.EventsProcessed, r.EventsLost, r.EventsRepeated)
	fmt.Fprintln(w, "\tissued\texecuted\tlost\trepeated\t")
	fmt.Fprintf(w, "commands\t%d\t%d\t%d\t%d\t\n", r.CommandsIssued, r.CommandsExecuted, r.CommandsLost,
		r.CommandsRepeated)
	fmt.Fprintln(w, "\tsent\tanswered\tlost\trepeated\t")
	fmt.Fprintf(w, "pings\t%d\t%d\t%d\t%d\t\n", r.PingsSent, r.PingsAnswered, r.PingsSent-r.PingsAnswered,
		r.PingsRepeated)
	printStreams(w, r.Streams)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i, k := range r.Kills {
		fmt.Fprintf(out, "failover %d: leader %s killed; next command after %.1f ms; longest wait of a host %.1f ms\n",
			i+1, k.Controller, k.Command.Seconds()*1e3, k.Hosts.Seconds()*1e3)
	}
	return nil
}

// printStreams prints what groups sent to each other, if there are several.
func printStreams(w io.Writer, s oracle.Streams) {
	if s.Sent == 0 {
		return
	}
	fmt.Fprintln(w, "\tsent\treceived\tlost\trepeated\t")
	fmt.Fprintf(w, "between groups\t%d\t%d\t%d\t%d\t\n", s.Sent, s.Received, s.Lost, s.Repeated)
	if s.Moves > 0 {
		fmt.Fprintf(w, "moves of actors\t%d\t\t\t\t\n", s.Moves)
	}
	for _, g := range s.Groups {
		fmt.Fprintf(w, "group %d\t%d\t%d\t\t\t\n", g.Group, g.Sent, g.Received)
	}
}
