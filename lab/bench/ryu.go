package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// Ryu measures a Ryu application under the same load three times: on os-ken with its own server (eventlet, the faster
// of its two), and on Holdfast with one controller and with three, each of which executes every event.
type Ryu struct {
	Binary     string   // the holdfast binary
	App        string   // one that answers a packet-in with a flow-mod
	Python     string   // that has os-ken
	Path       []string // folders where Python looks for the application
	Switches   int      // fake ones
	Window     int      // packet-ins outstanding for each switch
	MACs       int      // source addresses of each switch
	Seconds    int      // how long each measurement lasts
	Durability string
}

// Validate returns a *FieldError for a value that cannot be.
func (b Ryu) Validate() error {
	return cmp.Or(
		inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("window", b.Window, 1, load.MaxWindow),
		inRange("macs", b.MACs, 1, load.MaxMACs),
		inRange("seconds", b.Seconds, 1, 3600),
		isDurability(b.Durability))
}

// Run runs the benchmark.
func (b Ryu) Run(ctx context.Context, progress Progress) (Report, error) {
	identity, err := ryu.Probe(ctx, ryu.Config{Python: b.Python, Applications: []string{b.App}, Path: b.Path})
	if err != nil {
		return Report{}, err
	}
	plain, err := b.plain(ctx, progress)
	if err != nil {
		return Report{}, err
	}
	one, err := b.replayed(ctx, progress, 1)
	if err != nil {
		return Report{}, err
	}
	three, err := b.replayed(ctx, progress, 3)
	if err != nil {
		return Report{}, err
	}
	return Report{Bench: "ryu", Figures: map[string]float64{
		"plain_per_s": plain.PerSecond, "one_per_s": one.PerSecond, "three_per_s": three.PerSecond,
		"ratio_one": one.PerSecond / plain.PerSecond, "ratio_three": three.PerSecond / plain.PerSecond,
		"plain_cpu_us_per_event": plain.cpu, "leader_cpu_us_per_event": three.cpu, "one_cpu_us_per_event": one.cpu,
		"plain_unanswered": float64(plain.Unanswered), "one_unanswered": float64(one.Unanswered),
		"three_unanswered":        float64(three.Unanswered),
		"latency_us_median_plain": micros(plain.Latency.Quantile(0.5)),
		"latency_us_median_one":   micros(one.Latency.Quantile(0.5)),
		"latency_us_median_three": micros(three.Latency.Quantile(0.5)),
	}, Setup: map[string]any{
		"app": b.App, "python": identity.Python, "os_ken": identity.OSKen, "plain": "os-ken's own server, eventlet",
		"holdfast":   "1, then 3 controllers on loopback, each executes every event; 1 agent for all switches",
		"durability": b.Durability,
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each, "+
			"%d addresses each", b.Switches, b.Window, b.MACs),
		"cpu": "of the controller and of its Python process, user and system", "seconds": b.Seconds,
	}}, nil
}

// measure puts the load on a server, whose processes are those of pid and its children.
func (b Ryu) measure(ctx context.Context, progress Progress, address, what string, pid int) (measured, error) {
	return measureCPU(ctx, progress, load.Config{Switches: b.Switches, Window: b.Window, MACsPerSwitch: b.MACs,
		AfterPorts: true, Warmup: 3 * time.Second, Duration: time.Duration(b.Seconds) * time.Second,
		ReadyTimeout: 30 * time.Second, Dial: load.At(address)}, what, cpuTimes(pid))
}

// plain runs the application on os-ken.
func (b Ryu) plain(ctx context.Context, progress Progress) (m measured, err error) {
	p, err := startPlain(ctx, b.Python, b.App, b.Path)
	if err != nil {
		return m, err
	}
	defer p.end()
	return b.measure(ctx, progress, p.address, "os-ken itself", p.pid)
}

// replayed runs it on so many controllers of Holdfast.
func (b Ryu) replayed(ctx context.Context, progress Progress, controllers int) (m measured, err error) {
	c, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: controllers, Apps: []string{b.App},
		Durability: b.Durability, Election: 500 * time.Millisecond,
		Ryu: &cluster.Ryu{Python: b.Python, Path: b.Path, LogLevel: "warning"}})
	if err != nil {
		return m, err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return m, c.WithLogs(err)
	}
	m, err = b.measure(ctx, progress, c.Agents()[0].Listen, fmt.Sprintf("Holdfast, %d controllers", controllers),
		leader.Pid())
	if err != nil {
		return m, c.WithLogs(err)
	}
	return m, nil
}
