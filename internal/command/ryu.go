package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/ryu"
)

func ryuCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ryu",
		Short: "Prepare a machine for Ryu applications",
		Long: `Prepare a machine for applications of Ryu, os-ken or Faucet, which holdfast run and holdfast serve
then run unmodified.`,
		Example: `  holdfast ryu install /opt/ryu`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ryuInstallCommand())
	return cmd
}

func ryuInstallCommand() *cobra.Command {
	var python string
	cmd := &cobra.Command{
		Use:   "install DIR [PACKAGE …]",
		Short: "Make a Python environment for Ryu applications",
		Long: `Make a Python environment in DIR with all that Ryu applications need: os-ken, the applications of Ryu
4.34 as ryu.app, and further packages as pip names them. Use it by --python DIR/bin/python of holdfast
run, or by ryu: {python: DIR/bin/python} in the cluster file. It needs a package index, as pip does.
On a cluster run it on every machine, with the same packages.`,
		Example: `  holdfast ryu install /opt/ryu
  holdfast run --python /opt/ryu/bin/python ryu.app.simple_switch_13
  holdfast ryu install /opt/faucet faucet==1.10.12`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ryu.Install(cmd.Context(), python, args[0], args[1:], cmd.ErrOrStderr()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "use it with --python %s/bin/python, or ryu: {python: %[1]s/bin/python}\n",
				args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&python, "python", "python3", "the Python to make it with, 3.10 or later")
	return cmd
}
