package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
)

// printReplayed shows the host of Ryu applications at each controller, if there are any.
func printReplayed(out io.Writer, answers []controller.Answer) error {
	replayed := slices.DeleteFunc(slices.Clone(answers),
		func(a controller.Answer) bool { return a.Status == nil || a.Status.Replayed == nil })
	if len(replayed) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nRYU AT\tSTATE\tINPUTS\tEXECUTED\tLOGGED\tHISTORY\tCHECKPOINT\tRESTARTS\tOS-KEN")
	for _, a := range replayed {
		h := a.Status.Replayed
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.1f MB\t%s\t%d\t%s\n", a.Name, h.State, h.Inputs, h.Executed, h.Logged,
			float64(h.HistoryBytes)/(1<<20), number(h.Checkpoint), h.Restarts, dash(h.OSKen))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printUnloaded(out, replayed)
	for _, a := range replayed {
		h := a.Status.Replayed
		if h.Diverged != 0 {
			fmt.Fprintf(out, "%s: its applications did something else than the log says at input %d, even after a "+
				"replay: one of them is not deterministic, or its code was changed since this controller began; "+
				"its log says more\n", a.Name, h.Diverged)
		}
		if h.LastEnd != "" && h.Failure == "" {
			fmt.Fprintf(out, "%s: its host ended last: %s; its log says more\n", a.Name, h.LastEnd)
		}
		if h.State == "other applications" {
			fmt.Fprintf(out, "%s: its cluster file, Python, os-ken or application files are others than the leader's, "+
				"so it executes nothing: make them equal and restart it; the log's are %s\n", a.Name, h.Identity)
		}
		if h.NoCheckpoint != "" {
			fmt.Fprintf(out, "%s: no checkpoint, so that it is brought up to date by replay alone: %s\n", a.Name,
				h.NoCheckpoint)
		}
	}
	return nil
}

// printUnloaded says once why applications cannot be loaded, and at which controllers.
func printUnloaded(out io.Writer, replayed []controller.Answer) {
	at := map[string][]string{}
	next := map[string]time.Time{}
	var reasons []string
	for _, a := range replayed {
		why := a.Status.Replayed.Failure
		if why == "" {
			continue
		}
		if at[why] == nil {
			reasons = append(reasons, why)
		}
		at[why] = append(at[why], a.Name)
		if again := a.Status.Replayed.NextAttempt; next[why].IsZero() || again.Before(next[why]) {
			next[why] = again
		}
	}
	for _, why := range reasons {
		fmt.Fprintf(out, "%s: the applications cannot be loaded: %s; correct that, and restart the controller if you "+
			"changed a file; the log has the traceback; the next attempt is at %s\n",
			strings.Join(at[why], ", "), why, next[why].Local().Format(time.TimeOnly))
	}
}

// number prints 0 as nothing.
func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
