package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/failover"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench NAME",
		Short: "Measure Holdfast on this machine",
		Long: `Measure Holdfast with real processes on loopback. The load generator shares the machine with
the controllers. Absolute figures depend on what else the machine does: compare the ratios within one run.`,
		Example: `  holdfast bench failover --kills 30
  holdfast bench throughput --switches 16 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchFailoverCommand(), benchThroughputCommand(), benchLatencyCommand(), benchGroupsCommand(),
		benchHopsCommand(), benchInstrumentationCommand(), benchMigrationCommand(), benchForwardingCommand(),
		benchLevelsCommand(), benchModesCommand(), benchRyuCommand(), benchPathsCommand(), benchRecoveryCommand(),
		benchBusyCommand(), benchKVCommand(), benchActorsCommand(), benchStoreCommand(), benchPlacementCommand(),
		benchSuiteCommand(), benchHostileCommand(), benchAPICommand(), benchAPIClients(), benchCommitMember(),
		benchCbenchCommand())
	return cmd
}

// benchmark is a type of package bench.
type benchmark interface {
	Validate() error
	Run(context.Context, bench.Progress) (bench.Report, error)
}

// benchmarkCommand makes cmd run a benchmark, whose fields are set by its flags. binary is the field for the holdfast
// binary, which is this one; nil if the benchmark starts no process.
func benchmarkCommand(cmd *cobra.Command, b benchmark, binary *string) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	plot := cmd.Flags().Lookup("plot")
	if plot != nil {
		cmd.MarkFlagsMutuallyExclusive("json", "plot")
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if binary != nil {
			if *binary, err = self(); err != nil {
				return err
			}
		}
		r, err := runBenchmark(cmd, b)
		if err != nil && !errors.Is(err, failover.ErrNotExact) && !errors.Is(err, bench.ErrBounds) {
			return err
		}
		if plot == nil || plot.Value.String() != "true" {
			r.Plot = ""
		}
		return errors.Join(printReport(cmd.OutOrStdout(), r, *asJSON), err)
	}
	return cmd
}

// runBenchmark runs it with a progress bar.
func runBenchmark(cmd *cobra.Command, b benchmark) (bench.Report, error) {
	if err := validated(b); err != nil {
		return bench.Report{}, err
	}
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.clear()
	return b.Run(cmd.Context(), bar.callback())
}

// validated names the flag whose value cannot be: fields are called as their flags.
func validated(b interface{ Validate() error }) error {
	err := b.Validate()
	if _, ok := errors.AsType[*bench.FieldError](err); ok {
		return fmt.Errorf("--%w", err)
	}
	return err
}

func printReport(out io.Writer, r bench.Report, asJSON bool) error {
	if asJSON {
		return writeJSON(out, r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bench %s\n", r.Bench)
	for _, k := range slices.Sorted(maps.Keys(r.Figures)) {
		if paper, ok := r.Figures[bench.PaperPrefix+k]; ok {
			fmt.Fprintf(w, "  %s\t%s\tpaper: %s\n", k, figure(r.Figures[k]), figure(paper))
		} else if !isPaperOf(k, r) {
			fmt.Fprintf(w, "  %s\t%s\n", k, figure(r.Figures[k]))
		}
	}
	fmt.Fprintln(w, "setup")
	for _, k := range slices.Sorted(maps.Keys(r.Setup)) {
		fmt.Fprintf(w, "  %s\t%v\n", k, r.Setup[k])
	}
	if r.Plot != "" {
		fmt.Fprintf(w, "\n%s", r.Plot)
	}
	return w.Flush()
}

// isPaperOf reports whether a figure is printed beside another one.
func isPaperOf(name string, r bench.Report) bool {
	of, paper := strings.CutPrefix(name, bench.PaperPrefix)
	_, is := r.Figures[of]
	return paper && is
}

// figure prints counts whole and the rest with three places.
func figure(v float64) string {
	if v == float64(int64(v)) {
		return fmt.Sprintf("%d", int64(v))
	}
	return fmt.Sprintf("%.3f", v)
}

// self is the binary to run controllers and agents with: this one.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the holdfast binary: %w", err)
	}
	return path, nil
}

func benchFailoverCommand() *cobra.Command {
	var b bench.Failover
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Time from SIGKILL of the leader until a switch receives the next command",
		Long: `Run three controllers, four agents and four switches (with --stock no agents), while hosts ping
each other and every packet is a packet-in. Kill the leader repeatedly, and measure each time how long
it takes from SIGKILL until the switches receive commands again. The report counts the events and commands
that were lost or repeated; exits 1 if there are any. With --groups per-controller there are six switches,
and one controller after the other is killed, each of which leads a group. The hosts are silent while
a killed controller comes back. With --rows, the controllers hold as many rows of the store meanwhile.`,
		Example: `  holdfast bench failover --kills 30 --json
  holdfast bench failover --kills 100 --rows 400000
  sudo holdfast bench failover --kills 10 --ovs
  holdfast bench failover --groups per-controller --kills 30 --json`,
	}
	cmd.Flags().IntVar(&b.Kills, "kills", 30, "how often the leader is killed")
	ovsFlag(cmd, &b.OVS)
	stockFlag(cmd, &b.Stock)
	groupsFlag(cmd, &b.Groups)
	durabilityFlag(cmd, &b.Durability)
	cmd.Flags().IntVar(&b.Rows, "rows", 0, "rows of the store that the controllers hold")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func durabilitiesFlag(cmd *cobra.Command, list *[]string) {
	cmd.Flags().StringSliceVar(list, "durability", []string{"memory"}, "memory, disk or both")
}

func groupsFlag(cmd *cobra.Command, groups *string) {
	cmd.Flags().StringVar(groups, "groups", "1", "1, or per-controller: each controller leads a share of the switches")
}

func ovsFlag(cmd *cobra.Command, ovs *bool) {
	cmd.Flags().BoolVar(ovs, "ovs", false,
		"Open vSwitch in network namespaces (needs root) instead of embedded switches")
}

func stockFlag(cmd *cobra.Command, stock *bool) {
	cmd.Flags().BoolVar(stock, "stock", false, "no agents: each switch is connected to all controllers")
}

func durabilityFlag(cmd *cobra.Command, durability *string) {
	cmd.Flags().StringVar(durability, "durability", "memory", "memory or disk")
}

func benchGroupsCommand() *cobra.Command {
	var b bench.Groups
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "What it costs that each controller leads a group",
		Long: `Run clusters in which each controller leads a group, and then clusters of one group with as many
replicas, under packet-ins of 16 fake switches for each controller of the first, as bench throughput does.
The report has the answers per second, and the processor time of an event.`,
		Example: `  holdfast bench groups --controllers 1,3,5 --json
  holdfast bench groups --controllers 5 --replication 1,3,5 --json`,
	}
	cmd.Flags().IntSliceVar(&b.Controllers, "controllers", []int{1, 3, 5}, "sizes of the clusters: odd numbers")
	cmd.Flags().IntSliceVar(&b.Replication, "replication", nil,
		"replicas of each group: odd numbers, of which those above "+
			"the number of controllers are left out; default: as many as there are controllers")
	cmd.Flags().IntVar(&b.Window, "window", 64, "packet-ins outstanding for each switch")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 5, "how long each measurement lasts")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchHopsCommand() *cobra.Command {
	var b bench.Hops
	cmd := &cobra.Command{
		Use:   "hops",
		Short: "Latency from a switch to an actor elsewhere, and to a switch elsewhere",
		Long: `Run three controllers, each of which leads a group, and an application of which one actor handles
all packets. Measure how long it takes from a packet-in of one switch to the command for another, one
at a time: with both switches in the group of the actor (hop1), with the first one in another group
(hop2), and with the switches and the actor in three groups (hop3). Each group on the way commits an
entry. The three take turns.`,
		Example: `  holdfast bench hops --json
  holdfast bench hops --durability memory,disk --json`,
	}
	cmd.Flags().StringSliceVar(&b.Durability, "durability", []string{"memory"},
		"memory, disk or both; figures of disk end in _disk")
	cmd.Flags().IntVar(&b.Packets, "packets", 500, "packets of a measurement")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 11, "how often each number of hops is measured")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchMigrationCommand() *cobra.Command {
	var b bench.Migration
	cmd := &cobra.Command{
		Use:   "migration",
		Short: "How long an actor pauses while it moves to another group",
		Long: `Run three controllers, each of which leads a group, and an application of which one actor handles
all packets. Move it from group to group while switches of all groups send packets, and measure how
long no packet is answered. The actor's cells are copied ahead, so the pause is to be the same for a
state of any size.`,
		Example: `  holdfast bench migration --json
  holdfast bench migration --state-bytes 1024,1048576 --moves 100`,
	}
	cmd.Flags().IntSliceVar(&b.StateBytes, "state-bytes", []int{1 << 10, 1 << 20}, "sizes of the actor's state")
	cmd.Flags().IntVar(&b.Moves, "moves", 60, "moves of each size")
	cmd.Flags().IntVar(&b.Window, "window", 4, "packet-ins outstanding for each switch")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchForwardingCommand() *cobra.Command {
	var b bench.Forwarding
	cmd := &cobra.Command{
		Use:   "forwarding",
		Short: "What hosts notice of faults while the controllers forward each packet",
		Long: `Run an Open vSwitch with two hosts (this needs root), three controllers, each of which leads a group, and
an application that forwards each packet itself. Measure the round trip and the longest time without an
answer: when the leader of the switch's group is killed, with the application's actor in that group or in
another one, and when the connection from the agent to that leader is cut. Without --json it draws the
round trips of each 100 ms.`,
		Example: `  sudo holdfast bench forwarding --json`,
	}
	cmd.Flags().IntVar(&b.Samples, "samples", 5, "networks; in each a controller is killed twice, and a connection "+
		"is cut")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchInstrumentationCommand() *cobra.Command {
	var b bench.Instrumentation
	cmd := &cobra.Command{
		Use:   "instrumentation",
		Short: "What it costs to count what actors do",
		Long: `Put the load of bench throughput on a cluster, and let it count what actors do, as all do by default, in
two of each four slices of time. "overhead_percent" is by how much the processor time that the leader
needs for an event is more in these, the median of all groups of four slices. "_low" and "_high" are the
95 % confidence interval of that, and "_rounds_low" and "_rounds_high" are that of the medians of rounds.
"throughput_overhead_percent" is by how much the answers are fewer.`,
		Example: `  holdfast bench instrumentation --json
  holdfast bench instrumentation --controllers 3 --rounds 12`,
	}
	cmd.Flags().IntVar(&b.Controllers, "controllers", 1, "how many controllers a cluster has: an odd number")
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "how many fake switches")
	cmd.Flags().IntVar(&b.Window, "window", 256, "packet-ins outstanding for each switch")
	cmd.Flags().DurationVar(&b.Slice, "slice", 100*time.Millisecond, "how long it counts, or does not, at a time")
	cmd.Flags().DurationVar(&b.Measure, "measure", 8*time.Second, "how long the load of a round lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 10, "rounds, each with a cluster of its own; at least 6")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchThroughputCommand() *cobra.Command {
	var b bench.Throughput
	cmd := &cobra.Command{
		Use:   "throughput",
		Short: "Packet-ins per second answered with a flow-mod, exactly once",
		Long: `Run controllers with the learning application and an agent, and fake switches that send
packet-ins as fast as they are answered. Every event is in the log of a majority before
its answer is sent, and the answer is executed exactly once. In the workload "steady" the
application knows all hosts; in "learning" each packet-in is from a host that is new, and
is written to a table. Each combination of the flags has a cluster, and figures, of its own.
The switches connect to the agent at a Unix socket. With --load, processes that use all the
processor time that they get run beside: "term_changes" says whether the leader changed all the same.

"cpu_us_per_event" is what all processes but the load need for an event, of which one process needs
"cpu_us_leader", "cpu_us_follower" or "cpu_us_agent"; "generator_us_percent" is what share of the
whole the load needs.`,
		Example: `  holdfast bench throughput --switches 16 --replicas 1,3 --json
  holdfast bench throughput --workload steady --switches 16,1024 --window 4 --rounds 5
  holdfast bench throughput --switches 1024 --window 4 --load 16 --seconds 60`,
	}
	cmd.Flags().StringSliceVar(&b.Workloads, "workload", []string{bench.Steady, bench.Learning}, "steady or learning")
	cmd.Flags().IntSliceVar(&b.Switches, "switches", []int{16}, "how many fake switches")
	cmd.Flags().IntSliceVar(&b.Replicas, "replicas", []int{3}, "how many controllers: odd numbers")
	cmd.Flags().IntVar(&b.Window, "window", 256, "packet-ins outstanding for each switch")
	durabilitiesFlag(cmd, &b.Durability)
	cmd.Flags().IntVar(&b.Seconds, "seconds", 8, "how long each measurement lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 1, "how often each combination is measured")
	cmd.Flags().IntVar(&b.Load, "load", 0, "how many busy processes run beside")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchLevelsCommand() *cobra.Command {
	var b bench.Levels
	cmd := &cobra.Command{
		Use:   "levels",
		Short: "What each consistency level costs",
		Long: `Run the learning application with each consistency level for packet-ins on three controllers.
The load is the same each time: fake switches send packet-ins as fast as they are answered with
a flow-mod, then one at a time. Two settings are for comparison: "none" is one controller at exactly-once,
with a log and without replication; "bare" is one controller at unordered. The settings take
turns, every second round backwards, so that other load on the machine affects all of them equally.

Figures are medians of the rounds; ratios have their minimum and maximum as well; unanswered packet-ins are sums.
Below exactly-once answers are lost when the leadership changes, as it may on a machine that is too
busy; these packet-ins count as unanswered.`,
		Example: `  holdfast bench levels --json`,
	}
	cmd.Flags().IntVar(&b.Switches, "switches", 16, "how many fake switches")
	cmd.Flags().IntVar(&b.Window, "window", 256, "packet-ins outstanding for each switch")
	cmd.Flags().IntVar(&b.Addresses, "addresses", 1000, "hosts behind each switch")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each measurement lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 6, "how often each setting is measured")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchModesCommand() *cobra.Command {
	var b bench.Modes
	cmd := &cobra.Command{
		Use:   "modes",
		Short: "Open vSwitch with an agent, without one, and without bundles",
		Long: `Run Open vSwitches, in network namespaces (this needs root), in each of three modes: with an agent;
connected to all controllers, with bundles; and the same, as switches that have no bundles. Measure
how many commands per second they execute, the time from a packet to the command that
sends it back, and the time of a failover. The modes take turns, so that other load on the machine
affects all of them; figures are medians. While leaders are killed, events and commands are compared as in
the demo: without bundles events and commands on their way may be lost when a leader dies.`,
		Example: `  sudo holdfast bench modes --json`,
	}
	cmd.Flags().IntVar(&b.Kills, "kills", 5, "how often the leader is killed in each mode and round")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 4, "how long each measurement of speed lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 3, "how often each mode is measured")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}

// installedPython is the one that make test installs for this checkout, if it is there.
func installedPython() string {
	if p := os.Getenv("HOLDFAST_PYTHON"); p != "" {
		return p
	}
	if p, err := filepath.Abs(".venv/bin/python"); err == nil {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return "python3"
}

// installedRyu is the folder of Ryu's applications that make test downloads, if it is there.
func installedRyu() []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(cache, "holdfast", "ryu-*")) // the pattern is valid
	return found
}

func benchPathsCommand() *cobra.Command {
	var b bench.Paths
	cmd := &cobra.Command{
		Use:   "paths",
		Short: "Time to compute protected paths, and what they need in switches",
		Long: `Compute the paths between all pairs of switches, with a backup at every switch, and compile them to flow
entries and groups; then cut a link, and mend it, and compute what changes. One host at each switch.
24 switches are USNET; other networks are random, with four links for each switch. Times are CPU time on one core.`,
		Example: `  holdfast bench paths --switches 24,100,500,1000 --json`,
	}
	cmd.Flags().IntSliceVar(&b.Switches, "switches", []int{24, 100, 500, 1000}, "sizes of the networks")
	cmd.Flags().BoolVar(&b.NodeDisjoint, "node-disjoint", false,
		"backups avoid the next switch, not only the link to it")
	return benchmarkCommand(cmd, &b, nil)
}

func benchRecoveryCommand() *cobra.Command {
	var b bench.Recovery
	cmd := &cobra.Command{
		Use:   "recovery",
		Short: "Time from the death of a link until frames flow again, without a controller",
		Long: `Build one of the paper's networks of Open vSwitches in network namespaces (needs root), install
protected paths between two hosts, and watch every link by BFD. No controller runs after that. While
one host streams to the other, cut the links on the way, one by one, and mend them: measure each
time from the first frame lost until frames come again.

The report has the paper's figures as well (van Adrichem et al., Fast Recovery in Software-Defined
Networks, figure 7). Its switches had a machine each; these share one, which should have nothing
else to do. For that reason they get real-time priority, unless --realtime=false.`,
		Example: `  sudo holdfast bench recovery --topology ring --bfd-interval-ms 5 --plot
  sudo holdfast bench recovery --topology triangle --bfd-interval-ms 1 --samples 100 --json`,
	}
	cmd.Flags().StringVar(&b.Topology, "topology", "triangle", "triangle, ring or usnet")
	cmd.Flags().IntVar(&b.IntervalMs, "bfd-interval-ms", 15, "how often BFD sends")
	cmd.Flags().IntVar(&b.Multiplier, "multiplier", 0,
		"how many packets BFD misses before a link is dead; 0: 3, or more at short intervals")
	cmd.Flags().IntVar(&b.Samples, "samples", 100, "how often a link is cut")
	cmd.Flags().StringVar(&b.Cut, "cut", "silent",
		"silent: frames are lost, ports stay up; carrier: the far port goes down")
	cmd.Flags().StringVar(&b.Detector, "detector", "",
		"who watches links: switch (the BFD of Open vSwitch) or sentry (holdfast sentry beside it); default: "+
			"sentry below 15 ms")
	cmd.Flags().BoolVar(&b.Realtime, "realtime", true,
		"switches, stream and sentry have priority over other processes")
	cmd.Flags().Bool("plot", false, "draw the distribution")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchBusyCommand() *cobra.Command {
	var b bench.Busy
	cmd := &cobra.Command{
		Use:   "busy",
		Short: "What a network in which nothing fails suffers from a busy machine",
		Long: `Run three idle controllers beside processes that use all the processor time that they get, and count
the changes of the leader: "term_changes" is the number of terms that began while the load ran. Then stop the leader,
and measure how long it takes until another controller leads.

Then run a torus of nine Open vSwitches with the application recovery beside that load, in network
namespaces (this needs root), cut nothing, and count what is lost ("frames_lost_percent") and the
links that are taken for dead all the same ("false_alarms"). Last, without load, measure how soon a
dead link is bypassed ("recovery_ms_median", as bench recovery).`,
		Example: `  holdfast bench busy --json
  holdfast bench busy --load 8 --seconds 60`,
	}
	cmd.Flags().IntVar(&b.Seconds, "seconds", 300, "how long each part lasts")
	cmd.Flags().IntVar(&b.Load, "load", 20, "how many busy processes")
	return benchmarkCommand(cmd, &b, &b.Binary)
}
