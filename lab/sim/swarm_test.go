package sim

import (
	"flag"
	"runtime/debug"
	"testing"
	"time"
)

var (
	seeds = flag.Int("seeds", 60, "how many seeds TestSwarm runs")
	from  = flag.Uint64("from", 1, "the first of them")
)

// The seeds are the same in each run, so that whether a change fails does not depend on luck. `holdfast sim` uses
// new ones.
func TestSwarm(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // runs make much garbage and keep little
	n := *seeds
	if testing.Short() {
		n = min(n, 20)
	}
	last := time.Now()
	sum := Swarm{From: *from, Seeds: n, Progress: func(s Summary) {
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			t.Logf("%d seeds, %v simulated in %v", s.Seeds, s.Simulated.Round(time.Second),
				s.Elapsed.Round(time.Second))
		}
	}}.Run(t.Context())
	for _, f := range sum.Failed {
		for _, line := range f.Timeline {
			t.Log(line)
		}
		t.Errorf("%s%v\nrepeat it with: holdfast sim --seed %d", f.Scenario, f.Violation, f.Scenario.Seed)
	}
	t.Logf("%d seeds, %d faults, %d leaders, %d events, %d commands, %d items between groups, %d moves of actors and "+
		"%d of switches, %d requests over HTTP, %d to the store, %d looks at "+
		"switches, %d commands in minorities; %v simulated in %v, %.0f s in each second",
		sum.Seeds, sum.Faults, sum.Terms,
		sum.Events, sum.Commands, sum.Items, sum.Moves, sum.SwitchMoves, sum.Requests, sum.Store, sum.Looks, sum.Degraded,
		sum.Simulated.Round(time.Second), sum.Elapsed.Round(time.Second),
		sum.Simulated.Seconds()/sum.Elapsed.Seconds())
	if sum.Seeds == n && n >= 60 && sum.Looks == 0 {
		t.Errorf("nobody looked at what switches forward for applications of the suite")
	}
	if sum.Seeds == n && (sum.Events == 0 || sum.Commands == 0 || sum.Items == 0 || sum.Moves == 0 ||
		sum.SwitchMoves == 0 || sum.Requests == 0 || sum.Store == 0 || sum.Degraded == 0 || sum.Terms < uint64(n) ||
		sum.Faults < n) {
		t.Errorf("nothing much happened")
	}
}

// A run depends only on its scenario.
func TestRunDependsOnItsScenarioAlone(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 7, 8, 12, 103, 132} { // the last three try the network suite
		a, b := Run(NewScenario(seed)), Run(NewScenario(seed))
		if a.Digest != b.Digest || a.Steps != b.Steps || a.Events != b.Events || a.Commands != b.Commands ||
			a.Simulated != b.Simulated {
			t.Errorf("seed %d: %+v, and then %+v", seed, a, b)
		}
	}
}

// holds runs a scenario, in which nothing may be violated.
func holds(t *testing.T, sc Scenario) Result {
	t.Helper()
	if err := sc.Validate(); err != nil {
		t.Fatal(err)
	}
	r := Run(sc)
	if r.Violation != nil {
		for _, line := range r.Timeline {
			t.Log(line)
		}
		t.Fatalf("%s%v", sc, r.Violation)
	}
	return r
}

// quietScenario is the network in which the speed of the simulator is measured.
func quietScenario() Scenario {
	return Scenario{Seed: 1, Controllers: 3, Switches: 4, PerAgent: 1, Duration: 60 * time.Second,
		SwitchTimeout: 3 * time.Second,
		SnapshotEvery: 5000, Learning: true, Fsync: true, FramesPerSecond: 2}
}

func BenchmarkRun(b *testing.B) {
	simulated := time.Duration(0)
	for b.Loop() {
		r := Run(quietScenario())
		if r.Violation != nil {
			b.Fatal(r.Violation)
		}
		simulated += r.Simulated
	}
	b.ReportMetric(simulated.Seconds()/b.Elapsed().Seconds(), "simulated-s/s")
}
