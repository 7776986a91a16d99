package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	Load       int // processes beside, that use all the processor time that they get
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
		inRange("rounds", t.Rounds, 1, 100),
		inRange("load", t.Load, 0, busyMaxLoad))
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
		"agents":      "1 process for all switches, at a Unix socket", "app": "learning",
		"switches": fmt.Sprintf("fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each", t.Window),
		"learning": "each packet-in is from a host that is new, and writes a row",
		"steady":   "the hosts are known, and no packet-in writes",
		"answer":   "a flow-mod, after the event and its outcome are logged by a majority",
		"figures":  "medians of the rounds; of term_changes, unanswered and repeated_answers sums",
		"rounds":   t.Rounds, "seconds": t.Seconds, "load": fmt.Sprintf("%d busy processes", t.Load),
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
		Apps: []string{"learning"}, Durability: c.durability, Sockets: true})
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
	stop, err := burn(t.Load)
	if err != nil {
		return nil, err
	}
	defer stop()
	processes := rolesOf(cl, leader)
	ran := processes.ran()
	m, err := runLoad(ctx, progress, load.Config{Switches: c.switches, Window: t.Window, MACsPerSwitch: hosts,
		Dial: load.At(cl.Agents()[0].Listen), Warmup: 2 * time.Second,
		Duration: time.Duration(t.Seconds) * time.Second}, what)
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	figures := processes.perEvent(ran, m.Total.Answered)
	after, err := leader.Status(ctx)
	if err != nil {
		return nil, cl.WithLogs(err)
	}
	maps.Copy(figures, map[string]float64{
		"answers_per_s":     m.PerSecond,
		"events_per_entry":  float64(m.Total.Answered) / float64(max(after.Applied-before.Applied, 1)),
		"term_changes":      float64(after.Term - before.Term),
		"latency_us_median": micros(m.Latency.Quantile(0.5)),
		"unanswered":        float64(m.Unanswered),
		"repeated_answers":  float64(m.Total.Unexpected) - float64(ownMessages*c.switches),
	})
	return figures, nil
}

// The roles of the processes of a measurement. Generator is this one.
const (
	leading   = "leader"
	following = "follower"
	carrying  = "agent"
	loading   = "generator"
)

// roles are the pids of the processes of each role.
type roles map[string][]int

func rolesOf(cl *cluster.Cluster, leader *cluster.Controller) roles {
	r := roles{leading: {leader.Pid()}, loading: {os.Getpid()}}
	for _, n := range cl.Controllers() {
		if n != leader {
			r[following] = append(r[following], n.Pid())
		}
	}
	for _, a := range cl.Agents() {
		r[carrying] = append(r[carrying], a.Pid())
	}
	return r
}

// ran returns how long the processes of each role have run, together.
func (r roles) ran() map[string]time.Duration {
	of := map[string]time.Duration{}
	for role, pids := range r {
		for _, pid := range pids {
			of[role] += runTime(pid)
		}
	}
	return of
}

// perEvent returns what processor time each of so many events took since the roles had run so long: of all but the
// generator, of one process of each role, and the generator's share.
func (r roles) perEvent(before map[string]time.Duration, events uint64) map[string]float64 {
	f, servers, generator := map[string]float64{}, 0.0, 0.0
	for role, ran := range r.ran() {
		us := micros(ran-before[role]) / float64(max(events, 1))
		if role == loading {
			generator = us
			continue
		}
		servers += us
		f["cpu_us_"+role] = us / float64(len(r[role]))
	}
	f["cpu_us_per_event"] = servers
	f["generator_us_percent"] = 100 * generator / (generator + servers)
	return f
}
