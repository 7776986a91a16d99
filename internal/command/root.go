package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of a command that Ctrl-C has ended
)

// Root is the command holdfast, with its subcommands and flags.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A fault-tolerant SDN controller that loses and repeats nothing",
		Long: `Holdfast runs applications that control a network of OpenFlow switches. It runs them on
several controllers, and when one of those dies, hangs or is cut off, no event of
a switch is lost and no command to a switch is repeated.`,
		Example: `  holdfast demo
  holdfast config check holdfast.yaml
  holdfast init --config holdfast.yaml --name c1
  holdfast serve --config holdfast.yaml --name c1`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		actorsCommand(),
		agentCommand(),
		configCommand(),
		benchCommand(),
		demoCommand(),
		drainCommand(),
		healthCommand(),
		moveCommand(),
		pinCommand(),
		resumeCommand(),
		placementCommand(),
		initCommand(),
		regroupCommand(),
		linksCommand(),
		matrixCommand(),
		memberCommand(),
		newCommand(),
		pathsCommand(),
		pkiCommand(),
		runCommand(),
		ryuCommand(),
		sentryCommand(),
		serveCommand(),
		simCommand(),
		statusCommand(),
		topCommand(),
		storeCommand(),
		switchCommand(),
		tokenCommand(),
		topologyCommand(),
		versionCommand(),
		vnetCommand(),
		vswitchCommand(),
	)
	return root
}

// detailed is an error with details for the lines below it, such as a traceback.
type detailed interface {
	error
	Details() string
}

// execute runs the command line and returns the exit code. What goes wrong becomes one line on
// stderr: the reason, and what to do. Details stand below it: a traceback, or the ends of the logs of
// child processes. Every command ends, and clears up, when ctx does.
func execute(ctx context.Context, root *cobra.Command, args []string, stderr io.Writer) int {
	started := false // errors before a command has started are about how it was called
	observeRuns(root, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if started && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(stderr, "holdfast: interrupted (%v)\n", err)
		return exitInterrupted
	}
	if started {
		fmt.Fprintf(stderr, "holdfast: %s\n", strings.TrimSpace(err.Error()))
		if d, ok := errors.AsType[detailed](err); ok && d.Details() != "" {
			fmt.Fprintf(stderr, "\n%s\n", d.Details())
		}
		return exitFailed
	}
	line := strings.Join(strings.Fields(err.Error()), " ") // cobra's suggestions span several
	fmt.Fprintf(stderr, "holdfast: %s (see `%s --help`)\n", line, cmd.CommandPath())
	return exitUsage
}

// observeRuns sets started when cmd or a command below it runs.
func observeRuns(cmd *cobra.Command, started *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return run(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		observeRuns(c, started)
	}
}

// writeJSON prints what commands print with --json.
func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
