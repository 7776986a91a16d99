package command

import (
	"fmt"
	"io"
	"path"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
)

func matrixCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "matrix --config FILE",
		Short: "Show how many messages of actors the controllers exchange",
		Long: `Show how many messages go from the actors at each controller to the actors at each other one, and of
those that go from one group to another, which types there are, the most frequent first. Switches
are actors at the controller that is their master. What controllers send to replicate logs is not counted.

Each group is counted by its leader, since that leads the group.`,
		Example: `  holdfast matrix --config holdfast.yaml
  holdfast matrix --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, file, asJSON, (*client.Client).Matrix, printMatrix)
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printMatrix(out io.Writer, m controller.Matrix) error {
	printAsked(out, m.By, m.Controllers, m.Leaderless)
	cells := map[[2]string]uint64{}
	for _, c := range m.Cells {
		cells[[2]string{c.From, c.To}] = c.Messages
	}
	var names []string
	for _, c := range m.Controllers {
		names = append(names, c.Name)
	}
	for _, c := range m.Cells {
		if c.From == "" { // of groups without a known leader
			names = append(names, "")
			break
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "FROM \\ TO\t")
	for _, to := range names {
		fmt.Fprintf(w, "%s\t", dash(to))
	}
	fmt.Fprintln(w)
	for _, from := range names {
		fmt.Fprintf(w, "%s\t", dash(from))
		for _, to := range names {
			fmt.Fprintf(w, "%d\t", cells[[2]string{from, to}])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil || len(m.Crossings) == 0 {
		return err
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nBETWEEN GROUPS\tFROM\tTO\tMESSAGES\tBYTES")
	for _, x := range m.Crossings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", path.Base(x.Message), application(x.From), application(x.To), x.Messages,
			x.Bytes)
	}
	return w.Flush()
}

// application names an application of actors, of which switches have none.
func application(name string) string {
	if name == "" {
		return "switches"
	}
	return name
}
