package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/bench"
)

func benchHostileCommand() *cobra.Command {
	var b bench.Hostile
	cmd := &cobra.Command{
		Use:   "hostile",
		Short: "What honest switches notice of hostile peers of all kinds",
		Long: `Run three controllers and an agent with 16 honest switches, first alone, and then beside hostile agents,
switches, controllers and clients of all kinds at once. The report has what the honest switches lost
(honest_lost), what was repeated (honest_repeated), their p99 alone and attacked, the most memory that a
process has had (rss_max_mb) and may have (budget_mb), and how many processes have ended (exits). The
command fails if something was lost or repeated, a process has ended or exceeds the budget, or p99 has
grown tenfold.`,
		Example: `  holdfast bench hostile --json
  holdfast bench hostile --seconds 1200`,
	}
	cmd.Flags().IntVar(&b.Seconds, "seconds", 20, "how long the attack lasts")
	return benchmarkCommand(cmd, &b, &b.Binary)
}
