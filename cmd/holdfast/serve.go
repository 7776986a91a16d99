package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/southbound"
)

func serveCommand() *cobra.Command {
	var cluster, name, audit, level string
	var every int
	var join bool
	cmd := &cobra.Command{
		Use:   "serve --config FILE --name CONTROLLER",
		Short: "Run one controller of a cluster",
		Long: `Run one controller of a cluster, until SIGINT or SIGTERM.

All controllers of a cluster share one file; --name says which of them this is. Agents and
switches connect to every controller. One leads and is their master, the others stand
by; when it dies they elect another, and no event is lost and no command repeated.

The first controllers of a cluster get their folder once, from holdfast init. One that is new in
a running cluster starts with --join, and is added by holdfast member.`,
		Example: `  holdfast init  --config holdfast.yaml --name c1
  holdfast serve --config holdfast.yaml --name c1
  holdfast status --config holdfast.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			s, err := config.Load(cluster, applicationNames())
			if err != nil {
				return err
			}
			if every < 0 {
				return fmt.Errorf("--snapshot-every %d: use 1 or more entries, or 0 for the default", every)
			}
			return serve(cmd.Context(), s, serveOptions{name, audit, every, join}, log)
		},
	}
	cmd.Flags().StringVar(&cluster, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&name, "name", "", "the name of this controller in the cluster file")
	cmd.Flags().BoolVar(&join, "join", false, "with an empty folder: wait to be added to the running cluster by "+
		"holdfast member add or replace")
	cmd.Flags().StringVar(&audit, "audit", "", "append every event and command of the ledger to this file, as JSON "+
		"lines (slow)")
	cmd.Flags().IntVar(&every, "snapshot-every", 0, "log entries from one snapshot to the next, at most; 0 is 200,000")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func newLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}

// serveOptions are the flags of serve that concern the controller.
type serveOptions struct {
	name          string
	audit         string // file, "" for none
	snapshotEvery int    // entries, 0 for the default
	join          bool   // a member that is new in a running group
}

// serve runs the controller until ctx ends or it fails. While its disk is full it stands still.
func serve(ctx context.Context, s *config.Cluster, o serveOptions, log *slog.Logger) error {
	me, ok := s.Controller(o.name)
	if !ok {
		return fmt.Errorf("no controller is called %q in the cluster file; there are %v", o.name, controllerNames(s))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // the live heap is small; but a larger one would be out of the caches, and faulted in
	}
	log = log.With("controller", o.name)
	for {
		err := run(ctx, s, me, o, log)
		var full *disk.FullError
		if !errors.As(err, &full) || ctx.Err() != nil {
			return err
		}
		if err := awaitRoom(ctx, s, me, full, log); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// run is the controller from its start to its end.
func run(ctx context.Context, s *config.Cluster, me config.Controller, o serveOptions, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg, err := controllerConfig(ctx, s, me, o, log)
	if err != nil {
		return errors.Join(err, closeUnused(cfg))
	}
	c, err := controller.Start(cfg)
	if errors.Is(err, consensus.ErrNoLog) {
		err = fmt.Errorf("%w: holdfast init, if the cluster is new; else holdfast member replace, and serve --join",
			err)
	}
	if err != nil {
		return errors.Join(err, closeUnused(cfg))
	}
	log.Info("serving", "openflow", me.OpenFlow, "api", me.API, "peer", me.Peer, "apps", s.Apps, "durability",
		s.Durability, "tls", s.TLS != nil)
	select {
	case <-ctx.Done():
		log.Info("stopping")
		return c.Close()
	case <-c.Done():
		return c.Err()
	}
}

// controllerConfig also opens what the controller listens on and writes to.
func controllerConfig(ctx context.Context, s *config.Cluster, me config.Controller, o serveOptions,
	log *slog.Logger) (controller.Config, error) {
	cfg := controller.Config{
		Name:          me.Name,
		Names:         map[uint64]string{},
		Southbound:    southbound.Config{Logger: log},
		SwitchTimeout: s.SwitchTimeout,
		SnapshotEvery: o.snapshotEvery,
		Logger:        log,
	}
	var err error
	if cfg.Applications, err = newApplications(s); err != nil {
		return cfg, err
	}
	cfg.Consensus = consensusConfig(s, me, log)
	cfg.Consensus.Join, cfg.Consensus.Founded = o.join, true
	if cfg.Consensus.Listener, err = listen("the other controllers", me.Peer); err != nil {
		return cfg, err
	}
	for _, c := range s.Controllers {
		cfg.Names[c.ID] = c.Name
	}
	if cfg.OpenFlow, err = listen("switches and agents", me.OpenFlow); err != nil {
		return cfg, err
	}
	if cfg.API, err = listen("the API", me.API); err != nil {
		return cfg, err
	}
	if err := hostApplications(ctx, &cfg, s, me, log); err != nil {
		return cfg, err
	}
	credentials, err := secure(ctx, &cfg, s, me, log)
	if err != nil {
		return cfg, err
	}
	watchLinks(&cfg, s, credentials, log)
	if o.audit != "" {
		if cfg.Audit, err = audit.Open(o.audit); err != nil {
			return cfg, fmt.Errorf("%w; name a file that can be written with --audit", err)
		}
	}
	return cfg, nil
}

// closeUnused closes what a controller that did not start would have closed.
func closeUnused(cfg controller.Config) error {
	for _, l := range []net.Listener{cfg.Consensus.Listener, cfg.OpenFlow, cfg.API, cfg.REST} {
		if l != nil {
			l.Close()
		}
	}
	return cfg.Audit.Close()
}

// consensusConfig is that of a member but for its listener.
func consensusConfig(s *config.Cluster, me config.Controller, log *slog.Logger) consensus.Config {
	c := consensus.Config{
		Cluster:   s.Name,
		ID:        me.ID,
		Members:   map[uint64]string{},
		Dir:       s.DataDir(me),
		Fsync:     s.Durability == config.Disk,
		Heartbeat: s.Heartbeat,
		Election:  s.Election,
		Logger:    log,
	}
	for _, m := range s.Controllers {
		c.Members[m.ID] = m.Name + "@" + m.Peer
	}
	return c
}

func listen(whom, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w: free the address, or give this controller another one in the "+
			"cluster file", whom, err)
	}
	return l, nil
}

func controllerNames(s *config.Cluster) []string {
	var names []string
	for _, c := range s.Controllers {
		names = append(names, c.Name)
	}
	return names
}
