package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// Cbench puts a load as of cbench, the controller benchmark of the oflops project, on a learning switch: on os-ken with
// its own server (eventlet, the faster of its two), and on Holdfast, where every packet-in is in the log of a majority
// before it is answered. Its switches speak OpenFlow 1.0, have no agent, and are connected to the leader.
type Cbench struct {
	Binary     string   // the holdfast binary
	App        string   // of os-ken: a learning switch for OpenFlow 1.0
	Python     string   // that has os-ken
	Path       []string // folders where Python looks for the application
	Switches   int      // fake ones
	MACs       int      // source addresses of each switch
	Replicas   []int    // controllers: odd numbers
	Durability []string
	Seconds    int // how long each measurement lasts
	Rounds     int // how often each combination is measured
}

// Validate returns a *FieldError for a value that cannot be.
func (b Cbench) Validate() error {
	return cmp.Or(
		inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("macs", b.MACs, 1, load.MaxMACs),
		each(b.Replicas, func(n int) error { return isOdd("replicas", n) }),
		each(b.Durability, isDurability),
		inRange("seconds", b.Seconds, 1, 3600),
		inRange("rounds", b.Rounds, 1, 100))
}

// cbenchModes are the modes of cbench, as figures name them.
var cbenchModes = []struct {
	name string
	mode load.Mode
}{{"throughput", load.Throughput}, {"latency", load.Latency}}

// Run runs the benchmark.
func (b Cbench) Run(ctx context.Context, progress Progress) (Report, error) {
	identity, err := ryu.Probe(ctx, ryu.Config{Python: b.Python, Applications: []string{b.App}, Path: b.Path})
	if err != nil {
		return Report{}, err
	}
	list := replicated(b.Replicas, b.Durability)
	of := map[string][]float64{}
	for round := range b.Rounds {
		plain, err := b.plain(ctx, progress)
		if err != nil {
			return Report{}, err
		}
		for _, m := range cbenchModes {
			of["os_ken_per_s_"+m.name] = append(of["os_ken_per_s_"+m.name], plain[m.name])
		}
		for _, c := range inTurn(slices.Clone(list), round) {
			rates, err := b.holdfast(ctx, progress, c)
			if err != nil {
				return Report{}, err
			}
			for mode, rate := range rates {
				name := fmt.Sprintf("%s_r%d_%s", mode, c.replicas, c.durability)
				of["answers_per_s_"+name] = append(of["answers_per_s_"+name], rate)
				of["ratio_"+name] = append(of["ratio_"+name], rate/max(plain[mode], 1))
			}
		}
	}
	return Report{Bench: "cbench", Figures: medians(of), Setup: map[string]any{
		"app": "learning", "os_ken": identity.OSKen, "os_ken_app": b.App, "python": identity.Python,
		"os_ken_server": "its own, eventlet",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.0 switches in this process, which act as those of cbench, %d "+
			"addresses each; no agent", b.Switches, b.MACs),
		"throughput": "as many packet-ins under way as connections take", "latency": "one for each switch",
		"ratio":   "of answers to those of os-ken in the same round",
		"figures": "medians of the rounds", "rounds": b.Rounds, "seconds": b.Seconds,
	}}, nil
}

// rates is answers per second by mode.
type rates map[string]float64

// measure puts the load on a server, in both modes, with switches of their own.
func (b Cbench) measure(ctx context.Context, progress Progress, address, what string) (rates, error) {
	of := rates{}
	for i, m := range cbenchModes {
		cfg := load.Config{Mode: m.mode, Version: openflow.Version10, Switches: b.Switches, MACsPerSwitch: b.MACs,
			FirstDatapathID: openflow.DatapathID(1 + i*b.Switches), ReadyTimeout: 30 * time.Second,
			Warmup: 2 * time.Second, Duration: time.Duration(b.Seconds) * time.Second, Dial: load.At(address)}
		stop := progress.during(cfg.Warmup+cfg.Duration, what+", "+m.name)
		r, err := load.Run(ctx, cfg)
		stop()
		if err == nil && r.Answered == 0 {
			err = errors.New("nothing was answered")
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", what, m.name, err)
		}
		of[m.name] = r.PerSecond
	}
	return of, nil
}

// plain measures os-ken.
func (b Cbench) plain(ctx context.Context, progress Progress) (rates, error) {
	p, err := startPlain(ctx, b.Python, b.App, b.Path)
	if err != nil {
		return nil, err
	}
	defer p.end()
	return b.measure(ctx, progress, p.address, "os-ken")
}

// holdfast measures a cluster of its own.
func (b Cbench) holdfast(ctx context.Context, progress Progress, c combination) (rates, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: c.replicas,
		Apps: []string{"learning"}, Durability: c.durability})
	if err != nil {
		return nil, err
	}
	defer end()
	leader, err := cl.WaitLeader(ctx)
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	of, err := b.measure(ctx, progress, leader.OpenFlow, fmt.Sprintf("%d controllers, %s", c.replicas, c.durability))
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	return of, nil
}
