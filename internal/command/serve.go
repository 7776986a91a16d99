package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/collector"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/exitorder"
	"github.com/holdfast-sdn/holdfast/internal/processors"
	"github.com/holdfast-sdn/holdfast/ledger"
)

func serveCommand() *cobra.Command {
	var cfg process.Config
	var file, level string
	cmd := &cobra.Command{
		Use:   "serve --config FILE --name CONTROLLER",
		Short: "Run one controller of a cluster",
		Long: `Run one controller of a cluster, until SIGINT or SIGTERM.

All controllers of a cluster share one file; --name says which of them this is. Agents and
switches connect to every controller. One controller leads and is their master; the others are
standbys. When the leader dies they elect another: no event is lost and no command is repeated.

On SIGHUP it has the files that the cluster file lists under ryu: files read again. Certificates, tokens and the list
of denied certificates are read when they change, without a signal. The cluster file is read at a start.

Run holdfast init once for each of the first controllers of a cluster. A controller that is added
later starts with --join, and becomes a member by holdfast member.`,
		Example: `  holdfast init  --config holdfast.yaml --name c1
  holdfast serve --config holdfast.yaml --name c1
  holdfast status --config holdfast.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Logger, err = newLogger(level); err != nil {
				return err
			}
			if cfg.Cluster, err = loadCluster(file); err != nil {
				return err
			}
			if cfg.SnapshotEvery < 0 {
				return fmt.Errorf("--snapshot-every %d: use 1 or more entries, or 0 for the default", cfg.SnapshotEvery)
			}
			return serve(cmd.Context(), cfg)
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&cfg.Name, "name", "", "the name of this controller in the cluster file")
	cmd.Flags().BoolVar(&cfg.Join, "join", false, "with an empty folder: wait to be added to the running cluster by "+
		"holdfast member add or replace")
	cmd.Flags().StringVar(&cfg.Audit, "audit", "",
		"append every event and command of the ledger to this file, as JSON lines (slow)")
	cmd.Flags().IntVar(&cfg.SnapshotEvery, "snapshot-every", 0,
		"log entries from one snapshot to the next, at most; 0 is 200,000")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

// Service is a controller of a cluster, for a program with a command line of its own.
type Service struct {
	File, Name string
	Join       bool
	Logger     *slog.Logger // slog.Default if nil
	Own        []func() *app.App
}

// Serve runs the controller until ctx ends.
func Serve(ctx context.Context, s Service) (err error) {
	if err := include(s.Own); err != nil {
		return err
	}
	cfg := process.Config{Name: s.Name, Join: s.Join, Logger: cmp.Or(s.Logger, slog.Default())}
	if cfg.Cluster, err = loadCluster(s.File); err != nil {
		return err
	}
	return serve(ctx, cfg)
}

// serve runs a controller with the applications of this program.
func serve(ctx context.Context, cfg process.Config) error {
	collector.Tune()
	defer processors.Follow()()
	if err := exitorder.ConnectionsFirst(); err != nil {
		cfg.Logger.Warn("if this controller dies, the others will learn it later", "err", err)
	}
	cfg.Applications = func() ([]ledger.Application, error) { return newApplications(cfg.Cluster) }
	cfg.Duty = watchLinks(cfg.Cluster, cfg.Logger)
	cfg.Network, cfg.Store = showNetwork(cfg.Cluster), showStore(cfg.Cluster)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	cfg.Reload = reload
	return process.Run(ctx, cfg)
}

func newLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	return slog.New(newLogfmt(stderr(), l)), nil
}

// loadCluster reads a cluster file, which may name the applications of this binary.
func loadCluster(file string) (*config.Cluster, error) { return config.Load(file, applicationNames()) }
