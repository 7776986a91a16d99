package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchRyuCommand() *cobra.Command {
	var b bench.Ryu
	cmd := &cobra.Command{
		Use:   "ryu",
		Short: "Packet-ins per second of a Ryu application: os-ken itself, and Holdfast",
		Long: `Run an unmodified Ryu application under the same load three times: on os-ken with its own server
(eventlet, the faster of its two), on Holdfast with one controller, and on Holdfast with three, each of which
executes every event. Holdfast's switches have an agent. Log messages of applications below warning are dropped.

It needs a Python with os-ken, greenlet, eventlet, Routes and WebOb, and the sources of Ryu for ryu.app.*. "make test"
installs both, in .venv and in the user's cache folder: these are the defaults of --python and --path.`,
		Example: `  holdfast bench ryu --json
  holdfast bench ryu --python /opt/venv/bin/python --path /opt/ryu-4.34 --app ryu.app.simple_switch_13`,
	}
	f := cmd.Flags()
	f.StringVar(&b.App, "app", "ryu.app.simple_switch_13",
		"the application: one that answers a packet-in with a flow-mod")
	pythonFlags(f, &b.Python, &b.Path)
	f.IntVar(&b.Switches, "switches", 4, "how many fake switches")
	f.IntVar(&b.Window, "window", 64, "packet-ins outstanding for each switch")
	f.IntVar(&b.MACs, "macs", 1000, "source addresses of each switch")
	durabilityFlag(cmd, &b.Durability)
	f.IntVar(&b.Seconds, "seconds", 8, "how long each measurement lasts")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

// pythonFlags are those of a benchmark that runs an application on os-ken itself.
func pythonFlags(f *pflag.FlagSet, python *string, path *[]string) {
	f.StringVar(python, "python", installedPython(), "the Python that has os-ken")
	f.StringSliceVar(path, "path", installedRyu(), "folders where Python looks for the application")
}

func benchCbenchCommand() *cobra.Command {
	var b bench.Cbench
	cmd := &cobra.Command{
		Use:   "cbench",
		Short: "The learning switch under the load of cbench, beside os-ken",
		Long: `Put a load as of cbench, the controller benchmark of the oflops project, on a learning switch: on os-ken
with its own server (eventlet, the faster of its two), and on Holdfast, where every packet-in is in the log of
a majority before it is answered. The switches are OpenFlow 1.0 and have no agent. In the mode "throughput" as
many packet-ins are under way as connections take, in "latency" one for each switch.

It needs a Python with os-ken and the sources of Ryu, as bench ryu does.`,
		Example: `  holdfast bench cbench --json
  holdfast bench cbench --replicas 1,3 --durability memory,disk --rounds 5`,
	}
	f := cmd.Flags()
	f.StringVar(&b.App, "app", "ryu.app.simple_switch", "the application of os-ken: a learning switch for OpenFlow 1.0")
	pythonFlags(f, &b.Python, &b.Path)
	f.IntVar(&b.Switches, "switches", 16, "how many fake switches")
	f.IntVar(&b.MACs, "macs", 1000, "source addresses of each switch")
	f.IntSliceVar(&b.Replicas, "replicas", []int{3}, "how many controllers: odd numbers")
	f.StringSliceVar(&b.Durability, "durability", []string{"memory", "disk"}, "memory, disk or both")
	f.IntVar(&b.Seconds, "seconds", 5, "how long each measurement lasts")
	f.IntVar(&b.Rounds, "rounds", 1, "how often each combination is measured")
	return benchmarkCommand(cmd, &b, &b.Binary)
}
