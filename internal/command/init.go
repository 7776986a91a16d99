package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
)

func initCommand() *cobra.Command {
	var file, name string
	cmd := &cobra.Command{
		Use:   "init --config FILE --name CONTROLLER",
		Short: "Create the folder of a controller of a new cluster",
		Long: `Create the folder of one of the first controllers of a new cluster: once for each, with the same
cluster file, before holdfast serve starts it for the first time.

It is a step of its own because a controller that has lost its folder must not start with an empty one
while the others run: it has forgotten what it acknowledged and whom it voted for, so events or commands
could be lost. Use holdfast member replace for such a controller.

Without tls in the cluster file it also makes the key by which the controllers know each other, unless there
is one: FOLDER/cluster-key, where FOLDER is data in the cluster file. Copy the key of the first machine to
the same place on all others.`,
		Example: `  holdfast init  --config holdfast.yaml --name c1
  holdfast serve --config holdfast.yaml --name c1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadCluster(file)
			if err != nil {
				return err
			}
			log, err := newLogger("warn")
			if err != nil {
				return err
			}
			if err := process.Found(s, name, log); err != nil {
				return err
			}
			me, err := s.Named(name)
			if err != nil {
				return err
			}
			if s.TLS == nil {
				if err := makeKey(cmd.OutOrStdout(), s.Data); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is the folder of controller %s, one of %d of cluster %s\n",
				s.DataDir(me), me.Name, len(s.Controllers), s.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&name, "name", "", "the name of this controller in the cluster file")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

// makeKey makes the key of a cluster without TLS, if there is none.
func makeKey(w io.Writer, dir string) error {
	file, made, err := clusterkey.Make(dir)
	if made {
		_, err = fmt.Fprintf(w, "%s is the key of the cluster: copy it to the same place on the other machines\n", file)
	}
	return err
}
