package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

func initCommand() *cobra.Command {
	var cluster, name string
	cmd := &cobra.Command{
		Use:   "init --config FILE --name CONTROLLER",
		Short: "Begin the folder of a controller of a new cluster",
		Long: `Begin the folder of one of the first controllers of a new cluster: once for each, with the same
cluster file, before holdfast serve starts it for the first time.

It is a step of its own because a controller that has lost its folder must not begin another one
while the others run: it has forgotten what they count on, and events or commands could be lost.
Such a controller comes back by holdfast member replace.`,
		Example: `  holdfast init  --config holdfast.yaml --name c1
  holdfast serve --config holdfast.yaml --name c1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := config.Load(cluster, applicationNames())
			if err != nil {
				return err
			}
			me, ok := s.Controller(name)
			if !ok {
				return fmt.Errorf("no controller is called %q in the cluster file; there are %v", name,
					controllerNames(s))
			}
			log, err := newLogger("warn")
			if err != nil {
				return err
			}
			if err := consensus.Found(consensusConfig(s, me, log)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is the folder of controller %s, one of %d of cluster %s\n",
				s.DataDir(me), me.Name, len(s.Controllers), s.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&name, "name", "", "the name of this controller in the cluster file")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}
