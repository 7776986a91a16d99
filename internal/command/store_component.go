package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/store"
)

func storeUpload(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.Upload}
	cmd := &cobra.Command{
		Use:   "upload FILE",
		Short: "Make or replace a component, which runs beside the data",
		Long: `Make or replace a component: a program in a subset of Starlark, a dialect of Python, with a function
run(args). It reads and writes rows with store.get, store.put and so on, as one transaction, and saves the round
trips. It is bounded in steps and memory. docs/design/store.md says what it can do. Its name is that of the file,
without the ending.`,
		Example: `  holdfast store create-table visits
  cat > visit.star <<'END'
  def run(args):
      return {"visits": str(store.add("visits", args["who"]))}
  END
  holdfast store upload visit.star
  holdfast store run visit who=alice`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("store upload: %w", err)
			}
			o.Source = string(source)
			if o.Component == "" {
				o.Component = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
			}
			return f.do(cmd, o, printVersion)
		},
	}
	cmd.Flags().StringVar(&o.Component, "name", "", "the name of the component; default: that of the file")
	condition(cmd, &o)
	return cmd
}

func storeRun(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.Run}
	cmd := &cobra.Command{
		Use:     "run COMPONENT [NAME=VALUE]...",
		Short:   "Run a component",
		Long:    "Run a component with arguments, as one transaction, and print what it returns.",
		Example: `  holdfast store run robin pool=web`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Component = args[0]
			if o.Columns, err = parseColumns(args[1:]); err != nil {
				return err
			}
			return f.do(cmd, o, printReturned)
		},
	}
	cmd.Flags().StringVar(&o.Key, "key", "", "in a namespace with buckets: run in the bucket of rows with this key")
	return cmd
}

// printReturned prints what a component has returned.
func printReturned(out io.Writer, r *store.Result) error {
	rows := r.Rows
	if r.Row != nil {
		rows = []store.Row{*r.Row}
	}
	for _, row := range rows {
		var line []string
		for _, c := range row.Columns {
			line = append(line, c.Name+"="+printable(c.Value))
		}
		if _, err := fmt.Fprintln(out, strings.Join(line, "  ")); err != nil {
			return err
		}
	}
	return nil
}

func storeComponents(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.ListComponents}
	cmd := &cobra.Command{
		Use:     "components",
		Short:   "Print the components of a namespace",
		Long:    "Print the components of a namespace; with --json, with their sources.",
		Example: `  holdfast store components --namespace access`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.do(cmd, o, func(out io.Writer, r *store.Result) error {
				more(cmd, r)
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "COMPONENT\tVERSION\tBYTES")
				for _, name := range slices.Sorted(maps.Keys(r.Components)) {
					c := r.Components[name]
					fmt.Fprintf(w, "%s\t%d\t%d\n", name, c.Version, len(c.Source))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().StringVar(&o.Start, "from", "", "only components from this one on")
	return cmd
}

func storeRemoveComponent(f *storeFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "remove-component COMPONENT",
		Short:   "Remove a component",
		Long:    "Remove a component. What it has written stays.",
		Example: `  holdfast store remove-component robin`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.do(cmd, store.Op{Kind: store.RemoveComponent, Component: args[0]}, printVersion)
		},
	}
}
