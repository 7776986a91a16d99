package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/process"
)

func regroupCommand() *cobra.Command {
	var file, name string
	cmd := &cobra.Command{
		Use:   "regroup --config FILE --name CONTROLLER",
		Short: "Change a controller from groups: 1 to groups: per-controller",
		Long: `Change the folder of a controller that does not run, from one group to several, without losing anything.
First write groups: per-controller, and replication if wanted, into the cluster file on all machines. Then,
for one controller after the other: stop it, run this command, and start it again.

The only group becomes group 1: it keeps its log, switches, applications, and what waits. The other groups
are new, and get switches that connect for the first time. Controllers that are regrouped and those that
are not do not work together: the cluster works as before until less than a majority is left, and again
when a majority is regrouped. Do not change the members of the cluster meanwhile.

A command that was interrupted can be repeated.`,
		Example: `  holdfast regroup --config holdfast.yaml --name c1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadCluster(file)
			if err != nil {
				return err
			}
			log, err := newLogger("warn")
			if err != nil {
				return err
			}
			switch err := process.Regroup(s, name, log); {
			case errors.Is(err, consensus.ErrSeveral):
				_, err = fmt.Fprintln(cmd.OutOrStdout(), name, "has several groups already")
				return err
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has several groups now; start it with holdfast serve\n", name)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&name, "name", "", "the name of this controller in the cluster file")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}
