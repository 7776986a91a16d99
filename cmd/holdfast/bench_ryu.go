package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// plainScript runs an application on os-ken itself, with its own server.
//
//go:embed bench_ryu_plain.py
var plainScript string

// ryuBench compares os-ken with Holdfast, on the same application and load.
type ryuBench struct {
	app, python      string
	path             []string
	switches, window int
	macs, seconds    int
	durability       string
}

func benchRyuCommand() *cobra.Command {
	b := ryuBench{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ryu",
		Short: "Packet-ins per second of a Ryu application: os-ken itself, and Holdfast",
		Long: `Run an unmodified application of Ryu under the same load three times: on os-ken with its own server
(eventlet, the faster of its two), on Holdfast with one controller, and on Holdfast with three, each of which
executes every event. Holdfast's switches have an agent. What applications log below warnings is dropped everywhere.

It needs a Python with os-ken, greenlet, eventlet, Routes and WebOb, and the applications of Ryu; make test installs
both, in .venv and in the user's cache folder, where they are looked for if nothing else is named.`,
		Example: `  holdfast bench ryu --json
  holdfast bench ryu --python /opt/venv/bin/python --path /opt/ryu-4.34 --app ryu.app.simple_switch_13`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.validate(); err != nil {
				return err
			}
			return printRun(cmd, b.run, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.app, "app", "ryu.app.simple_switch_13",
		"the application: one that answers a packet-in with a flow-mod")
	f.StringVar(&b.python, "python", installedPython(), "the Python that has os-ken")
	f.StringSliceVar(&b.path, "path", installedRyu(), "folders where Python looks for the application")
	f.IntVar(&b.switches, "switches", 4, "how many fake switches")
	f.IntVar(&b.window, "window", 64, "packet-ins outstanding for each switch")
	f.IntVar(&b.macs, "macs", 1000, "source addresses of each switch")
	f.StringVar(&b.durability, "durability", "memory", "memory or disk")
	f.IntVar(&b.seconds, "seconds", 8, "how long each measurement lasts")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// installedPython is the one that make test installs for this checkout, if it is there.
func installedPython() string {
	if p := os.Getenv("HOLDFAST_PYTHON"); p != "" {
		return p
	}
	if p, err := filepath.Abs(".venv/bin/python"); err == nil {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return "python3"
}

// installedRyu is the folder of Ryu's applications that make test downloads, if it is there.
func installedRyu() []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(cache, "holdfast", "ryu-*")) // the pattern is valid
	return found
}

func (b *ryuBench) validate() error {
	return cmp.Or(
		inRange("switches", b.switches, 1, load.MaxSwitches),
		inRange("window", b.window, 1, load.MaxWindow),
		inRange("macs", b.macs, 1, load.MaxMACs),
		inRange("seconds", b.seconds, 1, 3600),
		isDurability(b.durability))
}

func (b *ryuBench) run(ctx context.Context, bar *progress) (report, error) {
	identity, err := ryu.Probe(ctx, ryu.Config{Python: b.python, Applications: []string{b.app}, Path: b.path})
	if err != nil {
		return report{}, err
	}
	plain, err := b.plain(ctx, bar)
	if err != nil {
		return report{}, err
	}
	one, err := b.hosted(ctx, bar, 1)
	if err != nil {
		return report{}, err
	}
	three, err := b.hosted(ctx, bar, 3)
	if err != nil {
		return report{}, err
	}
	return report{"ryu", map[string]float64{
		"plain_per_s": plain.PerSecond, "one_per_s": one.PerSecond, "three_per_s": three.PerSecond,
		"ratio_one": one.PerSecond / plain.PerSecond, "ratio_three": three.PerSecond / plain.PerSecond,
		"plain_cpu_us_per_event": plain.cpu, "leader_cpu_us_per_event": three.cpu, "one_cpu_us_per_event": one.cpu,
		"plain_unanswered": float64(plain.Unanswered), "one_unanswered": float64(one.Unanswered),
		"three_unanswered":        float64(three.Unanswered),
		"latency_us_median_plain": micros(plain.Latency.Quantile(0.5)),
		"latency_us_median_one":   micros(one.Latency.Quantile(0.5)),
		"latency_us_median_three": micros(three.Latency.Quantile(0.5)),
	}, map[string]any{
		"app": b.app, "python": identity.Python, "os_ken": identity.OSKen, "plain": "os-ken's own server, eventlet",
		"holdfast":   "1, then 3 controllers on loopback, each executes every event; 1 agent for all switches",
		"durability": b.durability,
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each, "+
			"%d addresses each", b.switches, b.window, b.macs),
		"cpu": "of the controller and of its Python process, user and system", "seconds": b.seconds,
	}}, nil
}

// measured is a load's result, and what CPU the server used for each answer in µs.
type measured struct {
	load.Result
	cpu float64
}

// measure puts the load on a server, whose processes are those of pid and its children.
func (b *ryuBench) measure(ctx context.Context, bar *progress, address, what string, pid int) (measured, error) {
	cfg := load.Config{Switches: b.switches, Window: b.window, MACsPerSwitch: b.macs, AfterPorts: true,
		Warmup: 3 * time.Second, Duration: time.Duration(b.seconds) * time.Second,
		Drain: 5 * time.Second, ReadyTimeout: 30 * time.Second, Dial: load.TCP(address)}
	stop := bar.during(cfg.Warmup+cfg.Duration, what)
	defer stop()
	before := cpuTime(pid)
	r, err := load.Run(ctx, cfg)
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", what, err)
	}
	used := cpuTime(pid) - before // of warm-up and drain too, like the answers
	return measured{r, micros(used) / float64(max(r.Total.Answered, 1))}, nil
}

// plain runs the application on os-ken.
func (b *ryuBench) plain(ctx context.Context, bar *progress) (m measured, err error) {
	addresses, err := cluster.FreeAddresses("127.0.0.1", 1)
	if err != nil {
		return m, err
	}
	address := addresses[0]
	folder, remove, err := ryu.Unpack()
	if err != nil {
		return m, err
	}
	defer remove()
	cmd := exec.CommandContext(ctx, b.python, "-W", "ignore", "-c", plainScript,
		address[strings.LastIndexByte(address, ':')+1:], b.app)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+strings.Join(append([]string{folder}, b.path...), ":"))
	var printed strings.Builder
	cmd.Stderr = &printed
	if err := cmd.Start(); err != nil {
		return m, fmt.Errorf("start os-ken: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	if err := awaitListener(ctx, address); err != nil {
		return m, fmt.Errorf("os-ken does not listen: %w\n%s", err, printed.String())
	}
	return b.measure(ctx, bar, address, "os-ken itself", cmd.Process.Pid)
}

// hosted runs it on so many controllers of Holdfast.
func (b *ryuBench) hosted(ctx context.Context, bar *progress, controllers int) (m measured, err error) {
	c, end, err := startSite(ctx, cluster.Config{Controllers: controllers, Apps: []string{b.app},
		Durability: b.durability, Election: 500 * time.Millisecond,
		Ryu: &cluster.Ryu{Python: b.python, Path: b.path, LogLevel: "warning"}})
	if err != nil {
		return m, err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return m, c.WithLogs(err)
	}
	m, err = b.measure(ctx, bar, c.Agents()[0].Listen, fmt.Sprintf("Holdfast, %d controllers", controllers),
		leader.Pid())
	if err != nil {
		return m, c.WithLogs(err)
	}
	return m, nil
}

func awaitListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		conn, err := load.TCP(address)(ctx, 0)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cpuTime returns what a process and its children that live have used, user and system.
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
