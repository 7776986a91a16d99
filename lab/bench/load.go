package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// startCluster starts controllers and one agent in a folder of their own, which end removes.
func startCluster(ctx context.Context, cfg cluster.Config) (c *cluster.Cluster, end func(), err error) {
	if cfg.Dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, nil, fmt.Errorf("folder for the benchmark: %w", err)
	}
	cfg.Agents = 1
	if c, err = cluster.Start(ctx, cfg); err != nil {
		os.RemoveAll(cfg.Dir)
		return nil, nil, err
	}
	return c, func() { c.Close(); os.RemoveAll(cfg.Dir) }, nil
}

// measureLoad runs a cluster of its own with one agent under the load: first with all that the window allows in flight,
// then with one packet-in for each switch.
func measureLoad(ctx context.Context, progress Progress, processes cluster.Config, cfg load.Config, what string) (full,
	idle load.Result, err error) {
	c, end, err := startCluster(ctx, processes)
	if err != nil {
		return full, idle, err
	}
	defer end()
	cfg.Mode, cfg.Dial, cfg.Drain = load.Throughput, load.TCP(c.Agents()[0].Listen), 5*time.Second
	stop := progress.during(cfg.Warmup+cfg.Duration, "throughput, "+what)
	full, err = load.Run(ctx, cfg)
	stop()
	if err != nil {
		return full, idle, fmt.Errorf("throughput: %w", c.WithLogs(err))
	}
	cfg.Mode, cfg.FirstDatapathID, cfg.Warmup = load.Latency, 1<<32, time.Second
	stop = progress.during(cfg.Warmup+cfg.Duration, "latency, "+what)
	idle, err = load.Run(ctx, cfg)
	stop()
	if err != nil {
		return full, idle, fmt.Errorf("latency: %w", c.WithLogs(err))
	}
	return full, idle, nil
}
