package command

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	var asJSON, ofStore, ofSuite bool
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
store while the leader is killed three times, and the writes that were acknowledged are compared with the tables.

With --suite a firewall, traffic engineering, routers and recovery run together on a tree of seven embedded
switches with two links between its halves. A leader is killed while the access list changes, and a link is cut while
no controller leads. Then a machine of a tenant moves in a network of its own. A table compares what each application
promises with what the hosts have seen. Exits 1 if a promise was broken.`,
		Example: `  holdfast demo
  sudo holdfast demo --ovs --stock
  holdfast demo --groups per-controller
  holdfast demo --migrate
  holdfast demo --store
  holdfast demo --suite
  holdfast demo --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ofStore {
				return demoStore(cmd, b.Kills, b.Between/4, asJSON)
			}
			if ofSuite {
				return demoSuite(cmd, b.Groups, b.Between/2, asJSON)
			}
			if b.Migrate {
				b.Groups = bench.PerController
			}
			switch {
			case b.App == "" && b.Groups == bench.PerController:
				b.App = exchange.Name
			case b.App == "" && len(own) > 0:
				b.App = own[0]
			case b.App != "" && applications[b.App] == nil:
				return fmt.Errorf("--app %s: there are %v", b.App, applicationNames())
			}
			err := validated(b)
			if err != nil {
				return err
			}
			if b.Binary, err = self(); err != nil {
				return err
			}
			bar, stage := newProgress(cmd.ErrOrStderr()), newStage(cmd, asJSON)
			r, err := b.Kill(cmd.Context(), bar.callback(), func(line string) {
				bar.clear()
				stage.say(line)
			})
			bar.clear()
			if err != nil {
				return err
			}
			report := b.Report(r)
			report.Bench = "demo"
			err = stage.end(report, func(out io.Writer) error { return printDemo(out, r) })
			return errors.Join(err, r.Err())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; what happens goes to standard error")
	cmd.Flags().BoolVar(&ofStore, "store", false, "show the consistent data store, without switches")
	cmd.Flags().BoolVar(&ofSuite, "suite", false, "show the applications of the network suite together")
	cmd.Flags().StringVar(&b.App, "app", "", "the application, which has to bring the packets of hosts to their "+
		"destination; if none is named: the first that this program has of its own, or hub")
	ovsFlag(cmd, &b.OVS)
	stockFlag(cmd, &b.Stock)
	groupsFlag(cmd, &b.Groups)
	cmd.Flags().BoolVar(&b.Migrate, "migrate", false,
		"move the actor and the switches from group to group all the time (groups: per-controller)")
	for _, other := range []string{"app", "ovs", "stock", "groups", "migrate"} {
		cmd.MarkFlagsMutuallyExclusive("store", other)
	}
	for _, other := range []string{"app", "store", "ovs", "stock", "migrate"} {
		cmd.MarkFlagsMutuallyExclusive("suite", other)
	}
	return cmd
}

// stage tells what happens in a demo, and what was found in the end.
type stage struct {
	out, talk io.Writer // for the report, and for people
	asJSON    bool
	began     time.Time
}

// newStage begins a demo. What happens goes to standard error if the report is JSON.
func newStage(cmd *cobra.Command, asJSON bool) stage {
	s := stage{cmd.OutOrStdout(), cmd.OutOrStdout(), asJSON, time.Now()}
	if asJSON {
		s.talk = cmd.ErrOrStderr()
	}
	return s
}

// say prints a line with the time since the demo began.
func (s stage) say(line string) {
	fmt.Fprintf(s.talk, "%5.1f s  %s\n", time.Since(s.began).Seconds(), line)
}

// end prints the report: as JSON, or as print does.
func (s stage) end(r bench.Report, print func(io.Writer) error) error {
	if s.asJSON {
		return printReport(s.out, r, true)
	}
	return print(s.talk)
}

// onStage runs a demo with the path of this program, and a folder that is there until it ends.
func onStage(run func(binary, dir string) error) error {
	binary, err := self()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return run(binary, dir)
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
