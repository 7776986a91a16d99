package command

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/promises"
)

// demoSuite runs the demo of the network suite.
func demoSuite(cmd *cobra.Command, groups string, between time.Duration, asJSON bool) error {
	return onStage(func(binary, dir string) error {
		stage := newStage(cmd, asJSON)
		r, err := promises.Run(cmd.Context(), promises.Config{Binary: binary, Dir: dir, Groups: groups,
			Between: between}, stage.say)
		if err != nil {
			return err
		}
		report := bench.Report{Bench: "demo suite", Figures: r.Figures,
			Setup: map[string]any{"controllers": 3, "groups": groups, "promises": r.Promises}}
		err = stage.end(report, func(out io.Writer) error { return printPromises(out, r.Promises) })
		return errors.Join(err, r.Err())
	})
}

func printPromises(out io.Writer, list []promises.Promise) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "APPLICATION\tKEPT\tPROMISE")
	for _, p := range list {
		kept := "yes"
		if !p.Kept {
			kept = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n\t\t  %s\n", p.Application, kept, p.Promise, p.Measured)
	}
	return w.Flush()
}
