package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

func healthCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "health --config FILE CONTROLLER",
		Short: "Check that one controller answers and knows a leader",
		Long: `Check that one controller answers and knows a leader, for health checks of containers and load balancers.
If not, the exit code is 1 and the error says why. Do not restart a controller because of this alone: without
a majority of the controllers none knows a leader, and a restart does not change that.

The same answer has the health check of gRPC at the API.`,
		Example: `  holdfast health --config holdfast.yaml c1
  podman run --health-cmd '["/usr/bin/holdfast","health","--config","/etc/holdfast/holdfast.yaml","c1"]' …`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			s, err := o.Controller(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if s.Leader == "" {
				return fmt.Errorf("controller %s knows no leader: a majority of the controllers must run and reach "+
					"each other", s.Name)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s; %s leads\n", s.Name, s.Role, s.Leader)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	return cmd
}
