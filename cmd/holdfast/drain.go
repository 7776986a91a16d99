package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func drainCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "drain --config FILE [CONTROLLER]",
		Short: "Make a controller give the leadership away",
		Long: `Make a controller give the leadership away, if it has it, and leave it to the others until it is
restarted: before maintenance, or an upgrade of one controller after the other. It goes on to
store the log. Without a name it is the controller that leads.

If nobody has led for more than ten election timeouts, a drained controller does all the same.`,
		Example: `  holdfast drain --config holdfast.yaml c1
  holdfast drain --config holdfast.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := newClient(file)
			if err != nil {
				return err
			}
			defer o.Close()
			name := ""
			if len(args) > 0 {
				name = args[0]
			} else if m, err := o.Members(cmd.Context()); err == nil {
				name = m.Leader
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
