package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Hostile measures what honest switches notice of hostile peers of all kinds, which attack the controllers and the
// agent of the honest ones at the same time and for the whole measurement. See attacks.
type Hostile struct {
	Binary  string // the holdfast binary
	Seconds int    // how long the attack lasts; the measurement alone lasts a quarter, from 2 s to a minute
}

// honest is the number of switches that behave.
const honest = 16

// BudgetMB bounds the resident memory of each process of the cluster under attack, in MiB. It is the sum of the bounds
// in docs/guarantees.md that peers can fill at a controller with one group: 128 MiB for what all switches hold, as much
// for a snapshot of that, twice, 256 MiB for the log and twice 256 MiB for events. The rest is for the garbage
// collector, which has a quarter of it and 128 MiB (internal/collector), and for what the bounds do not count.
const BudgetMB = 2048

// hostileFactor is how much the p99 of honest switches may grow.
const hostileFactor = 10

// ErrBounds says that a bound of a benchmark does not hold. The report is complete nevertheless.
var ErrBounds = errors.New("a bound does not hold")

// Validate returns a *FieldError for a value that cannot be.
func (b Hostile) Validate() error { return inRange("seconds", b.Seconds, 1, 86_400) }

// Run runs the benchmark. If a bound does not hold, the report is complete, and the error is ErrBounds and says which.
func (b Hostile) Run(ctx context.Context, progress Progress) (Report, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: 3, Apps: []string{"hub"}})
	if err != nil {
		return Report{}, err
	}
	defer end()
	cfg := load.Config{Mode: load.Latency, Switches: honest, Dial: load.At(cl.Agents()[0].Listen),
		Warmup: time.Second, Duration: min(max(2*time.Second, time.Duration(b.Seconds)*time.Second/4), time.Minute),
		Drain: 10 * time.Second, LostAfter: time.Hour}
	stop := progress.during(cfg.Warmup+cfg.Duration, "16 honest switches alone")
	alone, err := load.Run(ctx, cfg)
	stop()
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	cfg.FirstDatapathID, cfg.Duration = 1000, time.Duration(b.Seconds)*time.Second
	mob := &mob{targets: cl}
	cfg.Beside = func(ctx context.Context, _ func() uint64) error { return mob.run(ctx) }
	stop = progress.during(cfg.Warmup+cfg.Duration, "16 honest switches beside hostile peers")
	attacked, err := load.Run(ctx, cfg)
	stop()
	f := map[string]float64{"attacks": 0, "budget_mb": BudgetMB, "exits": 0, "rss_max_mb": 0}
	for _, m := range members(cl) {
		if rss, alive := peakMB(m); alive {
			f["rss_max_mb"] = max(f["rss_max_mb"], rss)
		} else {
			f["exits"]++
		}
	}
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	const installed = 2 * honest // of the hub: the entry for packets that match nothing, and the flood of the first one
	for _, r := range []load.Result{alone, attacked} {
		f["honest_lost"] += float64(r.Total.Lost + r.Unanswered)
		f["honest_repeated"] += float64(max(r.Total.Unexpected, installed) - installed)
		f["honest_packets"] += float64(r.Total.Sent)
	}
	f["honest_p99_ms_alone"], f["honest_p99_ms_attacked"] = micros(alone.Latency.Quantile(0.99))/1e3,
		micros(attacked.Latency.Quantile(0.99))/1e3
	for kind, n := range mob.kinds() {
		f["attacks"] += float64(n)
		f["attacks_"+kind] = float64(n)
	}
	return Report{Bench: "hostile", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, without TLS", "agents": "1 process", "app": "hub",
		"switches": "16 fake OpenFlow 1.3 switches behind the agent, one packet-in of each outstanding",
		"attacks":  "attempts of hostile peers of all kinds, which this process runs at the same time",
		"seconds":  b.Seconds, "load_1min": loadAverage(),
	}}, hostileBounds(f)
}

// hostileBounds names the bounds that do not hold.
func hostileBounds(f map[string]float64) error {
	var broken []error
	for _, name := range []string{"honest_lost", "honest_repeated", "exits"} {
		if f[name] != 0 {
			broken = append(broken, fmt.Errorf("%s is %v, and must be 0", name, f[name]))
		}
	}
	if alone, attacked := f["honest_p99_ms_alone"], f["honest_p99_ms_attacked"]; attacked > hostileFactor*alone {
		broken = append(broken, fmt.Errorf("honest_p99_ms_attacked is %.3f, more than %d times %.3f", attacked,
			hostileFactor, alone))
	}
	if f["rss_max_mb"] > f["budget_mb"] {
		broken = append(broken, fmt.Errorf("rss_max_mb is %.0f, more than %.0f", f["rss_max_mb"], f["budget_mb"]))
	}
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBounds, errors.Join(broken...))
}

// member is a process of a cluster.
type member interface {
	Pid() int
	Running() bool
}

func members(cl *cluster.Cluster) (list []member) {
	for _, c := range cl.Controllers() {
		list = append(list, c)
	}
	for _, a := range cl.Agents() {
		list = append(list, a)
	}
	return list
}

// peakMB returns the most resident memory that a process has had, in MB; false if it has ended.
func peakMB(p member) (float64, bool) {
	if !p.Running() {
		return 0, false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, false
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	kib, err := strconv.ParseFloat(string(number), 64)
	return kib / 1024, err == nil
}

// loadAverage is that of the last minute: figures beside much other work mean little.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := bytes.Cut(text, []byte(" "))
	v, _ := strconv.ParseFloat(string(first), 64)
	return v
}

// mob is hostile peers of all kinds.
type mob struct {
	targets *cluster.Cluster

	mu    sync.Mutex // guards the fields below
	tried map[string]int
}

// run attacks until ctx ends.
func (m *mob) run(ctx context.Context) error {
	var peers sync.WaitGroup
	for _, a := range attacks {
		for i := range cmp.Or(a.peers, 1) {
			peers.Go(func() { m.repeat(ctx, a, i) })
		}
	}
	peers.Wait()
	return nil
}

// repeat makes one peer attack again and again, each controller in turn.
func (m *mob) repeat(ctx context.Context, a attack, peer int) {
	pause := time.NewTicker(a.every)
	defer pause.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		m.attempt(ctx, a, peer, n)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

func (m *mob) attempt(ctx context.Context, a attack, peer, n int) {
	ctx, cancel := context.WithTimeout(ctx, a.lasts)
	defer cancel()
	list := m.targets.Controllers()
	_ = a.run(ctx, victim{list[(peer+n)%len(list)], m.targets.Agents()[0]}, peer, n) // it may be refused
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried == nil {
		m.tried = map[string]int{}
	}
	m.tried[a.name]++
}

// kinds returns the number of attempts of each kind.
func (m *mob) kinds() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried
}
