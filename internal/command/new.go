package command

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/starter"
)

func newCommand() *cobra.Command {
	var source string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a module with an application of your own",
		Long: `Write a folder with a Go module to begin with: an application, its tests, the program that is holdfast
with this application, a cluster file, and a README. NAME is that of the folder, the program and the
application: small letters, digits and _.

If this program was built from a folder with the source of Holdfast that is still there, or --source names
one, the module uses that. Otherwise it requires the release of this program, and go mod tidy downloads it.`,
		Example: `  holdfast new hello
  cd hello
  go run . demo`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name := filepath.Base(args[0]); slices.Contains(applicationNames(), name) {
				return fmt.Errorf("new: Holdfast has an application %q: use another name", name)
			}
			_, file, _, _ := runtime.Caller(0)
			from := starter.Find(file)
			if source != "" {
				dir, err := filepath.Abs(source)
				if err != nil {
					return err
				}
				from = &starter.Source{Dir: dir, Replace: dir}
			}
			list, err := starter.Write(args[0], controller.Release(), from)
			if err != nil {
				return fmt.Errorf("new: %w", err)
			}
			out := cmd.OutOrStdout()
			for _, name := range list {
				fmt.Fprintln(out, filepath.Join(args[0], name))
			}
			next := "go run . demo"
			if from == nil {
				next = "go mod tidy && " + next
			}
			_, err = fmt.Fprintf(out, "\ncd %s && %s    # three controllers run it, and their leader is killed\n",
				args[0], next)
			return err
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "a folder with the source of Holdfast")
	return cmd
}
