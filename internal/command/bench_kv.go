package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchKVCommand() *cobra.Command {
	var b bench.KV
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "Throughput and latency of the key-value store",
		Long: `Run the application kv, as in figure 7 of the Beehive paper. First an application puts values in
batches, on one group of 1, 3 and 5 replicas. Then clients put and get values over HTTP, each with a key
of its own, at three controllers that lead a group each: "local" requests go to the controller that leads
the group of the key, "remote" ones to another. In figures with "_paced" each client pauses between two
requests. The clients and the controllers share the machine, and without a pause they use all of it.`,
		Example: `  holdfast bench kv --json
  holdfast bench kv --replication 3 --batches 1024 --clients 20`,
	}
	cmd.Flags().IntSliceVar(&b.Batches, "batches", []int{128, 1024, 8192}, "messages that are sent at once")
	cmd.Flags().IntSliceVar(&b.Replication, "replication", []int{1, 3, 5}, "replicas of the group: odd numbers")
	cmd.Flags().IntVar(&b.Clients, "clients", 80, "clients over HTTP")
	cmd.Flags().IntVar(&b.PauseMS, "pause-ms", 100, "the average pause of a client between two requests")
	cmd.Flags().IntVar(&b.Seconds, "seconds", 3, "how long each measurement lasts")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}

func benchActorsCommand() *cobra.Command {
	var b bench.Actors
	cmd := &cobra.Command{
		Use:   "actors",
		Short: "How fast new actors are made, and what they cost",
		Long: `Run three controllers and an application that sends messages to keys that nobody has, in batches, as in
figure 5 of the Beehive paper. On one group a new actor is no more than its cells. With a group for each
controller, the directory assigns each new actor to a group. With --live so many actors are made, and the
report has the memory of the controllers, their processor time while nothing happens, the snapshots, and
the time of a failover, with the actors and without them.`,
		Example: `  holdfast bench actors --json
  holdfast bench actors --live 10000
  holdfast bench actors --batches 1024 --actors 65536`,
	}
	cmd.Flags().IntSliceVar(&b.Batches, "batches", []int{1, 8, 64, 512, 1024, 2048, 4096, 8192},
		"messages that are sent at once")
	cmd.Flags().IntVar(&b.Actors, "actors", 8192, "how many actors are made with each size of batches")
	cmd.Flags().IntVar(&b.Live, "live", 0, "make so many actors, and measure what they cost instead")
	durabilityFlag(cmd, &b.Durability)
	return benchmarkCommand(cmd, &b, &b.Binary)
}
