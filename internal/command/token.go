package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
)

// tokenVariable is the environment variable with the token of who uses the command line.
const tokenVariable = "HOLDFAST_TOKEN"

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for people and scripts without a certificate",
		Long: `Make tokens for people and scripts that use the API of controllers, or applications over HTTP, without a
certificate. The file that the cluster file names under tokens has the role, the name and the hash of
each. Copy it to all controllers after a change: they read it again within a second.

A request has its token in the header "Authorization: Bearer TOKEN". Commands take it from the environment
variable ` + tokenVariable + `. A role may do what those before it may:

  viewer    reads: status, topology, tables, applications by GET
  operator  drains, moves, pins, resumes and forgets, and uses applications in any way
  admin     changes the members of the cluster
  client    uses applications over HTTP, and nothing else; for the store, see access in the cluster file`,
		Example: `  holdfast token add viewer grafana
  holdfast token list
  holdfast token remove grafana`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f tokenFlags
	cmd.PersistentFlags().StringVar(&f.config, "config", "holdfast.yaml", "the cluster file")
	cmd.PersistentFlags().StringVar(&f.file, "file", "", "the file of tokens (default: tokens of the cluster file)")
	cmd.AddCommand(tokenAddCommand(&f), tokenListCommand(&f), tokenRemoveCommand(&f))
	return cmd
}

type tokenFlags struct{ config, file string }

// path returns the file of tokens.
func (f *tokenFlags) path() (string, error) {
	if f.file != "" {
		return f.file, nil
	}
	s, err := loadCluster(f.config)
	if err == nil && s.Tokens == "" {
		err = errors.New("the cluster file names no file of tokens: add a line like tokens: /etc/holdfast/tokens, " +
			"or use --file")
	}
	if err != nil {
		return "", err
	}
	return s.Tokens, nil
}

func tokenAddCommand(f *tokenFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "add {viewer | operator | admin | client} NAME",
		Short: "Make a token and add it to the file",
		Long: `Make a token, print it, and add its hash to the file of tokens. It is printed once: nobody can read
it from the file. The name is in the audit log of controllers.`,
		Example: `  holdfast token add operator alice`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := f.path()
			if err != nil {
				return err
			}
			made, err := token.Add(file, pki.Identity{Role: pki.Role(args[0]), Name: args[1]})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), made)
			return err
		},
	}
}

func tokenListCommand(f *tokenFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "Show who has a token",
		Long:    `Show the roles and names in the file of tokens.`,
		Example: `  holdfast token list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := f.path()
			if err != nil {
				return err
			}
			list, err := token.Read(file)
			if err != nil {
				return err
			}
			slices.SortFunc(list, func(a, b token.Entry) int { return cmp.Compare(a.Name, b.Name) })
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tROLE")
			for _, e := range list {
				fmt.Fprintf(w, "%s\t%s\n", e.Name, e.Role)
			}
			return w.Flush()
		},
	}
}

func tokenRemoveCommand(f *tokenFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a token from the file",
		Long: `Remove a token from the file. When controllers have read it again, within a second, they refuse the
token, and close connections on which it is in use.`,
		Example: `  holdfast token remove alice`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := f.path()
			if err != nil {
				return err
			}
			if err := token.Remove(file, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the token of %s is removed from %s; copy the file to all "+
				"controllers\n", args[0], file)
			return err
		},
	}
}
