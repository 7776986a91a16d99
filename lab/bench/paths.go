package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	pathsMaxSwitches = 4096
	pathsLinks       = 4  // for each switch
	pathsChanges     = 20 // links that are cut, and mended
)

// Paths measures how long it takes to compute protected paths and what changes with a link, and what the switches need
// for them. It starts no process.
type Paths struct {
	Switches     []int // sizes of the networks
	NodeDisjoint bool  // backups avoid the next switch, not only the link to it
}

// Validate returns a *FieldError for a value that cannot be.
func (b Paths) Validate() error {
	for _, n := range b.Switches {
		if err := inRange("switches", n, 2, pathsMaxSwitches); err != nil {
			return err
		}
	}
	return nil
}

// pathsSize is what is measured at one size.
type pathsSize struct {
	switches                  int
	computeMs                 float64
	updateMs                  []float64
	changed                   []float64 // flow entries and groups, for each change
	entries, groups           float64   // mean of the switches
	entriesWorst, groupsWorst int
}

// Run runs the benchmark. It ends with the network that it is at when ctx does.
func (b Paths) Run(ctx context.Context, progress Progress) (Report, error) {
	avoid := paths.LinkDisjoint
	if b.NodeDisjoint {
		avoid = paths.NodeDisjoint
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	figures := map[string]float64{}
	var all []pathsSize
	for i, n := range slices.Sorted(slices.Values(b.Switches)) {
		progress.show(float64(i)/float64(len(b.Switches)), fmt.Sprintf("%d switches", n))
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		s, err := measurePaths(n, avoid)
		if err != nil {
			return Report{}, fmt.Errorf("paths of %d switches: %w", n, err)
		}
		all = append(all, s)
		for name, v := range map[string]float64{
			"compute_ms": s.computeMs, "update_ms": quantile(s.updateMs, 0.5), "update_ms_max": quantile(s.updateMs, 1),
			"changed_per_update": quantile(s.changed, 0.5),
			"entries_per_switch": s.entries, "entries_per_switch_max": float64(s.entriesWorst),
			"groups_per_switch": s.groups, "groups_per_switch_max": float64(s.groupsWorst),
		} {
			figures[fmt.Sprintf("%s_%d", name, n)] = v
		}
	}
	if n := len(all); n > 1 && all[n-2].switches < all[n-1].switches {
		a, b := all[n-2], all[n-1]
		growth := func(v, w float64) float64 {
			return math.Log(w/v) / math.Log(float64(b.switches)/float64(a.switches))
		}
		figures["compute_growth"] = growth(a.computeMs, b.computeMs)
		figures["update_growth"] = growth(quantile(a.updateMs, 0.5), quantile(b.updateMs, 0.5))
		figures["entries_growth"] = growth(a.entries, b.entries)
		figures["groups_growth"] = growth(a.groups, b.groups)
	}
	return Report{Bench: "paths", Figures: figures, Setup: map[string]any{
		"networks": fmt.Sprintf("24 switches: USNET; others: random, %d links for each switch, costs 1 to 10",
			pathsLinks), "backups": avoid.String(),
		"compute": "routes between all pairs, and the program of every switch",
		"update": fmt.Sprintf("routes, and what to send in which order, after one link is cut or mended; %d of each",
			pathsChanges),
		"changed": "flow entries and groups added, changed and deleted in all switches; median of the updates",
		"time":    "CPU time of the process, on one core",
		"growth":  "exponent of the number of switches, between the two largest sizes",
		"hosts":   "one at each switch; each has an entry in every switch",
	}}, nil
}

func measurePaths(n int, avoid paths.Disjoint) (out pathsSize, err error) {
	g := graphs.USNET()
	if n != 24 {
		g = graphs.Random(1, n, pathsLinks*n, 10)
	}
	var hosts []protect.Host
	for i, s := range g.Switches() {
		hosts = append(hosts, protect.Host{MAC: of13.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)},
			At: paths.End{Switch: s, Port: protect.MaxPort}})
	}
	out.switches = n
	var plan *protect.Plan
	out.computeMs, err = cpuMs(func() error {
		routes, err := paths.Protect(g, g.Switches(), avoid)
		if err != nil {
			return err
		}
		if plan, err = protect.Compile(routes, hosts,
			protect.Config{MaxEntries: math.MaxInt, MaxGroups: math.MaxInt}); err != nil {
			return err
		}
		for _, s := range g.Switches() {
			plan.Program(s)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for _, s := range g.Switches() {
		entries, groups := plan.Size(s)
		out.entries += float64(entries) / float64(n)
		out.groups += float64(groups) / float64(n)
		out.entriesWorst, out.groupsWorst = max(out.entriesWorst, entries), max(out.groupsWorst, groups)
	}
	for i := range pathsChanges {
		link := g.Links()[i*len(g.Links())/pathsChanges]
		without, err := out.update(plan, g.Without(link.From), hosts)
		if err != nil {
			return out, err
		}
		if _, err := out.update(without, g, hosts); err != nil {
			return out, err
		}
	}
	return out, nil
}

// update measures what leads from a plan to that of another network.
func (s *pathsSize) update(plan *protect.Plan, g *paths.Graph, hosts []protect.Host) (next *protect.Plan, err error) {
	var rounds []protect.Round
	ms, err := cpuMs(func() error {
		routes, err := plan.Routes().Update(g, g.Switches())
		if err != nil {
			return err
		}
		if next, err = plan.Update(routes, hosts); err != nil {
			return err
		}
		rounds = next.Rounds(plan)
		return nil
	})
	changed := 0
	for _, r := range rounds {
		for _, c := range r {
			changed += len(c.AddGroups) + len(c.Add) + len(c.Set) + len(c.Delete) + len(c.DeleteGroups)
		}
	}
	s.updateMs, s.changed = append(s.updateMs, ms), append(s.changed, float64(changed))
	return next, err
}

// cpuMs returns the CPU time that do costs: what else the machine does is not in it.
func cpuMs(do func() error) (float64, error) {
	spent := func() (time.Duration, error) {
		var u unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
	}
	runtime.GC() // what was left over is not its own
	before, err1 := spent()
	err := do()
	after, err2 := spent()
	return float64(after-before) / 1e6, cmp.Or(err, err1, err2)
}
