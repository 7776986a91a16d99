package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Instrumentation measures what it costs that leaders count what actors do (Beehive, figure 9): the processor time that
// the leader needs for an event, with and without. While a cluster is under load, it counts in every second slice of
// time. What it does else is the same in all of them.
//
// Clusters differ, for example by where the memory of the process is. So the interval of the overhead is that of the
// rounds, each of which has a cluster of its own, and not of the slices.
type Instrumentation struct {
	Binary      string // the holdfast binary
	Controllers int    // an odd number
	Switches    int    // fake ones
	Window      int    // packet-ins outstanding for each switch
	Durability  string
	Slice       time.Duration
	Measure     time.Duration // how long the load of a round lasts
	Rounds      int
}

// Validate returns a *FieldError for a value that cannot be.
func (b Instrumentation) Validate() error {
	if b.Slice < 20*time.Millisecond || b.Slice > time.Minute {
		return &FieldError{"slice", b.Slice.String(), "20ms to 1m"}
	}
	if b.Measure < 8*b.Slice || b.Measure > time.Hour {
		return &FieldError{"measure", b.Measure.String(), "eight slices to 1h"}
	}
	return cmp.Or(isOdd("controllers", b.Controllers), inRange("switches", b.Switches, 1, load.MaxSwitches),
		inRange("window", b.Window, 1, load.MaxWindow), inRange("rounds", b.Rounds, minInterval, 1000),
		isDurability(b.Durability))
}

// spent is what was measured in the slices of one kind.
type spent struct {
	answers uint64
	took    time.Duration
	ran     time.Duration // the leader
}

func (s spent) perSecond() float64 { return float64(s.answers) / s.took.Seconds() }
func (s spent) cpu() float64       { return micros(s.ran) / float64(max(s.answers, 1)) }

// Run runs the benchmark.
func (b Instrumentation) Run(ctx context.Context, progress Progress) (Report, error) {
	var overheads, slow, speedOn, speedOff, cpuOn, cpuOff []float64 // by round
	unanswered := uint64(0)
	for round := range b.Rounds {
		of, lost, err := b.round(ctx, progress, round)
		if err != nil {
			return Report{}, err
		}
		off, on := of[0], of[1]
		overheads = append(overheads, 100*(on.cpu()/off.cpu()-1))
		slow = append(slow, 100*(1-on.perSecond()/off.perSecond()))
		speedOn, speedOff = append(speedOn, on.perSecond()), append(speedOff, off.perSecond())
		cpuOn, cpuOff = append(cpuOn, on.cpu()), append(cpuOff, off.cpu())
		unanswered += lost
	}
	low, high := medianInterval(overheads)
	slowLow, slowHigh := medianInterval(slow)
	return Report{Bench: "instrumentation", Figures: map[string]float64{
		"overhead_percent": median(overheads), "overhead_percent_low": low, "overhead_percent_high": high,
		"cpu_us_per_event_with": median(cpuOn), "cpu_us_per_event_without": median(cpuOff),
		"throughput_overhead_percent":     median(slow),
		"throughput_overhead_percent_low": slowLow, "throughput_overhead_percent_high": slowHigh,
		"answers_per_s_with": median(speedOn), "answers_per_s_without": median(speedOff),
		"unanswered": float64(unanswered),
	}, Setup: map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback, which count in every second slice of %v", b.Controllers,
			b.Slice),
		"agents": "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each",
			b.Switches, b.Window),
		"overhead": "by how much the processor time of the leader for an event is more, user and system: median of " +
			"the rounds; low and high: at least 95 % confidence interval of that",
		"throughput_overhead": "by how much the answers are fewer, likewise",
		"paper":               "Beehive, figure 9: very low",
		"rounds":              b.Rounds, "measure": b.Measure.String(), "durability": b.Durability,
	}}, nil
}

// round measures a cluster: the slices without and those with.
func (b Instrumentation) round(ctx context.Context, progress Progress, round int) (of [2]spent, lost uint64,
	err error) {
	c, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: b.Controllers,
		Apps: []string{"learning"}, Durability: b.Durability})
	if err != nil {
		return of, 0, err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return of, 0, c.WithLogs(err)
	}
	operator, err := newOperator(c, "learning")
	if err != nil {
		return of, 0, err
	}
	defer operator.Close()
	defer progress.during(b.Measure, fmt.Sprintf("round %d of %d", round+1, b.Rounds))()
	r, err := load.Run(ctx, load.Config{Switches: b.Switches, Window: b.Window, Warmup: 2 * time.Second,
		Duration: b.Measure, Drain: 5 * time.Second, Dial: load.TCP(c.Agents()[0].Listen),
		Beside: func(ctx context.Context, answered func() uint64) error {
			for n := 0; ctx.Err() == nil; n++ {
				kind := [4]int{0, 1, 1, 0}[n%4] // so that what grows steadily is the same for both
				if err := b.slice(ctx, operator, leader.Pid(), kind, answered, &of[kind]); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		return of, 0, c.WithLogs(err)
	}
	return of, r.Unanswered, nil
}

// slice adds a slice of one kind. One in which ctx ends does not count.
func (b Instrumentation) slice(ctx context.Context, operator *client.Client, leader, kind int, answered func() uint64,
	sum *spent) error {
	err := operator.Count(ctx, kind == 1)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	began, ran, answers := time.Now(), runTime(leader), answered()
	select {
	case <-time.After(b.Slice):
	case <-ctx.Done():
		return nil
	}
	sum.took += time.Since(began)
	sum.ran += runTime(leader) - ran
	sum.answers += answered() - answers
	return nil
}

// minInterval is the fewest values of whose median there is a 95 % confidence interval.
const minInterval = 6

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// medianInterval returns a confidence interval, of at least 95 %, of the median of what the values are a sample of. It
// assumes nothing about the distribution: each value is below the median with probability 1/2, so the number of those
// that are is binomial. There are at least minInterval values.
func medianInterval(values []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	k, tail, exactly := 0, 0.0, math.Pow(0.5, float64(n)) // the probability that exactly k values are below
	for tail+exactly <= 0.025 {
		tail += exactly
		exactly *= float64(n-k) / float64(k+1)
		k++
	}
	return s[k-1], s[n-k]
}
