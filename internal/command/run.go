package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// runOptions are the flags of run, which are ryu-manager's but for python.
type runOptions struct {
	applications, options []string
	ofpHost, wsapiHost    string
	ofpPort, wsapiPort    uint16
	wsapiAsked            bool // the port was named
	python                string
	verbose               bool
	logFile, pidFile      string
}

// refusedOptions are those of ryu-manager that are not taken, and why.
var refusedOptions = map[string]string{
	"ofp-ssl-listen-port": "for switches over TLS use holdfast serve, with tls in the cluster file",
	"ctl-privkey":         "for switches over TLS use holdfast serve, with tls in the cluster file",
	"ctl-cert":            "for switches over TLS use holdfast serve, with tls in the cluster file",
	"ca-certs":            "for switches over TLS use holdfast serve, with tls in the cluster file",
	"ofp-switch-address-list": "switches connect to Holdfast; on Open vSwitch: ovs-vsctl set-controller BRIDGE " +
		"tcp:ADDRESS:6653",
	"enable-debugger": "a debugger would stop the applications, and with them the network",
	"config-file": "options of the framework and of applications go after --, as in holdfast run app.py -- " +
		"--name=value",
	"user-flags": "options of the framework and of applications go after --, as in holdfast run app.py -- " +
		"--name=value",
	"log-config-file": "use --log-file",
	"log-dir":         "use --log-file",
	"use-syslog":      "use --log-file, or let systemd or logger read standard error",
}

func runCommand() *cobra.Command {
	var o runOptions
	var observe, explicitDrop bool
	cmd := &cobra.Command{
		Use:   "run APP [APP …] [flags] [-- OPTIONS OF APPLICATIONS]",
		Short: "Run Ryu applications on this machine, as ryu-manager does",
		Long: `Run unmodified applications of Ryu or os-ken on one machine, instead of ryu-manager:
files, or modules such as ryu.app.simple_switch_13. It needs Python with os-ken, greenlet,
Routes and WebOb (pip install). os-ken does not ship ryu.app.*: for these, put a checkout of Ryu on
PYTHONPATH. Applications may have sockets and start programs here; on a cluster they may not.

State is lost when it ends. For applications that survive the failure of a controller, list them
under apps in a cluster file and use holdfast serve.`,
		Example: `  holdfast run ryu.app.simple_switch_13
  holdfast run --observe-links --wsapi-port 8081 ryu.app.rest_topology mine.py
  ovs-vsctl set bridge br0 protocols=OpenFlow13 -- set-controller br0 tcp:127.0.0.1:6653`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			for name, why := range refusedOptions {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is not taken: %s", name, why)
				}
			}
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, o.options = args[:dash], args[dash:]
			}
			if observe {
				o.options = append(o.options, "--observe-links")
			}
			if !explicitDrop {
				o.options = append(o.options, "--noexplicit-drop")
			}
			o.applications = append(o.applications, args...)
			if len(o.applications) == 0 {
				return errors.New("no application: name a file or a module, as ryu.app.simple_switch_13")
			}
			o.wsapiAsked = cmd.Flags().Changed("wsapi-port")
			return runAlone(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.applications, "app-lists", nil, "further applications, separated by commas")
	f.StringVar(&o.ofpHost, "ofp-listen-host", "", "where switches connect; all addresses if empty")
	f.Uint16Var(&o.ofpPort, "ofp-tcp-listen-port", 6653, "the port for switches")
	f.StringVar(&o.wsapiHost, "wsapi-host", "", "where the REST interface of applications listens; all addresses "+
		"if empty")
	f.Uint16Var(&o.wsapiPort, "wsapi-port", 8080, "the port of the REST interface")
	f.BoolVar(&observe, "observe-links", false, "observe the links between switches")
	f.BoolVar(&explicitDrop, "explicit-drop", true, "drop LLDP packets explicitly")
	f.BoolVar(&o.verbose, "verbose", false, "log debug messages too")
	f.StringVar(&o.logFile, "log-file", "", "append the log to this file, and not to standard error")
	f.StringVar(&o.pidFile, "pid-file", "", "write the process id to this file")
	f.StringVar(&o.python, "python", "python3", "the Python that has os-ken")
	for name, why := range refusedOptions {
		f.String(name, "", why)
		f.Lookup(name).NoOptDefVal = "true"
		_ = f.MarkHidden(name)
	}
	return cmd
}

// runAlone runs the only controller of a cluster that is gone when it ends.
func runAlone(ctx context.Context, o runOptions) error {
	log, end, err := o.logger()
	if err != nil {
		return err
	}
	defer end()
	if o.pidFile != "" {
		if err := os.WriteFile(o.pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
			return fmt.Errorf("pid file: %w: name one that can be written with --pid-file", err)
		}
		defer os.Remove(o.pidFile)
	}
	return process.Alone(ctx, log, func(log *slog.Logger) (controller.Config, error) { return o.config(ctx, log) })
}

func (o runOptions) logger() (log *slog.Logger, end func(), err error) {
	level, to := slog.LevelInfo, os.Stderr
	if o.verbose {
		level = slog.LevelDebug
	}
	end = func() {}
	if o.logFile != "" {
		if to, err = os.OpenFile(o.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, nil, fmt.Errorf("log file: %w", err)
		}
		end = func() { to.Close() }
	}
	return slog.New(newConsole(to, level)), end, nil
}

// config also opens what the controller listens on.
func (o runOptions) config(ctx context.Context, log *slog.Logger) (controller.Config, error) {
	host := ryu.Config{Python: o.python, Applications: o.applications, Options: o.options, Cluster: "holdfast",
		LogLevel: 20, Alone: true, Logger: log}
	if o.verbose {
		host.LogLevel = 10
	}
	cfg := controller.Config{
		Name: "c1", Names: map[uint64]string{1: "c1"}, Southbound: southbound.Config{Logger: log},
		SwitchTimeout: config.DefaultSwitchTimeout, Logger: log,
		Consensus: consensus.HostConfig{Cluster: "run", ID: 1, Heartbeat: 10 * time.Millisecond,
			Election: 50 * time.Millisecond, Logger: log},
	}
	identity, err := ryu.Probe(ctx, host)
	if err != nil {
		return cfg, err
	}
	cfg.Groups = []controller.GroupConfig{{
		Consensus: consensus.GroupConfig{Members: map[uint64]string{1: "c1"}},
		Host:      &host, Identity: identity.String(),
	}}
	address := net.JoinHostPort(o.ofpHost, strconv.Itoa(int(o.ofpPort)))
	if cfg.OpenFlow, err = net.Listen("tcp", address); err != nil {
		return cfg, fmt.Errorf("listen for switches: %w: free the address, or name another port with "+
			"--ofp-tcp-listen-port", err)
	}
	address = net.JoinHostPort(o.wsapiHost, strconv.Itoa(int(o.wsapiPort)))
	cfg.REST, err = net.Listen("tcp", address)
	switch {
	case err == nil:
	case errors.Is(err, syscall.EADDRINUSE) && !o.wsapiAsked:
		cfg.REST = nil
		log.Warn("the REST interface of applications is not served: name another port with --wsapi-port", "err",
			strings.TrimSpace(err.Error()))
	default:
		return cfg, fmt.Errorf("listen for requests to applications: %w: name another port with --wsapi-port", err)
	}
	return cfg, nil
}
