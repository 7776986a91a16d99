package command

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// newClient returns a client for the controllers of a cluster file. It writes to errs what it waits for.
func newClient(file string, errs io.Writer) (*client.Client, error) {
	s, err := loadCluster(file)
	if err != nil {
		return nil, err
	}
	log, err := newLogger("warn")
	if err != nil {
		return nil, err
	}
	return client.New(s, log, os.Getenv(tokenVariable), func(line string) { fmt.Fprintf(errs, "holdfast: %s\n", line) })
}

// answer asks the cluster for something, and prints what it says, as JSON or by a function of its own.
func answer[T any](cmd *cobra.Command, file string, asJSON bool, ask func(*client.Client, context.Context) (T, error),
	print func(io.Writer, T) error) error {
	c, err := newClient(file, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	said, err := ask(c, cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), said)
	}
	return print(cmd.OutOrStdout(), said)
}

// read asks for an application's tables and reads them by its own function. It warns if they may be out of date, and
// says so.
func read[V any](ctx context.Context, c *client.Client, app string, of func(iter.Seq[ledger.Row]) (V, error),
	warnings io.Writer) (v V, stale *controller.Stale, err error) {
	var t *controller.Tables
	t, err = c.Tables(ctx, app)
	if client.NotFound(err) {
		return v, nil, fmt.Errorf("%w: put it among the apps of the cluster file", err)
	}
	if err != nil {
		return v, nil, err
	}
	if t.Stale != nil {
		fmt.Fprintf(warnings, "holdfast: %s\n", outdated(t.Controller, t.Stale))
	}
	if v, err = of(slices.Values(t.Rows)); err != nil { // builds that no release tells apart may differ too
		return v, nil, fmt.Errorf("controller %s may be of another build, use the holdfast binary beside it: %w",
			t.Controller, err)
	}
	return v, t.Stale, nil
}

// outdated says that a controller knows no leader.
func outdated(name string, s *controller.Stale) string {
	return fmt.Sprintf("no controller leads that %s knows of, since %s: this is what it had committed by then", name,
		s.Since.Local().Format(time.DateTime))
}

func readTopology(ctx context.Context, c *client.Client, warnings io.Writer) (*topology.Snapshot, *controller.Stale,
	error) {
	return read(ctx, c, topology.Name, topology.Of, warnings)
}

func readRecovery(ctx context.Context, c *client.Client, warnings io.Writer) (*recovery.View, *controller.Stale,
	error) {
	return read(ctx, c, recovery.Name, recovery.Of, warnings)
}
