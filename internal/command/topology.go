package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/network/show"
)

func topologyCommand() *cobra.Command {
	var file string
	var asJSON, asDOT bool
	cmd := &cobra.Command{
		Use:   "topology --config FILE",
		Short: "Show the switches, links and hosts of the network",
		Long: `Show the network that application topology has discovered: switches that are up, the links between
them with their state and its age, and hosts at the edge. A link that works in one direction only
has an arrow. A link that is down is shown until its port has another link, or is removed.

Any controller can answer. If none leads, a line says since when, and in JSON the field stale.`,
		Example: `  holdfast topology --config holdfast.yaml
  holdfast topology --json | jq '.links[] | select(.up | not)'
  holdfast topology --dot | dot -Tsvg > network.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			s, stale, err := readTopology(cmd.Context(), o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			t, out := show.NewTopology(s), cmd.OutOrStdout()
			switch {
			case asJSON:
				return writeJSON(out, struct {
					show.Topology
					Stale *controller.Stale `json:"stale,omitempty"`
				}{*t, stale})
			case asDOT:
				return t.WriteDOT(out)
			}
			return t.WriteText(out, time.Now())
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&asDOT, "dot", false, "print a graph for Graphviz")
	cmd.MarkFlagsMutuallyExclusive("json", "dot")
	return cmd
}
