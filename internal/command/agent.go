package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/processors"
	"github.com/holdfast-sdn/holdfast/internal/trace"
)

func agentCommand() *cobra.Command {
	var o agentOptions
	var level string
	cmd := &cobra.Command{
		Use:   "agent {--config FILE | --controllers ADDRESS,…}",
		Short: "Run the agent beside a switch",
		Long: `Run the agent beside an unmodified switch, until SIGINT or SIGTERM.

The switch connects to the agent as to its controller. The agent keeps every event until the
controllers have logged it, and passes every command on once, whichever controller leads.
An agent can serve several switches, but if it dies, unacknowledged events of all of them are lost:
run one beside each switch.

If the cluster file has tls, connections to controllers and from switches use TLS, and both sides present
a certificate. --plain-switches accepts switches on this machine over plain TCP. Without tls, the agent
listens on loopback addresses only, unless the cluster file has insecure: true, or --insecure is given.

--listen unix:PATH makes a Unix socket, without TLS. Only the user and the group of the agent, and root,
can connect there, while every user of the machine reaches a loopback address. Open vSwitch connects only
to sockets in its run directory: put a link to PATH there.`,
		Example: `  holdfast agent --config holdfast.yaml
  ovs-vsctl set-controller br0 tcp:127.0.0.1:6653

  holdfast agent --config holdfast.yaml --listen unix:/run/holdfast/s1.sock
  ln -sfn /run/holdfast/s1.sock /run/openvswitch/holdfast-s1.sock
  ovs-vsctl set-controller br0 unix:holdfast-s1.sock

  holdfast agent --listen 127.0.0.1:6633 --controllers 10.0.0.1:6653,10.0.0.2:6653,10.0.0.3:6653

  holdfast agent --config holdfast.yaml --name a1 --plain-switches`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), o, log)
		},
	}
	cmd.Flags().StringVar(&o.file, "config", "", "the cluster file, which names the controllers")
	cmd.Flags().StringSliceVar(&o.controllers, "controllers", nil,
		"addresses of all controllers, in place of a cluster file (and without TLS)")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:6653",
		"address for switches to connect to, or unix:PATH")
	cmd.Flags().StringVar(&o.name, "name", "agent", "the name that replaces {name} in tls of the cluster file")
	cmd.Flags().BoolVar(&o.plainSwitches, "plain-switches", false,
		"accept switches over plain TCP although the cluster has tls; only on a loopback address")
	cmd.Flags().StringVar(&o.metrics, "metrics", "",
		"address at which Prometheus reads /metrics, like 127.0.0.1:9653; with the TLS of the cluster file")
	cmd.Flags().BoolVar(&o.insecure, "insecure", false,
		"with --controllers: accept switches, and serve --metrics, on an address that other machines reach")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.MarkFlagsOneRequired("config", "controllers")
	cmd.MarkFlagsMutuallyExclusive("config", "controllers")
	cmd.MarkFlagsMutuallyExclusive("config", "insecure")
	return cmd
}

type agentOptions struct {
	file, listen, name string
	metrics            string
	controllers        []string
	plainSwitches      bool
	insecure           bool
}

// runAgent runs the agent until ctx ends or it fails.
func runAgent(ctx context.Context, o agentOptions, log *slog.Logger) error {
	defer processors.Follow()()
	cfg := agent.Config{Controllers: o.controllers, Logger: log}
	cluster := &config.Cluster{}
	if o.file != "" {
		var err error
		if cluster, err = loadCluster(o.file); err != nil {
			return err
		}
		for _, c := range cluster.Controllers {
			cfg.Controllers = append(cfg.Controllers, c.OpenFlow)
		}
		cfg.Heartbeat = cluster.AgentHeartbeat
	}
	if err := dialable(cfg.Controllers, false); err != nil {
		return err
	}
	var err error
	if atSocket(o.listen) {
		o.plainSwitches = true
	}
	secureSwitches := cluster.TLS != nil && !o.plainSwitches
	if cfg.Listen, err = listenForSwitches(o.listen, secureSwitches || cluster.Insecure || o.insecure); err != nil {
		return err
	}
	scrapes, err := listenForScrapes(o.metrics, cluster.TLS != nil || cluster.Insecure || o.insecure)
	if err != nil {
		return errors.Join(err, cfg.Listen.Close())
	}
	if cluster.TLS != nil {
		if scrapes, err = secureAgent(ctx, &cfg, scrapes, cluster, o); err != nil {
			return errors.Join(err, cfg.Listen.Close())
		}
	}
	if t := cluster.Tracing; t != nil {
		cfg.Tracer, err = trace.New(trace.Config{Endpoint: t.Endpoint, OneIn: t.OneIn, Role: "agent",
			Name: cmp.Or(o.name, cfg.Listen.Addr().String()), Version: controller.Release(), Logger: log})
		if err != nil {
			return errors.Join(err, cfg.Listen.Close())
		}
		defer cfg.Tracer.Close() // after the agent
	}
	log.Info("agent", "listen", cfg.Listen.Addr(), "controllers", cfg.Controllers, "tls", cluster.TLS != nil,
		"tls for switches", secureSwitches)
	a, err := agent.New(cfg)
	if err != nil {
		return errors.Join(err, cfg.Listen.Close())
	}
	return besideScrapes(ctx, scrapes, a.Metrics(), log, a.Run)
}

// secureAgent puts TLS around the agent's connections, except those from switches if they are to be plain, and returns
// the listener for scrapes with TLS.
func secureAgent(ctx context.Context, cfg *agent.Config, scrapes net.Listener, cluster *config.Cluster,
	o agentOptions) (net.Listener, error) {
	a, err := access.OfAgent(ctx, cluster, o.name, cfg.Logger)
	if err != nil {
		return scrapes, err
	}
	cfg.Dial = a.DialController
	if !o.plainSwitches {
		cfg.Listen, cfg.Admit = a.Switches(cfg.Listen), a.AdmitSwitch
	}
	if scrapes != nil {
		scrapes = a.Scrapes(scrapes)
	}
	return scrapes, nil
}

func atSocket(at string) bool {
	network, _ := address.Of(at)
	return network == "unix"
}

// dialable finds mistakes in the addresses of controllers before they are dialled in the background. With sockets, as
// for a switch, whose controller may be an agent, they may be Unix sockets.
func dialable(addresses []string, sockets bool) error {
	if len(addresses) == 0 {
		return errors.New("no controller address: write it like 127.0.0.1:6653")
	}
	for _, a := range addresses {
		if network, path := address.Of(a); sockets && network == "unix" {
			if err := checkSocket(path); err != nil {
				return fmt.Errorf("controller address %q: %w", a, err)
			}
			continue
		}
		host, port, err := net.SplitHostPort(a)
		if number, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || number == 0 {
			return fmt.Errorf("controller address %q: write it like 127.0.0.1:6653", a)
		}
	}
	return nil
}
