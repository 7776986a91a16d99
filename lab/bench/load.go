package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	cfg.Mode, cfg.Dial, cfg.Drain = load.Throughput, load.At(c.Agents()[0].Listen), 5*time.Second
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

// measured is a load's result, and what CPU the server used for each answer in µs.
type measured struct {
	load.Result
	cpu float64
}

// measureCPU puts a load on a server. used returns what CPU that has used until now. The CPU is that of warm-up and
// drain too, and so are the answers that it is divided by.
func measureCPU(ctx context.Context, progress Progress, cfg load.Config, what string, used func() time.Duration) (
	m measured, err error) {
	before := used()
	if m.Result, err = runLoad(ctx, progress, cfg, what); err != nil {
		return m, err
	}
	m.cpu = micros(used()-before) / float64(max(m.Total.Answered, 1))
	return m, nil
}

// runLoad puts a load on a server.
func runLoad(ctx context.Context, progress Progress, cfg load.Config, what string) (load.Result, error) {
	defer progress.during(cfg.Warmup+cfg.Duration, what)()
	cfg.Drain = 5 * time.Second
	r, err := load.Run(ctx, cfg)
	if err != nil {
		return r, fmt.Errorf("%s: %w", what, err)
	}
	return r, nil
}

// cpuTimes returns the sum of cpuTime of several processes.
func cpuTimes(pids ...int) func() time.Duration {
	return func() (t time.Duration) {
		for _, pid := range pids {
			t += cpuTime(pid)
		}
		return t
	}
}

// runTime returns how long the threads of a process have run, user and system. Unlike cpuTime it counts nanoseconds,
// and not those threads that have ended, which a process in Go rarely has.
func runTime(pid int) (ran time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is valid
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			n, _ := strconv.ParseInt(fields[0], 10, 64)
			ran += time.Duration(n)
		}
	}
	return ran
}

// cpuTime returns what a process and its children that live have used, user and system, in steps of 10 ms.
func cpuTime(pid int) (used time.Duration) {
	const tick = time.Second / 100 // USER_HZ, the same on all architectures of Go
	pids := []string{strconv.Itoa(pid)}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, file := range children {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, p := range pids {
		text, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 13 {
			continue
		}
		for _, f := range fields[11:13] { // utime and stime, proc(5)
			n, _ := strconv.ParseInt(f, 10, 64)
			used += time.Duration(n) * tick
		}
	}
	return used
}
