package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/store"
)

func storeWatch(f *storeFlags) *cobra.Command {
	var prefix string
	var after []uint
	var count int
	cmd := &cobra.Command{
		Use:   "watch [TABLE]",
		Short: "Print changes as they are committed",
		Long: `Print the changes of a table, or of all tables of the namespace, in order and each once, until it is
interrupted. Each line has the revision, the table, the key and the new row; with --json, it is an object. With
--after, it begins after that revision, as long as the controllers still know the changes since. In a
namespace with buckets, a line begins with BUCKET/REVISION, and --after has a revision for each bucket.`,
		Example: `  holdfast store watch hosts --prefix 10.
  holdfast store watch --after 1728 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var from []uint64
			for _, revision := range after {
				from = append(from, uint64(revision))
			}
			return f.watch(cmd, strings.Join(args, ""), prefix, from, count)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only rows whose keys begin with this")
	cmd.Flags().UintSliceVar(&after, "after", nil, "begin after this revision, which a write or list has printed")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many changes; 0: only when it is interrupted")
	return cmd
}

// watch prints the changes that a watch tells.
func (f *storeFlags) watch(cmd *cobra.Command, table, prefix string, after []uint64, count int) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	out, printed := cmd.OutOrStdout(), 0
	wait := tellWait(cmd.ErrOrStderr(), c, 3*time.Second) // controllers send something each second
	defer wait.end()
	for told, err := range c.Watch(cmd.Context(), table, prefix, after...) {
		switch refused, is := errors.AsType[*store.Error](err); {
		case is && refused.Code == store.Forgotten:
			return fmt.Errorf("store watch: %w; leave --after away to begin now", err)
		case err != nil:
			return fmt.Errorf("store watch: %w", err)
		}
		wait.answered()
		for _, change := range told.Changes {
			if err := f.printChange(out, told.Bucket, change); err != nil {
				return err
			}
			if printed++; printed == count {
				return nil
			}
		}
	}
	return nil
}

func (f *storeFlags) printChange(w io.Writer, bucket int, c store.Change) error {
	at, revision := (*int)(nil), fmt.Sprint(c.Revision)
	if store.Buckets(f.namespace) > 0 {
		at, revision = &bucket, fmt.Sprint(bucket, "/", c.Revision)
	}
	if f.asJSON {
		return json.NewEncoder(w).Encode(struct {
			Bucket *int `json:"bucket,omitempty"`
			store.Change
		}{at, c})
	}
	line := []string{revision, c.Table}
	switch {
	case c.Key != "":
		line = append(line, printable([]byte(c.Key)))
	case c.Definition != nil:
		line = append(line, "created, with the columns "+strings.Join(c.Definition.Columns, " "))
	default:
		line = append(line, "dropped")
	}
	if c.Removed && c.Key != "" {
		line = append(line, "removed")
	}
	for _, column := range c.Columns {
		line = append(line, column.Name+"="+printable(column.Value))
	}
	_, err := fmt.Fprintln(w, strings.Join(line, "  "))
	return err
}
