package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/bfd/sentry"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/outage"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

const (
	recoveryMaxSamples    = 10_000
	recoveryMaxIntervalMs = 1000
	recoveryMaxMultiplier = 255
)

// processorWait is how long an Open vSwitch with real-time priority may have to wait for a processor of a machine that
// has nothing else to do: see docs/design/bfd.md.
const processorWait = 4 * time.Millisecond

// sentryBelowMs is the interval below which the BFD of Open vSwitch takes links for dead that are not: see
// docs/design/bfd.md.
const sentryBelowMs = 15

// elsewhere is the interval of BFD on links that make no difference, where it cannot be short on all.
const elsewhere = 100 * time.Millisecond

// recoveryNetwork is one of the paper's figure 3: hosts are at the first and the last switch.
type recoveryNetwork struct {
	name   string
	graph  func() *paths.Graph
	stream time.Duration // between two frames
	// interval at which two processors carry BFD on all links; below, the links that the stream cannot come by have
	// elsewhere
	least time.Duration
	paper map[int]float64 // mean recovery in ms, by BFD interval in ms: figure 7
}

var recoveryNetworks = []recoveryNetwork{
	{"triangle", graphs.Triangle, 500 * time.Microsecond, 0, map[int]float64{1: 3.4, 5: 15.0, 15: 42.1}},
	{"ring", graphs.Ring, 500 * time.Microsecond, 0, map[int]float64{1: 3.3, 5: 15.4, 15: 46.2}},
	// the paper sent less often here too
	{"usnet", graphs.USNET, time.Millisecond, 10 * time.Millisecond, map[int]float64{5: 13.6}},
}

// Recovery measures the time from the death of a link until frames flow again, without a controller, in one of the
// paper's networks (van Adrichem et al., Fast Recovery in Software-Defined Networks, figure 7) of Open vSwitches in
// network namespaces (root). The machine should have nothing else to do.
type Recovery struct {
	Binary     string // the holdfast binary, for its sentries
	Topology   string // triangle, ring or usnet
	IntervalMs int    // how often BFD sends
	Multiplier int    // how many packets BFD misses before a link is dead; 0: 3, or more at short intervals
	Samples    int    // how often a link is cut
	Cut        string // silent or carrier
	Detector   string // switch or sentry; "": by interval
	Realtime   bool   // switches, stream and sentry go before other processes
}

// Validate returns a *FieldError for a value that cannot be, or an error of the timers of a sentry.
func (b Recovery) Validate() error {
	_, err := b.complete()
	return err
}

// complete sets the detector and the multiplier if they are not given, and returns the network.
func (b *Recovery) complete() (recoveryNetwork, error) {
	i := slices.IndexFunc(recoveryNetworks, func(n recoveryNetwork) bool { return n.name == b.Topology })
	if i < 0 {
		return recoveryNetwork{}, &FieldError{"topology", b.Topology, "triangle, ring or usnet"}
	}
	if b.Cut != "silent" && b.Cut != "carrier" {
		return recoveryNetwork{}, &FieldError{"cut", b.Cut, "silent or carrier"}
	}
	switch b.Detector {
	case "switch", "sentry":
	case "":
		if b.Detector = "switch"; b.IntervalMs < sentryBelowMs {
			b.Detector = "sentry"
		}
	default:
		return recoveryNetwork{}, &FieldError{"detector", b.Detector, "switch or sentry"}
	}
	if err := cmp.Or(inRange("samples", b.Samples, 1, recoveryMaxSamples),
		inRange("bfd-interval-ms", b.IntervalMs, 1, recoveryMaxIntervalMs),
		inRange("multiplier", b.Multiplier, 0, recoveryMaxMultiplier)); err != nil {
		return recoveryNetwork{}, err
	}
	if b.Multiplier == 0 {
		if b.Detector == "sentry" {
			b.Multiplier = sentry.Multiplier(b.interval())
		} else {
			b.Multiplier = bfd.MultiplierFor(b.interval(), processorWait)
		}
	}
	if b.Detector == "sentry" {
		if err := sentry.CheckTimers(b.interval(), b.Multiplier); err != nil {
			return recoveryNetwork{}, err
		}
	}
	return recoveryNetworks[i], nil
}

func (b Recovery) interval() time.Duration {
	return time.Duration(b.IntervalMs) * time.Millisecond
}

// Run runs the benchmark.
func (b Recovery) Run(ctx context.Context, progress Progress) (Report, error) {
	network, err := b.complete()
	if err != nil {
		return Report{}, err
	}
	r, err := b.cutLinks(ctx, network, progress)
	if err != nil {
		return Report{}, err
	}
	return b.report(network, r), nil
}

func (b Recovery) cutLinks(ctx context.Context, n recoveryNetwork, progress Progress) (outage.Result, error) {
	g := n.graph()
	all := g.Switches()
	cfg := outage.Config{
		Graph: g, From: all[0], To: all[len(all)-1], Interval: b.interval(), Multiplier: b.Multiplier,
		Samples: b.Samples, Carrier: b.Cut == "carrier", Realtime: b.Realtime, Every: n.stream, Progress: progress.show,
	}
	if b.Detector == "sentry" {
		cfg.Sentry = b.Binary
	} else if b.interval() < n.least {
		cfg.Elsewhere = elsewhere
	}
	return outage.Run(ctx, cfg)
}

// outagesMs are the samples in milliseconds.
func outagesMs(r outage.Result) (ms []float64) {
	for _, s := range r.Samples {
		ms = append(ms, s.Outage.Seconds()*1e3)
	}
	return ms
}

func (b Recovery) report(n recoveryNetwork, r outage.Result) Report {
	ms := outagesMs(r)
	var sum float64
	for _, v := range ms {
		sum += v
	}
	var resolution []float64
	for _, s := range r.Samples {
		resolution = append(resolution, s.Resolution.Seconds()*1e3)
	}
	figures := map[string]float64{
		"recovery_ms_min": quantile(ms, 0), "recovery_ms_mean": sum / float64(max(1, len(ms))),
		"recovery_ms_median": quantile(ms, 0.5),
		"recovery_ms_p95":    quantile(ms, 0.95), "recovery_ms_max": quantile(ms, 1), "samples": float64(len(ms)),
		"resolution_ms_p95": quantile(resolution, 0.95), "cuts_without_loss": float64(r.Unharmed),
		"frames_lost_while_whole":        float64(r.Lost),
		"false_alarms":                   float64(r.FalseAlarms),
		"false_alarms_per_minute":        float64(r.FalseAlarms) / max(r.Watched.Minutes(), 1e-9),
		"false_alarms_processor_stopped": float64(r.Stops.FalseAlarms), "processor_stops": float64(r.Stops.Count),
		"processor_stop_ms_max":         r.Stops.Longest.Seconds() * 1e3,
		"processor_stop_chance_percent": 100 * r.Stops.Chance,
		"watched_s":                     r.Watched.Seconds(), "processor_wait_ms_max": r.Late.Seconds() * 1e3,
		"cpu_pressure_percent": 100 * r.Pressure,
	}
	if mean, ok := n.paper[b.IntervalMs]; ok {
		figures["paper_recovery_ms_mean"] = mean
	}
	return Report{Bench: "recovery", Figures: figures, Setup: b.setup(n, r), Plot: b.plot(n, r)}
}

func (b Recovery) setup(n recoveryNetwork, r outage.Result) map[string]any {
	var way []openflow.DatapathID
	for _, l := range r.Path {
		way = append(way, l.From.Switch)
	}
	way = append(way, r.Path[len(r.Path)-1].To.Switch)
	cut := "all that enters the link is lost, at both ends, and the ports stay up"
	if b.Cut == "carrier" {
		cut = "the port at the far end goes down"
	}
	priority := "SCHED_FIFO for ovs-vswitchd, the stream, what cuts, and a sentry, not for the kernel's threads"
	switch {
	case !b.Realtime:
		priority = "none"
	case r.Realtime != nil:
		priority = fmt.Sprintf("none: %v", r.Realtime)
	}
	stops := "times of 2 ms and more in which a processor did not even run what goes before all else"
	if r.Stops.Err != nil {
		stops = fmt.Sprintf("times of 2 ms and more in which a processor did not run what waits for it; also for "+
			"other processes, as there is no priority: %v", r.Stops.Err)
	}
	g := n.graph()
	watch := fmt.Sprintf("every %d ms, multiplier %d, at both ends of every link", b.IntervalMs, b.Multiplier)
	limit := "a switch that waits longer for a processor than multiplier less one intervals is a false alarm, and " +
		"all may be when the host stops the processors: processor_stopped are the alarms " +
		"from such a stop until 5 ms after it, and chance is the share of the time that this is"
	if b.Detector == "sentry" {
		watch += ", by a sentry, one process on one processor for all switches, which excuses its own standstills; " +
			"behind it the BFD of the switches at 100 ms × 3"
		limit = "what stops this machine stops both ends of a link; on machines of their own, one that stands " +
			"still for longer than multiplier less one intervals is a false alarm at its neighbours"
	} else if b.interval() < n.least {
		watch += fmt.Sprintf(" that the stream goes by or comes to go by, which are %d; every %v on the others, "+
			"since two processors carry no more", r.Quick, elsewhere)
	}
	return map[string]any{
		"network": fmt.Sprintf("%s: %d switches, %d links; link-disjoint backups; no controller", n.name,
			len(g.Switches()), len(g.Links())/2),
		"switches": fmt.Sprintf("%s, one for each switch, userspace datapath, network namespaces, veth", r.Version),
		"bfd":      fmt.Sprintf("%s: a dead link is noticed after up to %d ms", watch, b.IntervalMs*b.Multiplier),
		"stream": fmt.Sprintf("a frame every %v, switches %s", n.stream,
			strings.Trim(strings.Join(strings.Fields(fmt.Sprintf("%d", way)), " - "), "[]")),
		"cut": cut + "; the links of the way, in turn", "priority": priority, "processors": runtime.NumCPU(),
		"recovery":        "from the sending of the first frame lost to that of the first after the last lost",
		"false_alarms":    "links that BFD took for dead and that were not cut",
		"processor_stops": stops,
		"limit":           limit,
		"paper":           "mean (figure 7); Open vSwitch of 2014, a machine of 4 cores for each switch, multiplier 3",
	}
}
