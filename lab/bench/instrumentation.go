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
// the leader needs for an event, with and without. While a cluster is under load, slices of time without, with, with
// and without follow each other, so that what grows steadily is the same for both. Each four give one ratio, and the
// overhead is the median of all ratios: what disturbs some slices, such as other work of the machine, hardly matters.
//
// Clusters differ, for example by where the memory of the process is. So there are several, one in each round, and the
// interval of the medians of rounds is another figure.
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

// spent is what was measured in a slice, or in several.
type spent struct {
	answers uint64
	took    time.Duration
	ran     time.Duration // the leader
}

func (s spent) plus(o spent) spent {
	return spent{s.answers + o.answers, s.took + o.took, s.ran + o.ran}
}
func (s spent) perSecond() float64 { return float64(s.answers) / s.took.Seconds() }
func (s spent) cpu() float64       { return micros(s.ran) / float64(max(s.answers, 1)) }

// Run runs the benchmark.
func (b Instrumentation) Run(ctx context.Context, progress Progress) (Report, error) {
	var overheads, rounds, slow, speedOn, speedOff, cpuOn, cpuOff []float64 // rounds by round, the others by four
	unanswered := uint64(0)
	for round := range b.Rounds {
		fours, lost, err := b.round(ctx, progress, round)
		if err != nil {
			return Report{}, err
		}
		first := len(overheads)
		for _, f := range fours {
			off, on := f[0].plus(f[3]), f[1].plus(f[2])
			overheads = append(overheads, 100*(on.cpu()/off.cpu()-1))
			slow = append(slow, 100*(1-on.perSecond()/off.perSecond()))
			speedOn, speedOff = append(speedOn, on.perSecond()), append(speedOff, off.perSecond())
			cpuOn, cpuOff = append(cpuOn, on.cpu()), append(cpuOff, off.cpu())
		}
		if len(overheads) == first {
			return Report{}, fmt.Errorf("round %d: in %v there were no four slices of %v: measure longer", round+1,
				b.Measure, b.Slice)
		}
		rounds = append(rounds, median(overheads[first:]))
		unanswered += lost
	}
	low, high := medianInterval(overheads)
	roundsLow, roundsHigh := medianInterval(rounds)
	slowLow, slowHigh := medianInterval(slow)
	return Report{Bench: "instrumentation", Figures: map[string]float64{
		"overhead_percent": median(overheads), "overhead_percent_low": low, "overhead_percent_high": high,
		"overhead_percent_rounds_low": roundsLow, "overhead_percent_rounds_high": roundsHigh,
		"cpu_us_per_event_with": median(cpuOn), "cpu_us_per_event_without": median(cpuOff),
		"throughput_overhead_percent":     median(slow),
		"throughput_overhead_percent_low": slowLow, "throughput_overhead_percent_high": slowHigh,
		"answers_per_s_with": median(speedOn), "answers_per_s_without": median(speedOff),
		"unanswered": float64(unanswered),
	}, Setup: map[string]any{
		"controllers": fmt.Sprintf("%d processes on loopback, which count in two of each four slices of %v",
			b.Controllers, b.Slice),
		"agents": "1 process for all switches", "app": "learning",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each",
			b.Switches, b.Window),
		"overhead": "by how much the processor time of the leader for an event is more, user and system: median of " +
			"all groups of four slices; low and high: at least 95 % confidence interval of that; rounds: the same " +
			"of the medians of rounds",
		"throughput_overhead": "by how much the answers are fewer, likewise",
		"paper":               "Beehive, figure 9: very low",
		"rounds":              b.Rounds, "measure": b.Measure.String(), "durability": b.Durability,
	}}, nil
}

// round measures a cluster: groups of slices without, with, with and without.
func (b Instrumentation) round(ctx context.Context, progress Progress, round int) (fours [][4]spent, lost uint64,
	err error) {
	c, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: b.Controllers,
		Apps: []string{"learning"}, Durability: b.Durability})
	if err != nil {
		return nil, 0, err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return nil, 0, c.WithLogs(err)
	}
	operator, err := newOperator(c, "learning")
	if err != nil {
		return nil, 0, err
	}
	defer operator.Close()
	defer progress.during(b.Measure, fmt.Sprintf("round %d of %d", round+1, b.Rounds))()
	r, err := load.Run(ctx, load.Config{Switches: b.Switches, Window: b.Window, Warmup: 2 * time.Second,
		Duration: b.Measure, Drain: 5 * time.Second, Dial: load.At(c.Agents()[0].Listen),
		Beside: func(ctx context.Context, answered func() uint64) error {
			for ctx.Err() == nil {
				var four [4]spent
				for i, counts := range []bool{false, true, true, false} {
					if err := b.slice(ctx, operator, leader.Pid(), counts, answered, &four[i]); err != nil {
						return err
					}
				}
				if ctx.Err() == nil {
					fours = append(fours, four)
				}
			}
			return nil
		}})
	if err != nil {
		return nil, 0, c.WithLogs(err)
	}
	return fours, r.Unanswered, nil
}

// slice measures a slice. One in which ctx ends does not count.
func (b Instrumentation) slice(ctx context.Context, operator *client.Client, leader int, counts bool,
	answered func() uint64, of *spent) error {
	err := operator.Count(ctx, counts)
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
	*of = spent{answered() - answers, time.Since(began), runTime(leader) - ran}
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
