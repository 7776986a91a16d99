package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/collector"
	"github.com/holdfast-sdn/holdfast/internal/processors"
	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/commit"
)

func benchLatencyCommand() *cobra.Command {
	var b bench.Latency
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Time from a packet-in to the flow-mod that answers it, one at a time",
		Long: `Run controllers with the learning application and an agent, and a fake switch that sends the
next packet-in when the last one is answered. The event and its outcome are in the log of a
majority before the answer is sent. "raft_commit_us_p50" is what one commit of as many members
costs that execute nothing.`,
		Example: `  holdfast bench latency --replicas 1,3 --durability memory,disk --json`,
	}
	cmd.Flags().IntSliceVar(&b.Replicas, "replicas", []int{1, 3}, "how many controllers: odd numbers")
	durabilitiesFlag(cmd, &b.Durability)
	cmd.Flags().IntVar(&b.Seconds, "seconds", 5, "how long each measurement lasts")
	cmd.Flags().IntVar(&b.Rounds, "rounds", 1, "how often each combination is measured")
	return benchmarkCommand(cmd, &b, &b.Binary)
}

// benchCommitMember is one of the processes of bench latency.
func benchCommitMember() *cobra.Command {
	return partOfBench(bench.CommitMember, "latency", "It commits entries until its input ends.",
		`{"ID": 1, "Addresses": ["127.0.0.1:7001"], "Duration": 1000000000}`,
		func(ctx context.Context, cfg commit.Config, out io.Writer) error {
			collector.Tune() // as a controller
			defer processors.Follow()()
			return commit.Run(ctx, cfg, out)
		})
}

// partOfBench is a command that a benchmark runs in a process of its own, until its input ends. Its argument is a
// configuration in JSON.
func partOfBench[C any](name, of, what, example string, run func(context.Context, C, io.Writer) error) *cobra.Command {
	short := "One of the processes of holdfast bench " + of
	return &cobra.Command{
		Use:     name + " CONFIG",
		Hidden:  true,
		Short:   short,
		Long:    short + ". " + what,
		Example: fmt.Sprintf("  holdfast bench %s '%s'", name, example),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg C
			if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
				return fmt.Errorf("configuration of %s: %w", name, err)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			go func() { // ends with the input, at the latest with the process
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				cancel()
			}()
			return run(ctx, cfg, cmd.OutOrStdout())
		},
	}
}
