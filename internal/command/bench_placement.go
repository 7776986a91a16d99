package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchPlacementCommand() *cobra.Command {
	var b bench.Placement
	cmd := &cobra.Command{
		Use:   "placement",
		Short: "How the optimizer brings actors to their switches",
		Long: `Simulate a traffic engineering application on many controllers, as in figure 10 of the Beehive paper. The
actors that collect the statistics of switches all begin in the first group, and the optimizer moves
them. The figures are the share of the messages between actors that cross controllers: before, while
actors move, after that, and with the ideal placement. Ledgers, directory, moves and optimizer are the
real ones; the consensus, the network and time are simulated.`,
		Example: `  holdfast bench placement --json
  holdfast bench placement --controllers 10 --switches 50`,
	}
	cmd.Flags().IntVar(&b.Controllers, "controllers", 40, "each leads a group")
	cmd.Flags().IntVar(&b.Switches, "switches", 400, "divided evenly among the groups")
	cmd.Flags().IntVar(&b.Flows, "flows", 100, "of each switch; one in ten becomes an elephant")
	cmd.Flags().IntVar(&b.Windows, "windows", 40, "windows of the optimizer")
	return benchmarkCommand(cmd, &b, nil)
}
