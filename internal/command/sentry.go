package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/bfd/sentry"
	"github.com/holdfast-sdn/holdfast/internal/realtime"
)

const (
	// sentryPriority is above that of a switch that has one, and below the kernel's own threads.
	sentryPriority = 20
	// defaultSwitch is where Debian's Open vSwitch says which process it is.
	defaultSwitch = "/run/openvswitch/ovs-vswitchd.pid"
)

// sentryOptions is what the flags say.
type sentryOptions struct {
	switches               []string
	intervalMs, multiplier int
	realtime, json         bool
	metrics                string
	insecure               bool
}

func sentryCommand() *cobra.Command {
	var o sentryOptions
	var level string
	cmd := &cobra.Command{
		Use:   "sentry",
		Short: "Watch the links of an Open vSwitch from beside it, for failover within milliseconds",
		Long: `Watch the links of an Open vSwitch by BFD sessions of its own, and tell the switch at once when
a link is dead, so that its fast-failover groups stop using it. It runs beside the switch, on the same
machine, as root, until SIGINT or SIGTERM, and needs a sentry at the other end of each link.

Use it where failover must take 20 ms or less. At such short intervals the BFD of Open vSwitch reports all
its links dead whenever its own machine pauses; a sentry does not. (Its neighbours
may: a machine must not pause for longer than (multiplier - 1) × interval.)

It watches the interfaces that have BFD enabled. Holdfast enables it: see bfd in the configuration;
with a sentry, intervals from 15 to 500 ms are best. That BFD continues to run, overrides the sentry after
3 s, and remains when the sentry ends. A sentry that is killed while a link is dead may leave that
state in the switch: restart it at once (Restart=always), which clears the state, or use ovs-appctl
bfd/set-forwarding normal.

With --json each change is a line on standard output. --metrics serves the states of links to Prometheus.`,
		Example: `  sudo holdfast sentry --interval-ms 1
  sudo holdfast sentry --interval-ms 5 --switch /run/openvswitch/ovs-vswitchd.pid --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			cfg, err := o.config(cmd.OutOrStdout(), log)
			if err != nil {
				return err
			}
			scrapes, err := listenForScrapes(o.metrics, o.insecure)
			if err != nil {
				return err
			}
			if o.realtime {
				if err := realtime.SetProcess(os.Getpid(), sentryPriority); err != nil {
					log.Warn("no real-time priority: a busy machine is taken for dead links; run as root, or see "+
						"--realtime", "error", err)
				}
			}
			signal.Ignore(syscall.SIGPIPE) // who reads no more must not end it: what the switch was told would stay
			ctx := cmd.Context()
			if !signal.Ignored(syscall.SIGHUP) { // as by nohup
				var stop context.CancelFunc
				ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
				defer stop()
			}
			var links sentry.Links
			report := cfg.Report
			cfg.Report = func(e sentry.Event) { links.Take(e); report(e) }
			return besideScrapes(ctx, scrapes, links.Metrics(), log, func(ctx context.Context) error {
				return sentry.Run(ctx, cfg)
			})
		},
	}
	cmd.Flags().StringSliceVar(&o.switches, "switch", []string{defaultSwitch},
		"pid file or control socket of ovs-vswitchd; several, if this machine has several")
	cmd.Flags().IntVar(&o.intervalMs, "interval-ms", 5, "how often to send over a link")
	cmd.Flags().IntVar(&o.multiplier, "multiplier", 0,
		"how many packets must be missing until a link is dead; 0: 3, or more at short intervals")
	cmd.Flags().BoolVar(&o.realtime, "realtime", true, "run with real-time priority")
	cmd.Flags().BoolVar(&o.json, "json", false, "print changes as JSON")
	cmd.Flags().StringVar(&o.metrics, "metrics", "", "address at which Prometheus reads /metrics, like 127.0.0.1:9654")
	cmd.Flags().BoolVar(&o.insecure, "insecure", false, "with --metrics: also on an address that other machines reach")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func (o *sentryOptions) config(out io.Writer, log *slog.Logger) (sentry.Config, error) {
	if err := inRange("interval-ms", o.intervalMs, 1, 1000); err != nil {
		return sentry.Config{}, err
	}
	if err := inRange("multiplier", o.multiplier, 0, 255); err != nil {
		return sentry.Config{}, err
	}
	interval, multiplier := time.Duration(o.intervalMs)*time.Millisecond, o.multiplier
	if multiplier == 0 {
		multiplier = sentry.Multiplier(interval)
	}
	report := func(e sentry.Event) {
		level := slog.LevelInfo
		if e.State == sentry.Dead {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, fmt.Sprintf("link is %v", e.State), "switch", e.Switch, "interface",
			e.Interface)
	}
	if o.json {
		lines := json.NewEncoder(out)
		report = func(e sentry.Event) { _ = lines.Encode(e) } // who reads no more wants no more
	}
	return sentry.Config{Switches: o.switches, Interval: interval, Multiplier: multiplier, Log: log, Report: report},
		nil
}

// inRange refuses a flag whose value is not from low to high.
func inRange(flag string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("--%s %d: use %d to %d", flag, value, low, high)
	}
	return nil
}
