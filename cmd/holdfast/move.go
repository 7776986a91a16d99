package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/ledger"
)

func moveCommand() *cobra.Command {
	var file, text string
	var number uint64
	cmd := &cobra.Command{
		Use:   "move --config FILE APPLICATION GROUP",
		Short: "Move an actor of an application to another group",
		Long: `Move an actor of an application to another group, while the network runs: its cells and timers, and
what is on its way to it and from it. Without a key it is the actor that has all cells which
belong to no switch and to no key. What belongs to a switch lives with the switch.

Nothing is lost, repeated or reordered, whichever controller dies meanwhile.`,
		Example: `  holdfast move topology 2
  holdfast move counters 3 --key 10.0.0.1`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			group, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil {
				return fmt.Errorf("group %q is not a number; holdfast status lists the groups", args[1])
			}
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			moved, err := c.Move(cmd.Context(), controller.Move{App: args[0], Key: ledger.Key{A: number, S: text},
				Group: group})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s lives in group %d (version %d)\n", moved.Actor, moved.Group,
				moved.Version)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&text, "key", "", "the key of the actor, if it is a text")
	cmd.Flags().Uint64Var(&number, "number", 0, "the key of the actor, if it is a number")
	cmd.MarkFlagsMutuallyExclusive("key", "number")
	return cmd
}
