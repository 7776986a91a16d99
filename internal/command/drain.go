package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func drainCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "drain --config FILE [CONTROLLER]",
		Short: "Make a controller transfer the leadership",
		Long: `Make a controller transfer the leadership to another one, if it leads, and not lead again until it is
restarted: before maintenance, or to upgrade one controller after the other. It continues to
store the log. Without a name, the leader is drained.

A drained controller leads again only if there was no leader for more than ten election timeouts.`,
		Example: `  holdfast drain --config holdfast.yaml c1
  holdfast drain --config holdfast.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			name := ""
			if len(args) > 0 {
				name = args[0]
			} else if m, err := o.Members(cmd.Context()); err == nil {
				if name = m.Leader; name == "" {
					return errors.New("no controller leads, so there is nothing to drain: see holdfast status")
				}
			} else {
				return err
			}
			leader, err := o.Drain(cmd.Context(), name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is drained until it is restarted; %s leads\n", name, leader)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	return cmd
}
