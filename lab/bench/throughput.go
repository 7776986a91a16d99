package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// ownMessages is what the learning application sends each switch besides answers: the
// table-miss entry, and the packet-out for the announcement of the destination.
const ownMessages = 2

// The workloads of Throughput: every packet-in is from a host that is new, so it writes a row; or from one that is
// known, so none does.
const (
	Learning = "learning"
	Steady   = "steady"
)

// Throughput measures how many packet-ins per second are answered with a flow-mod, exactly once, and what processor
// time that takes: for each combination of workload, switches, controllers and durability, on a cluster of its own.
type Throughput struct {
	Binary     string   // the holdfast binary
	Workloads  []string // Learning, Steady
	Switches   []int    // fake ones
	Replicas   []int    // controllers: odd numbers
	Durability []string
	Window     int // packet-ins outstanding for each switch
	Seconds    int // how long each measurement lasts
	Rounds     int // how often each combination is measured
}

// Validate returns a *FieldError for a value that cannot be.
func (t Throughput) Validate() error {
	return cmp.Or(
		each(t.Workloads, func(w string) error {
			if w != Learning && w != Steady {
				return &FieldError{"workload", w, Learning + " or " + Steady}
			}
			return nil
		}),
		each(t.Switches, func(n int) error { return inRange("switches", n, 1, load.MaxSwitches) }),
		each(t.Replicas, func(n int) error { return isOdd("replicas", n) }),
		each(t.Durability, isDurability),
		inRange("window", t.Window, 1, load.MaxWindow),
		inRange("seconds", t.Seconds, 1, 3600),
		inRange("rounds", t.Rounds, 1, 100))
}

// each returns the first error of a list.
func each[T any](list []T, check func(T) error) error {
	for _, v := range list {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// combination is one of those that Throughput measures.
type combination struct {
	workload   string
	switches   int
	replicas   int
	durability string
}

// String is the end of the names of its figures.
func (c combination) String() string {
	return fmt.Sprintf("%s_sw%d_r%d_%s", c.workload, c.switches, c.replicas, c.durability)
}

func (t Throughput) combinations() (list []combination) {
	for _, w := range t.Workloads {
		for _, s := range t.Switches {
			for _, c := range replicated(t.Replicas, t.Durability) {
				c.workload, c.switches = w, s
				list = append(list, c)
			}
		}
	}
	return list
}

// replicated is each number of controllers with each durability.
func replicated(replicas []int, durability []string) (list []combination) {
	for _, r := range replicas {
		for _, d := range durability {
			list = append(list, combination{replicas: r, durability: d})
		}
	}
	return list
}

// Run runs the benchmark.
func (t Throughput) Run(ctx context.Context, progress Progress) (Report, error) {
	of := map[string][]float64{}
	list := t.combinations()
	for round := range t.Rounds {
		for _, c := range inTurn(slices.Clone(list), round) {
			what := fmt.Sprintf("%v, round %d of %d", c, round+1, t.Rounds)
			figures, err := t.measure(ctx, progress, c, what)
			if err != nil {
				return Report{}, fmt.Errorf("%v: %w", c, err)
			}
			for name, v := range figures {
				of[name+"_"+c.String()] = append(of[name+"_"+c.String()], v)
			}
		}
	}
	figures := medians(of)
	for name, values := range of {
		if slices.ContainsFunc(counted, func(c string) bool { return strings.HasPrefix(name, c) }) {
			figures[name] = 0
			for _, v := range values {
				figures[name] += v
			}
		}
	}
	for _, c := range list {
		one := c
		one.replicas = 1
		if alone, is := figures["answers_per_s_"+one.String()]; is && c.replicas > 1 {
			figures["ratio_one_controller_"+c.String()] = figures["answers_per_s_"+c.String()] / alone
		}
	}
	return Report{Bench: "throughput", Figures: figures, Setup: map[string]any{
		"controllers": "processes on loopback, a cluster of its own for each measurement",
		"agents":      "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each", t.Window),
		"learning": "each packet-in is from a host that is new, and writes a row",
		"steady":   "the hosts are known, and no packet-in writes",
		"answer":   "a flow-mod, after the event and its outcome are logged by a majority",
		"figures":  "medians of the rounds; of term_changes, unanswered and repeated_answers sums",
		"rounds":   t.Rounds, "seconds": t.Seconds,
	}}, nil
}

// counted are the figures of which rounds are added up.
var counted = []string{"term_changes_", "unanswered_", "repeated_answers_"}

// steadyHosts is how many hosts all switches together have in the workload Steady: the state is the same, however many
// switches there are.
const steadyHosts = 16_000

// measure measures a combination.
func (t Throughput) measure(ctx context.Context, progress Progress, c combination, what string) (map[string]float64,
	error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: t.Binary, Controllers: c.replicas,
		Apps: []string{"learning"}, Durability: c.durability})
	if err != nil {
		return nil, err
	}
	defer end()
	leader, err := cl.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	before, err := leader.Status(ctx)
	if err != nil {
		return nil, err
	}
	hosts := load.MaxMACs
	if c.workload == Steady {
		hosts = max(1, steadyHosts/c.switches)
	}
	var pids []int
	for _, n := range cl.Controllers() {
		pids = append(pids, n.Pid())
	}
	pids = append(pids, cl.Agents()[0].Pid())
	servers := func() (ran time.Duration) {
		for _, pid := range pids {
			ran += runTime(pid)
		}
		return ran
	}
	own := runTime(os.Getpid())
	m, err := measureCPU(ctx, progress, load.Config{Switches: c.switches, Window: t.Window, MACsPerSwitch: hosts,
		Dial: load.TCP(cl.Agents()[0].Listen), Warmup: 2 * time.Second,
		Duration: time.Duration(t.Seconds) * time.Second}, what, servers)
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	own = runTime(os.Getpid()) - own
	after, err := leader.Status(ctx)
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	generator := micros(own) / float64(max(m.Total.Answered, 1))
	return map[string]float64{
		"answers_per_s":        m.PerSecond,
		"cpu_us_per_event":     m.cpu,
		"generator_us_percent": 100 * generator / (generator + m.cpu),
		"events_per_entry":     float64(m.Total.Answered) / float64(max(after.Applied-before.Applied, 1)),
		"term_changes":         float64(after.Term - before.Term),
		"latency_us_median":    micros(m.Latency.Quantile(0.5)),
		"unanswered":           float64(m.Unanswered),
		"repeated_answers":     float64(m.Total.Unexpected) - float64(ownMessages*c.switches),
	}, nil
}
