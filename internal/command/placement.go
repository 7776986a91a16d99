package command

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
)

func placementCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "placement --config FILE",
		Short: "Show which actors the optimizer has moved, and why",
		Long: `Show the last actors that the optimizer of placement has moved to another group, and those that
another group would suit better, with the reason why they stay. A verdict is one of

  waits      it has not preferred that group for enough windows
  cools      it has moved a short time ago
  overload   the group would have more to handle than the limit
  too many   enough other actors moved in this window
  no longer  another actor that moved in this window has come nearer

The optimizer runs at the leader of the system group, and begins again when that changes. The section
placement of the cluster file switches it on.`,
		Example: `  holdfast placement --config holdfast.yaml
  holdfast placement --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, file, asJSON, (*client.Client).Placement, printOptimizer)
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printOptimizer(out io.Writer, p controller.Placement) error {
	if !p.Optimizes {
		_, err := fmt.Fprintln(out, "the optimizer is off, or has not begun yet: see placement in the cluster file")
		return err
	}
	printAsked(out, p.By, p.Asked, nil)
	fmt.Fprintf(out, "%s has looked at %d windows of %gs. An actor moves if that saves %g messages/s in %d windows, "+
		"%gs after its last move, to groups that then handle at most %g messages/s.\n", p.By, p.Looked, p.WindowS,
		p.Threshold, p.Windows, p.CooldownS, p.Load)
	if all := p.Local + p.Crossing; all > 0 {
		fmt.Fprintf(out, "In the last window %.1f of %.1f messages/s went between groups (%.1f %%).\n", p.Crossing, all,
			100*p.Crossing/all)
	}
	if p.Failed > 0 {
		fmt.Fprintf(out, "%d of %d moves have failed.\n", p.Failed, p.Tried)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(p.Moved) > 0 {
		fmt.Fprintln(w, "\nMOVED\tACTOR\tFROM\tTO\tSAVES/S\tOF/S\tRESULT")
	}
	for _, m := range p.Moved {
		result := "moved"
		if m.Error != "" {
			result = m.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f\t%.1f\t%s\n", m.Time.Format(time.DateTime), brief(m.Actor), m.From, m.To,
			m.Saves, m.Exchanged, result)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Candidates) > 0 {
		fmt.Fprintln(w, "\nSTAYS\tGROUP\tBETTER\tSAVES/S\tOF/S\tWINDOWS\tVERDICT")
	}
	for _, d := range p.Candidates {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%d\t%s\n", brief(d.Actor), d.From, d.To, d.Saves, d.Exchanged,
			d.Windows, d.Verdict)
	}
	return w.Flush()
}
