package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
)

func switchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Forget switches that are gone for good",
		Long: `Change what the cluster knows of its switches. holdfast status lists them, and holdfast move --switch
gives one to another group.`,
		Example: `  holdfast switch forget 00000000000000a1`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(switchForgetCommand())
	return cmd
}

func switchForgetCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "forget --config FILE DPID",
		Short: "Forget a switch that is gone for good",
		Long: `Forget a switch that is gone for good: its epochs and commands, what applications have there, and what
they know of it. The switch must be down; while it is connected, it is not forgotten. If it connects again,
it is a new switch, and an agent that held events of it discards them.

With switch_expiry_minutes in the cluster file, switches are forgotten by themselves.`,
		Example: `  holdfast switch forget 00000000000000a1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseDatapathID(args[0])
			if err != nil {
				return err
			}
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			forgotten, err := c.Forget(cmd.Context(), controller.Forget{Switch: id.String()})
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), forgotten)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "switch %s is forgotten\n", forgotten.Switch)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
