package command

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/share"
)

// demoStore runs the demo of the store.
func demoStore(cmd *cobra.Command, kills int, between time.Duration, asJSON bool) error {
	return onStage(func(binary, dir string) error {
		stage := newStage(cmd, asJSON)
		stage.say("three controllers with the store; two processes in Go and one in Python write to the same tables")
		r, err := share.Run(cmd.Context(), share.Config{Binary: binary, Dir: dir, Kills: kills, Between: between},
			stage.say)
		if err != nil {
			return err
		}
		err = stage.end(shareReport(&r), func(out io.Writer) error { return printShare(out, &r) })
		return errors.Join(err, r.Err())
	})
}

func shareReport(r *share.Result) bench.Report {
	f := map[string]float64{"rows": float64(r.Rows), "sum": float64(r.Sum), "changes": float64(r.Last),
		"changes_watched": float64(r.Watched)}
	pause := time.Duration(0)
	for _, k := range r.Kills {
		pause = max(pause, k.Pause)
	}
	f["kills"], f["longest_pause_ms"] = float64(len(r.Kills)), pause.Seconds()*1000
	for _, w := range r.Writers {
		f["writes_acknowledged"] += float64(w.Acknowledged)
		f["writes_lost"] += float64(w.Lost)
		f["writes_repeated"] += float64(w.Repeated)
	}
	return bench.Report{Bench: "demo store", Figures: f, Setup: map[string]any{"controllers": 3,
		"writers": len(r.Writers)}}
}

func printShare(out io.Writer, r *share.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "process\tacknowledged\tlost\trepeated\t")
	total := 0
	for _, p := range r.Writers {
		total += p.Acknowledged
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", p.Name, p.Acknowledged, p.Lost, p.Repeated)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d writes were acknowledged, the table has %d rows, and their common sum is %d.\n"+
		"A watch was told %d of %d changes, each once and in order.\n", total, r.Rows, r.Sum, r.Watched, r.Last)
	return err
}

// storeShare is one of the processes of the demo.
func storeShare() *cobra.Command {
	return &cobra.Command{
		Use:     "share NAME ADDRESS...",
		Hidden:  true,
		Short:   "One of the processes of holdfast demo --store",
		Long:    "One of the processes of holdfast demo --store. It writes until its input ends.",
		Example: `  holdfast store share first 127.0.0.1:8080`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ended := make(chan struct{})
			go func() { // ends with the input, at the latest with the process
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				close(ended)
			}()
			return share.Write(cmd.Context(), cmd.OutOrStdout(), args[0], args[1:], ended)
		},
	}
}
