package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Suite measures the network suite, with as many of its applications as can run together: what they leave of the
// reactive forwarding of the learning switch, how fast paths are installed, and how soon a trigger fires. Each
// measurement has a cluster of three controllers of its own.
type Suite struct {
	Binary     string // the holdfast binary
	Switches   int    // fake ones, for forwarding
	Window     int    // packet-ins outstanding for each of them
	Seconds    int    // how long each measurement of forwarding lasts
	Paths      int    // that are installed together, over two or three of sixteen other switches
	Rounds     int
	Groups     string // 1, or PerController
	Durability string
}

// SuiteApps are the applications that run beside the one that forwards, which comes last.
var SuiteApps = []string{"firewall", "topology", "edge", "devices", "monitor", "node", path.Name, "graph", "kandoo",
	"queue", "kv", "learning"}

// onosPaths is how many paths a second the authors of ONOS measured; suiteGoal is ours.
const onosPaths, suiteGoal = 18_000, 30_000

// Validate returns a *FieldError for a value that cannot be.
func (s Suite) Validate() error {
	return cmp.Or(inRange("switches", s.Switches, 1, load.MaxSwitches), inRange("window", s.Window, 1, load.MaxWindow),
		inRange("seconds", s.Seconds, 1, 3600), inRange("paths", s.Paths, 1, maxLinePaths),
		inRange("rounds", s.Rounds, 1, 100), isGroups(s.Groups), isDurability(s.Durability))
}

// Run runs the benchmark.
func (s Suite) Run(ctx context.Context, progress Progress) (Report, error) {
	of := map[string][]float64{}
	parts := []func(context.Context, Progress, map[string]float64) error{s.learning, s.suite, s.line}
	for round := range s.Rounds {
		f := map[string]float64{}
		for i, part := range inTurn(slices.Clone(parts), round) {
			show := func(done float64, what string) {
				progress.show((float64(round)+(float64(i)+done)/float64(len(parts)))/float64(s.Rounds),
					fmt.Sprintf("round %d of %d: %s", round+1, s.Rounds, what))
			}
			if err := part(ctx, show, f); err != nil {
				return Report{}, err
			}
		}
		f["ratio_suite"] = f["answers_per_s_suite"] / f["answers_per_s_learning"]
		for name, v := range f {
			of[name] = append(of[name], v)
		}
	}
	figures := medians(of)
	figures[PaperPrefix+"path_installs_per_s"] = onosPaths
	return Report{Bench: "suite", Figures: figures, Setup: map[string]any{
		"controllers": "3 processes on loopback, a cluster of its own for each measurement", "agents": "1 process",
		"groups": s.Groups, "durability": s.Durability, "suite": strings.Join(SuiteApps, ", "),
		"forwarding": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, %d packet-ins outstanding each, "+
			"from hosts that are known; an answer is a flow-mod; %d s", s.Switches, s.Window, s.Seconds),
		"paths": fmt.Sprintf("%d over 2 or 3 of %d other fake switches, by requests over HTTP of up to %d each, "+
			"%d at a time, to the suite; until the first switch of the last one has its entry; us_per_path: processor "+
			"time until then, measured again if the leader changes; p50: one at a time",
			s.Paths, lineSwitches, linePathsTogether, lineClients),
		"trigger": "from when the counters of a port rise until the trigger is raised over HTTP: half the time " +
			"between two polls, and the work",
		"paper":   "ONOS (HotSDN 2014), on other machines",
		"goal":    fmt.Sprintf("%d path installs/s", suiteGoal),
		"figures": "medians of the rounds", "rounds": s.Rounds,
	}}, nil
}

// learning measures the learning switch alone.
func (s Suite) learning(ctx context.Context, progress Progress, f map[string]float64) (err error) {
	f["answers_per_s_learning"], err = s.answers(ctx, progress, "learning", "learning")
	return err
}

// suite measures it with the others.
func (s Suite) suite(ctx context.Context, progress Progress, f map[string]float64) (err error) {
	f["answers_per_s_suite"], err = s.answers(ctx, progress, "the suite", SuiteApps...)
	return err
}

func (s Suite) answers(ctx context.Context, progress Progress, what string, apps ...string) (float64, error) {
	c, leader, end, err := s.start(ctx, apps...)
	if err != nil {
		return 0, err
	}
	defer end()
	if err := permit(ctx, leader, apps); err != nil {
		return 0, c.WithLogs(err)
	}
	cfg := load.Config{Switches: s.Switches, Window: s.Window, MACsPerSwitch: max(1, steadyHosts/s.Switches),
		Dial: load.At(c.Agents()[0].Listen), Warmup: 2 * time.Second, Drain: 5 * time.Second,
		Duration: time.Duration(s.Seconds) * time.Second}
	stop := progress.during(cfg.Warmup+cfg.Duration, "forwarding by "+what)
	r, err := load.Run(ctx, cfg)
	stop()
	if err != nil {
		return 0, c.WithLogs(fmt.Errorf("forwarding by %s: %w", what, err))
	}
	return r.PerSecond, nil
}

// start runs a cluster.
func (s Suite) start(ctx context.Context, apps ...string) (*cluster.Cluster, *cluster.Controller, func(), error) {
	cfg := cluster.Config{Binary: s.Binary, Apps: apps, Durability: s.Durability}
	if s.Groups == PerController {
		cfg.Sections = "groups: " + PerController + "\n"
	}
	c, end, err := startCluster(ctx, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	leader, err := c.WaitLeader(ctx)
	if err == nil {
		err = c.WaitHome(ctx)
	}
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return c, leader, end, nil
}

// permit has the firewall, if there is one, let everything pass.
func permit(ctx context.Context, at *cluster.Controller, apps []string) error {
	if !slices.Contains(apps, "firewall") {
		return nil
	}
	client := newWebClient(1)
	defer client.close()
	_, err := client.repeat(ctx, at, "PUT", "/apps/firewall/list", []byte(`{"default": "allow"}`))
	return err
}

// line measures paths and triggers on a line of switches.
func (s Suite) line(ctx context.Context, progress Progress, f map[string]float64) error {
	found, err := underOneLeader(func() (lineRun, error) { return s.lineOnce(ctx, progress) })
	maps.Copy(f, found)
	return err
}

// lineRun is a measurement on a line of switches, and the terms of the leader before and after it.
type lineRun struct {
	figures       map[string]float64
	before, after uint64
}

// maxMeasured bounds how often something is measured until the leader does not change meanwhile.
const maxMeasured = 3

// underOneLeader measures again if the leader has changed: what was used as the leader and as a follower is not known
// then.
func underOneLeader(measure func() (lineRun, error)) (map[string]float64, error) {
	for range maxMeasured {
		m, err := measure()
		if err != nil || m.before == m.after {
			return m.figures, err
		}
	}
	return nil, fmt.Errorf("the leader changed during each of %d measurements: run it with less other load",
		maxMeasured)
}

func (s Suite) lineOnce(ctx context.Context, progress Progress) (m lineRun, err error) {
	c, leader, end, err := s.start(ctx, SuiteApps...)
	if err != nil {
		return m, err
	}
	defer end()
	if err := permit(ctx, leader, SuiteApps); err != nil {
		return m, c.WithLogs(err)
	}
	agent := c.Agents()[0]
	l, err := newLine(ctx, agent.Listen, leader)
	if err != nil {
		return m, c.WithLogs(err)
	}
	defer l.close()
	if leader, m.before, err = leaderOf(ctx, c); err != nil {
		return m, err
	}
	l.users = usersOf(c, leader, "switches") // which are in this process, as are the clients
	l.users["agent"] = []int{agent.Pid()}
	m.figures = map[string]float64{}
	steps := []func(context.Context, *cluster.Controller, int) (map[string]float64, error){l.single, l.triggers, l.many}
	for i, step := range steps {
		progress.show(float64(i)/float64(len(steps)), "paths and triggers on a line of switches")
		found, err := step(ctx, leader, s.Paths)
		if err != nil {
			return m, c.WithLogs(err)
		}
		maps.Copy(m.figures, found)
	}
	_, m.after, err = leaderOf(ctx, c)
	return m, err
}

// leaderOf returns the leader, and its term.
func leaderOf(ctx context.Context, c *cluster.Cluster) (*cluster.Controller, uint64, error) {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return nil, 0, err
	}
	status, err := leader.Status(ctx)
	return leader, status.Term, err
}
