package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
)

// storeFlags are those of all commands of the store.
type storeFlags struct {
	file, namespace, as, token string
	timeout                    time.Duration
	asJSON                     bool
}

func storeCommand() *cobra.Command {
	var f storeFlags
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Read and write the consistent data store",
		Long: `Read and write tables of the consistent data store, which applications in any process share. The cluster
file has "store" among its apps, and an address "rest" for each controller. Reads and writes are
linearizable, and a write takes effect once, also if controllers die meanwhile.

A table belongs to a namespace. Its rows have columns, and a version that grows with each write. A namespace
called NAME/N, such as flows/16, is divided into N buckets, which all controllers execute if the cluster
file has groups: per-controller. A transaction there is for rows of one key, or of one bucket.`,
		Example: `  holdfast store create-table hosts mac port
  holdfast store put hosts 10.0.0.1 mac=00:00:00:00:00:01 port=7
  holdfast store get hosts 10.0.0.1
  holdfast store list hosts --prefix 10.
  holdfast store watch hosts`,
	}
	cmd.PersistentFlags().StringVar(&f.file, "config", "holdfast.yaml", "the cluster file")
	cmd.PersistentFlags().StringVar(&f.namespace, "namespace", "default", "the namespace of the table, or "+
		"NAME/N for one with N buckets")
	cmd.PersistentFlags().StringVar(&f.as, "as", "", "with TLS: whose certificate to use, which replaces {name} "+
		"in the cluster file; operator if there is no token")
	cmd.PersistentFlags().StringVar(&f.token, "token-file", "", "a file with a token, in place of a certificate; the "+
		"environment variable "+tokenVariable+" has one, too")
	cmd.PersistentFlags().DurationVar(&f.timeout, "timeout", 15*time.Second, "give up after this time")
	cmd.PersistentFlags().BoolVar(&f.asJSON, "json", false, "print JSON, with the columns in base64")
	cmd.AddCommand(storeCreate(&f), storeDrop(&f), storeGet(&f), storePut(&f), storeAdd(&f), storeDelete(&f),
		storeList(&f), storeWatch(&f), storeTables(&f), storeUpload(&f), storeRun(&f),
		storeComponents(&f), storeRemoveComponent(&f), storeApp(&f), storeShare(), storeProto())
	cmd.MarkFlagsMutuallyExclusive("as", "token-file")
	return cmd
}

// client returns a client of the namespace, to be closed.
func (f *storeFlags) client() (*client.Client, error) {
	s, err := loadCluster(f.file)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, c := range s.Controllers {
		if c.REST != "" {
			addresses = append(addresses, c.REST)
		}
	}
	if t := (client.Token{Secret: os.Getenv(tokenVariable), File: f.token}); f.as == "" && t != (client.Token{}) {
		if s.TLS != nil {
			t.CA = s.TLS.CA
		}
		return client.NewToken(f.namespace, t, addresses...)
	}
	if s.TLS != nil {
		return client.NewTLS(f.namespace, client.TLS(s.TLS.Of(cmp.Or(f.as, string(pki.Operator)))), addresses...)
	}
	return client.New(f.namespace, addresses...)
}

// do executes an op, and prints its result.
func (f *storeFlags) do(cmd *cobra.Command, o store.Op, print func(io.Writer, *store.Result) error) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	wait := tellWait(cmd.ErrOrStderr(), c, time.Second)
	defer wait.end()
	out, err := c.Do(ctx, o)
	if err != nil {
		return fmt.Errorf("store %s: %w", cmd.Name(), err)
	}
	if o.Kind == store.List && out.Results[0].Rows == nil {
		out.Results[0].Rows = []store.Row{} // none
	}
	at := listed{out.Revision, out.Revisions, &out.Results[0]}
	switch {
	case f.asJSON && o.Kind == store.List:
		return writeJSON(cmd.OutOrStdout(), at)
	case f.asJSON:
		return writeJSON(cmd.OutOrStdout(), at.Result)
	case o.Kind == store.List:
		fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: at revision %s\n", at)
	}
	return print(cmd.OutOrStdout(), at.Result)
}

// listed is what list has read, with the revision after which a watch goes on.
type listed struct {
	Revision  uint64   `json:"revision"`
	Revisions []uint64 `json:"revisions,omitempty"` // in a namespace with buckets, of each
	*store.Result
}

func (l listed) String() string {
	if len(l.Revisions) > 0 {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(l.Revisions), "[]"), " ", ",")
	}
	return fmt.Sprint(l.Revision)
}

func printVersion(w io.Writer, r *store.Result) error {
	_, err := fmt.Fprintf(w, "version %d\n", r.Version)
	return err
}

func storeCreate(f *storeFlags) *cobra.Command {
	var d store.Definition
	cmd := &cobra.Command{
		Use:   "create-table TABLE [COLUMN]...",
		Short: "Make a table",
		Long: `Make a table with these columns. Without any it has one, which is called value. With --refers-to, the
values of a column are keys of rows of another table, which get --resolve reads. The other table may be
made later.`,
		Example: `  holdfast store create-table counters
  holdfast store create-table addresses mac --refers-to hosts`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Columns = args[1:]; len(d.Columns) == 0 {
				d.Columns = []string{store.DefaultColumn}
			}
			return f.do(cmd, store.Op{Kind: store.CreateTable, Table: args[0], Definition: &d}, printVersion)
		},
	}
	cmd.Flags().StringVar(&d.RefersTo, "refers-to", "", "the table whose row keys a column contains")
	cmd.Flags().StringVar(&d.Through, "through", "", "that column; default: the first")
	return cmd
}

func storeDrop(f *storeFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "drop-table TABLE",
		Short:   "Remove a table that has no rows",
		Long:    "Remove a table. It must have no rows: delete them first.",
		Example: `  holdfast store drop-table counters`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.do(cmd, store.Op{Kind: store.DropTable, Table: args[0]}, printVersion)
		},
	}
}

func storeGet(f *storeFlags) *cobra.Command {
	var resolve bool
	cmd := &cobra.Command{
		Use:   "get TABLE KEY [COLUMN]...",
		Short: "Print a row, or some of its columns",
		Long: `Print a row with its version. The version is for --if-version of put and delete, so that nothing is
overwritten which has changed since. With --resolve, print the row to which this one refers instead, which
is in another table: both are read at once.`,
		Example: `  holdfast store get hosts 10.0.0.1 port
  holdfast store get addresses 10.0.0.1 --resolve`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := store.Op{Kind: store.Get, Table: args[0], Key: args[1], Only: args[2:]}
			if len(o.Only) == 0 {
				o.Only = nil
			}
			if resolve {
				o.Kind = store.Resolve
			}
			return f.do(cmd, o, func(w io.Writer, r *store.Result) error { return printRows(w, []store.Row{*r.Row}) })
		},
	}
	cmd.Flags().BoolVar(&resolve, "resolve", false, "print the row to which this one refers, of another table")
	return cmd
}

// condition adds the flag for a condition on the version.
func condition(cmd *cobra.Command, o *store.Op) {
	v := cmd.Flags().Uint64("if-version", 0, "only if the row has this version; 0: only if it is not there")
	cmd.PreRun = func(*cobra.Command, []string) {
		if cmd.Flags().Changed("if-version") {
			o.Condition = &store.Condition{Version: v}
		}
	}
}

func storePut(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.Put}
	var create, update bool
	cmd := &cobra.Command{
		Use:   "put TABLE KEY VALUE | put TABLE KEY COLUMN=VALUE...",
		Short: "Write a row",
		Long: `Write a row, with all of its columns. With --update, the columns that are not given stay as they are. A
VALUE that has a = needs the name of its column, as in value=a=b; one that begins with - comes after --.`,
		Example: `  holdfast store put counters boots 1
  holdfast store put hosts 10.0.0.1 port=8 --update --if-version 17`,
		Args: cobra.MinimumNArgs(3),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Table, o.Key = args[0], args[1]
			if o.Columns, err = parseColumns(args[2:]); err != nil {
				return err
			}
			switch {
			case create:
				o.Kind = store.Create
			case update:
				o.Kind = store.Update
			}
			return f.do(cmd, o, printVersion)
		},
	}
	cmd.Flags().BoolVar(&create, "create", false, "only if the row is not there")
	cmd.Flags().BoolVar(&update, "update", false, "only if the row is there, and only these columns")
	condition(cmd, &o)
	cmd.MarkFlagsMutuallyExclusive("create", "update")
	cmd.MarkFlagsMutuallyExclusive("create", "if-version")
	return cmd
}

// parseColumns reads COLUMN=VALUE…, or one VALUE.
func parseColumns(args []string) (store.Columns, error) {
	var columns store.Columns
	for _, arg := range args {
		name, value, named := strings.Cut(arg, "=")
		switch _, twice := columns.Get(name); {
		case !named && len(args) == 1:
			name, value = store.DefaultColumn, arg
		case !named:
			return nil, fmt.Errorf("%q is not COLUMN=VALUE", arg)
		case twice:
			return nil, fmt.Errorf("column %q is given twice", name)
		}
		columns = append(columns, store.Column{Name: name, Value: []byte(value)})
	}
	return columns, nil
}

func storeAdd(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.Add}
	cmd := &cobra.Command{
		Use:     "add TABLE KEY DELTA",
		Short:   "Add to a counter, and print the sum",
		Long:    "Add to a column that is a decimal number, and print the sum. A row that is not there begins with 0.",
		Example: "  holdfast store add counters boots 1\n  holdfast store add counters boots -- -1",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Table, o.Key = args[0], args[1]
			if o.Delta, err = strconv.ParseInt(args[2], 10, 64); err != nil {
				return fmt.Errorf("%q is not a number of 64 bits", args[2])
			}
			return f.do(cmd, o, func(w io.Writer, r *store.Result) error {
				_, err := fmt.Fprintln(w, r.Value)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&o.Column, "column", store.DefaultColumn, "the column that is the counter")
	return cmd
}

func storeDelete(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.Delete}
	cmd := &cobra.Command{
		Use:     "delete TABLE KEY",
		Short:   "Remove a row",
		Long:    "Remove a row that is there, with --if-version only if it has not changed since it was read.",
		Example: `  holdfast store delete hosts 10.0.0.1 --if-version 17`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Table, o.Key = args[0], args[1]
			return f.do(cmd, o, printVersion)
		},
	}
	condition(cmd, &o)
	return cmd
}

func storeList(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.List}
	cmd := &cobra.Command{
		Use:   "list TABLE",
		Short: "Print rows",
		Long: `Print the rows of a table in the order of their keys, with their versions. The revision that it tells is
for store watch --after, which then prints what has changed since.`,
		Example: `  holdfast store list hosts --prefix 10. --limit 20`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Table = args[0]
			return f.do(cmd, o, func(w io.Writer, r *store.Result) error {
				more(cmd, r)
				return printRows(w, r.Rows)
			})
		},
	}
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "only keys that begin with this")
	cmd.Flags().StringVar(&o.Start, "from", "", "only keys from this one on")
	cmd.Flags().StringVar(&o.End, "to", "", "only keys before this one")
	cmd.Flags().IntVar(&o.Limit, "limit", 100, "at most this many rows, up to 1,000")
	return cmd
}

func storeTables(f *storeFlags) *cobra.Command {
	o := store.Op{Kind: store.ListTables}
	cmd := &cobra.Command{
		Use:     "tables",
		Short:   "Print the tables of a namespace",
		Long:    "Print the tables of a namespace in the order of their names, with their columns.",
		Example: `  holdfast store tables --namespace access`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.do(cmd, o, func(w io.Writer, r *store.Result) error {
				more(cmd, r)
				return printTables(w, r)
			})
		},
	}
	cmd.Flags().StringVar(&o.Start, "from", "", "only tables from this one on")
	return cmd
}

func storeProto() *cobra.Command {
	return &cobra.Command{
		Use:     "proto",
		Short:   "Print the interface of the store, from which clients are generated",
		Long:    "Print the interface of the store, as a file of Protocol Buffers, from which clients are generated.",
		Example: `  holdfast store proto > store.proto`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), store.Proto)
			return err
		},
	}
}

// more says on stderr that a list is not complete.
func more(cmd *cobra.Command, r *store.Result) {
	if r.Next != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: there is more: repeat with --from %s\n", printable([]byte(r.Next)))
	}
}

func printRows(out io.Writer, rows []store.Row) error {
	var names []string
	for _, r := range rows {
		for _, c := range r.Columns {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "KEY\tVERSION\t%s\n", strings.Join(names, "\t"))
	for _, r := range rows {
		line := []string{printable([]byte(r.Key)), strconv.FormatUint(r.Version, 10)}
		for _, name := range names {
			value, there := r.Columns.Get(name)
			if !there {
				line = append(line, "-")
				continue
			}
			line = append(line, printable(value))
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	return w.Flush()
}

func printTables(out io.Writer, r *store.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tVERSION\tCOLUMNS\tREFERS TO")
	for _, name := range slices.Sorted(maps.Keys(r.Tables)) {
		t, refers := r.Tables[name], "-"
		if t.RefersTo != "" {
			through := t.Columns[0]
			if t.Through != "" {
				through = t.Through
			}
			refers = fmt.Sprintf("%s (by %s)", t.RefersTo, through)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", name, t.Version, strings.Join(t.Columns, " "), refers)
	}
	return w.Flush()
}

// printable returns a value as it is if it is one line of text that can be told from others; else it is quoted, as in
// Go.
func printable(b []byte) string {
	text := string(b)
	if !utf8.ValidString(text) || text == "" || text == "-" || strings.HasPrefix(text, `"`) ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
