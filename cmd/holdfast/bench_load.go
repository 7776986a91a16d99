package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// printRun runs a benchmark with a progress bar, and prints its report.
func printRun(cmd *cobra.Command, run func(context.Context, *progress) (report, error), asJSON bool) error {
	bar := newProgress(cmd.ErrOrStderr())
	r, err := run(cmd.Context(), bar)
	bar.clear()
	if err != nil {
		return err
	}
	return r.print(cmd.OutOrStdout(), asJSON)
}

// startSite starts a site of this binary with one agent. Its end takes its folder with it.
func startSite(ctx context.Context, site cluster.Config) (c *cluster.Cluster, end func(), err error) {
	if site.Binary, err = self(); err != nil {
		return nil, nil, err
	}
	if site.Dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, nil, fmt.Errorf("folder for the benchmark: %w", err)
	}
	site.Agents = 1
	if c, err = cluster.Start(ctx, site); err != nil {
		os.RemoveAll(site.Dir)
		return nil, nil, err
	}
	return c, func() { c.Close(); os.RemoveAll(site.Dir) }, nil
}

// measureLoad runs a site of its own with one agent under the load: first with all that the window lets in flight,
// then with one packet-in for each switch.
func measureLoad(ctx context.Context, bar *progress, site cluster.Config, cfg load.Config, what string) (full,
	idle load.Result, err error) {
	c, end, err := startSite(ctx, site)
	if err != nil {
		return full, idle, err
	}
	defer end()
	cfg.Mode, cfg.Dial, cfg.Drain = load.Throughput, load.TCP(c.Agents()[0].Listen), 5*time.Second
	stop := bar.during(cfg.Warmup+cfg.Duration, "throughput, "+what)
	full, err = load.Run(ctx, cfg)
	stop()
	if err != nil {
		return full, idle, fmt.Errorf("throughput: %w", c.WithLogs(err))
	}
	cfg.Mode, cfg.FirstDatapathID, cfg.Warmup = load.Latency, 1<<32, time.Second
	stop = bar.during(cfg.Warmup+cfg.Duration, "latency, "+what)
	idle, err = load.Run(ctx, cfg)
	stop()
	if err != nil {
		return full, idle, fmt.Errorf("latency: %w", c.WithLogs(err))
	}
	return full, idle, nil
}

// micros is what figures of latency are in.
func micros(d time.Duration) float64 { return float64(d) / 1e3 }
