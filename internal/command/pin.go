package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
)

func pinCommand() *cobra.Command {
	var file string
	var at keyFlags
	var release bool
	cmd := &cobra.Command{
		Use:   "pin --config FILE APPLICATION",
		Short: "Pin an actor of an application to its group",
		Long: `Pin an actor of an application to the group in which it lives, or release it. The optimizer does not
move an actor that is pinned; holdfast move does. Without a key it is the actor that has all cells
which belong to no switch and to no key. Pins are kept when controllers are restarted.`,
		Example: `  holdfast pin topology
  holdfast pin counters --key 10.0.0.1 --release`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := at.key()
			if err != nil {
				return err
			}
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			p, err := c.Pin(cmd.Context(), controller.Pin{App: args[0], Key: key, Pinned: !release})
			if err != nil {
				return err
			}
			state := "not pinned"
			if p.Pinned {
				state = "pinned"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s lives in group %d, and is %s\n", p.Actor, p.Group, state)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&release, "release", false, "release it")
	at.add(cmd)
	return cmd
}
