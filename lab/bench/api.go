package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// API measures what clients of the API cost the control path: its p99 alone and beside watchers and dashboards of one
// controller, in turn. Everything uses TLS, and each controller leads a group.
//
// Packet-ins come at a rate, as those of a network do. If the next one waited for an answer, the load would take all
// that the processors have left, whatever else runs, and the slower answers are, the fewer would be measured.
type API struct {
	Binary     string // the holdfast binary
	Load       int    // percent of what is answered with one packet-in outstanding for each switch; the most
	Busy       int    // percent of the processors' time that the control path alone uses; the most
	Watchers   int
	Dashboards int // each watches, as JSON, and asks every two seconds for what its view shows
	Slow       int // further watchers that stop reading
	Switches   int
	Seconds    int // how long each slice lasts
	Rounds     int // pairs of slices
}

// apiFactor is how much the p99 of the control path may grow.
const apiFactor = 1.2

// Validate returns a *FieldError for a value that cannot be.
func (b API) Validate() error {
	return errors.Join(inRange("load", b.Load, 1, 100), inRange("busy", b.Busy, 1, 100),
		inRange("watchers", b.Watchers, 0, 4096), inRange("dashboards", b.Dashboards, 0, 1000),
		inRange("slow", b.Slow, 0, 1000), inRange("switches", b.Switches, 1, 1000),
		inRange("seconds", b.Seconds, 1, 3600), inRange("rounds", b.Rounds, 1, 100))
}

// Times of the benchmark.
const (
	apiSettle   = 6 * time.Second // after which a controller does nothing more for watchers that have gone
	apiDatapath = 1000            // the first one
)

// Run runs the benchmark. If the bound does not hold, the report is complete, and the error is ErrBounds.
func (b API) Run(ctx context.Context, progress Progress) (Report, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: 3, Apps: []string{"learning"},
		TLS: true, Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return Report{}, err
	}
	defer end()
	if err := cl.WaitHome(ctx); err != nil {
		return Report{}, cl.WithLogs(err)
	}
	leader, err := cl.WaitLeader(ctx)
	if err != nil {
		return Report{}, err
	}
	m := apiMeasurement{API: b, progress: progress, cl: cl, leader: leader}
	if err := m.measure(ctx); err != nil {
		return Report{}, cl.WithLogs(err)
	}
	f := m.figures()
	return Report{Bench: "api", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, each leads a group", "app": "learning", "switches": b.Switches,
		"tls": "everywhere; watchers and dashboards have a certificate of the role viewer",
		"control": fmt.Sprintf("packet_ins_per_s, at equal distances: at most %d %% of answers_per_s_one_at_a_time, "+
			"which is with 1 packet-in outstanding for each switch, and at most what controllers, agent and switches "+
			"need %d %% of the processors for; a latency counts from when the packet-in was due", b.Load, b.Busy),
		"dashboards": fmt.Sprintf("%d at the leader of the system group; each watches, as JSON; of three, one asks "+
			"for the actors and one for the matrix, every %v", b.Dashboards, apiView),
		"clients":        "a process with the policy SCHED_IDLE, as they share the machine",
		"requests_per_s": "of the dashboards without a pause, and without other load",
		"slices": fmt.Sprintf("%d pairs of %d s each, alone and with clients; medians, of the ratio that of the pairs",
			b.Rounds, b.Seconds),
		"slow_readers": fmt.Sprintf("read one message and no more, and have to be cut off in %v", apiStall),
		"load_1min":    loadAverage(),
	}}, b.bounds(f)
}

// bounds returns ErrBounds if a figure is not within its bound.
func (b API) bounds(f map[string]float64) (err error) {
	if f["control_p99_ratio"] > apiFactor {
		err = fmt.Errorf("%w: control_p99_ratio is %.2f, more than %v", ErrBounds, f["control_p99_ratio"], apiFactor)
	}
	if cut := int(f["slow_cut"]); cut < b.Slow {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d slow readers were cut off", ErrBounds, cut, b.Slow))
	}
	return err
}

// apiMeasurement is a run of API, and what it has found.
type apiMeasurement struct {
	API
	progress Progress
	cl       *cluster.Cluster
	leader   *cluster.Controller

	oneAtATime  float64 // answers a second
	control     load.Config
	alone, with []apiSlice
	clients     ClientsReport // of all slices
	requests    float64       // a second
	slow        int           // readers that were cut off
}

// apiSlice is what a slice has found.
type apiSlice struct {
	p50, p99 float64 // ms
	late     float64 // ms: the p99 of how late packet-ins were sent
	used     shares
}

// measure runs all parts.
func (m *apiMeasurement) measure(ctx context.Context) error {
	dial, err := asSwitches(m.cl)
	if err != nil {
		return err
	}
	files, err := m.cl.Issue(pki.Identity{Role: pki.Viewer, Name: "viewer"})
	if err != nil {
		return err
	}
	m.control = load.Config{Mode: load.Latency, Switches: m.Switches, MACsPerSwitch: 1000, FirstDatapathID: apiDatapath,
		Dial: dial, Warmup: time.Second, Duration: time.Duration(m.Seconds) * time.Second}
	stop := m.progress.during(m.control.Warmup+m.control.Duration, "one packet-in at a time")
	r, err := load.Run(ctx, m.control)
	stop()
	if err != nil {
		return err
	}
	m.oneAtATime = r.PerSecond
	if err := m.findRate(ctx); err != nil {
		return err
	}
	if err := m.slices(ctx, Clients{Address: m.leader.API, Files: files, Watchers: m.Watchers,
		Dashboards: m.Dashboards}); err != nil {
		return err
	}
	crowd, err := newAudience(m.leader.API, files)
	if err != nil {
		return err
	}
	if m.requests, err = crowd.flat(ctx, m.Dashboards); err != nil {
		return err
	}
	defer m.progress.during(apiStall, "slow readers")()
	m.slow, err = crowd.slow(ctx, m.Slow, m.control)
	return err
}

// slices measures the control path alone and with clients, in turn.
func (m *apiMeasurement) slices(ctx context.Context, clients Clients) error {
	for range m.Rounds {
		alone, err := m.slice(ctx, "alone")
		if err != nil {
			return err
		}
		leave, err := clients.start(ctx, m.Binary)
		if err != nil {
			return err
		}
		with, err := m.slice(ctx, "with clients")
		r, left := leave()
		if err := errors.Join(err, left); err != nil {
			return err
		}
		m.clients.add(r)
		m.alone, m.with = append(m.alone, alone), append(m.with, with)
		if err := pause.For(ctx, apiSettle); err != nil {
			return err
		}
	}
	return nil
}

func (m *apiMeasurement) slice(ctx context.Context, name string) (s apiSlice, err error) {
	cfg := m.control
	defer m.progress.during(cfg.Warmup+cfg.Duration, fmt.Sprintf("control path %s", name))()
	r, used, err := m.run(ctx, cfg)
	if err == nil && r.Total.Lost > 0 {
		err = fmt.Errorf("%d packet-ins were not answered", r.Total.Lost)
	}
	s.p50, s.p99 = micros(r.Latency.Quantile(0.5))/1e3, micros(r.Latency.Quantile(0.99))/1e3
	s.late, s.used = micros(r.Late.Quantile(0.99))/1e3, used
	return s, err
}

// figures are those of the report.
func (m *apiMeasurement) figures() map[string]float64 {
	var ratios []float64
	for i := range m.with {
		ratios = append(ratios, m.with[i].p99/m.alone[i].p99)
	}
	f := map[string]float64{"requests_per_s": m.requests, "p99_ms": quantile(m.clients.Took, 0.99),
		"watchers": float64(m.Watchers), "dashboards": float64(m.Dashboards), "slow_readers": float64(m.Slow),
		"slow_cut": float64(m.slow), "messages_to_watchers": float64(m.clients.Messages),
		"packet_ins_per_s": m.control.Rate, "answers_per_s_one_at_a_time": m.oneAtATime,
		"control_p99_ratio": median(ratios), "rss_max_mb": 0}
	for name, list := range map[string][]apiSlice{"alone": m.alone, "with": m.with} {
		of := func(what func(apiSlice) float64) float64 {
			var values []float64
			for _, s := range list {
				values = append(values, what(s))
			}
			return median(values)
		}
		f["control_p50_ms_"+name] = of(func(s apiSlice) float64 { return s.p50 })
		f["control_p99_ms_"+name] = of(func(s apiSlice) float64 { return s.p99 })
		f["sent_late_p99_ms_"+name] = of(func(s apiSlice) float64 { return s.late })
		f["controllers_cpu_percent_"+name] = of(func(s apiSlice) float64 { return s.used.controllers })
		f["control_path_percent_"+name] = of(func(s apiSlice) float64 { return s.used.path })
		f["processors_busy_percent_"+name] = of(func(s apiSlice) float64 { return s.used.machine })
	}
	if rss, alive := peakMB(m.leader); alive {
		f["rss_max_mb"] = rss
	}
	return f
}

// asSwitches returns what connects switches to the agent, with a certificate.
func asSwitches(cl *cluster.Cluster) (func(context.Context, int) (net.Conn, error), error) {
	files, err := cl.Issue(pki.Identity{Role: pki.Switch, Name: "switch"})
	if err != nil {
		return nil, err
	}
	c, err := mtls.Load(files, mtls.Role(pki.Switch), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ int) (net.Conn, error) {
		return c.Dial(ctx, cl.Agents()[0].Listen, mtls.Role(pki.Agent))
	}, nil
}
