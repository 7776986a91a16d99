package command

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
)

func moveCommand() *cobra.Command {
	var file, dpid string
	var at keyFlags
	var pin bool
	cmd := &cobra.Command{
		Use:   "move --config FILE [APPLICATION | --switch DPID] GROUP",
		Short: "Move a switch, or an actor of an application, to another group",
		Long: `Move an actor of an application to another group, while the network runs: its cells and timers, and
what is on its way to it and from it. Without a key it is the actor that has all cells which
belong to no switch and to no key. With --switch, move a switch, with all that applications have there.
The leader of the other group becomes its master.

The command waits until the directory says that the move is complete. It prints how long that took, and how long the
actor paused: it works where it lived while its state is copied. If the actor cannot move, or somebody
calls the move off by asking for another one, the command says why.

Nothing is lost, repeated or reordered, whichever controller dies meanwhile. A switch behind an agent, or one
with bundles, stays in its epoch. Other switches begin a new one, as they do with every new master.`,
		Example: `  holdfast move topology 2
  holdfast move counters 3 --key 10.0.0.1
  holdfast move counters 3 --key 10.0.0.1 --pin
  holdfast move --switch 00000000000000a1 2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dpid != "" {
				return cobra.ExactArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := at.key()
			if err != nil {
				return err
			}
			m := controller.Move{Key: key, Pin: pin}
			if dpid == "" {
				m.App, args = args[0], args[1:]
			} else if id, err := parseDatapathID(dpid); err != nil {
				return err
			} else {
				m.Switch = id.String()
			}
			group, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("group %q is not a number; holdfast status lists the groups", args[0])
			}
			m.Group = group
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			moved, err := c.Move(cmd.Context(), m)
			if err != nil {
				return err
			}
			how := fmt.Sprintf("moved in %.1f ms", moved.TookMs)
			switch {
			case moved.TookMs == 0:
				how = "where it has lived before"
			case moved.PausedMs > 0:
				how += fmt.Sprintf(", of which it paused for at most %.1f ms", moved.PausedMs)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s lives in group %d (version %d), %s\n", moved.Actor, moved.Group,
				moved.Version, how)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&dpid, "switch", "", "the datapath id of the switch to move, instead of an actor")
	at.add(cmd, "switch")
	cmd.Flags().BoolVar(&pin, "pin", false, "pin the actor there, so that the optimizer does not move it")
	cmd.MarkFlagsMutuallyExclusive("pin", "switch")
	return cmd
}
