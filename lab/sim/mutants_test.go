//go:build mutants

package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

const module = "github.com/holdfast-sdn/holdfast"

var mutantSeeds = flag.Int("patience", 1000, "how many seeds a mutant may survive")

// The swarm finds each bug. It reports that the code is broken, not where.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	known := func(name string) bool {
		return slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name })
	}
	for name := range begins {
		if !known(name) {
			t.Errorf("there is a seed to begin with for %q, and no such bug", name)
		}
	}
	for _, name := range slow {
		if !known(name) {
			t.Errorf("%q is slow to find, and no such bug", name)
		}
	}
	for name := range scenarios {
		if !known(name) {
			t.Errorf("there is a scenario for %q, and no such bug", name)
		}
	}
	swarm := filepath.Join(t.TempDir(), "swarm")
	if err := mutation.Build(root, module, "./lab/sim/swarm", swarm, seeded()); err != nil {
		t.Fatal(err)
	}
	t.Run("none", func(t *testing.T) { // so that a failure is due to the bug, and not to the way it is inserted
		t.Parallel()
		if sum, died := run(t, swarm, "", "-seeds", "5"); len(sum.Failed) > 0 || died != "" {
			t.Errorf("without any bug: %+v\n%s", sum.Failed, died)
		}
	})
	for _, m := range mutants {
		if slices.Contains(slow, m.name) && os.Getenv("HOLDFAST_MATRIX") != "all" {
			continue
		}
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			sum, died := run(t, swarm, m.name, "-seeds", strconv.Itoa(*mutantSeeds), "-from",
				strconv.FormatUint(max(1, begins[m.name]), 10), "-scenario", scenarios[m.name])
			if died != "" {
				t.Logf("caught: %s", died)
				return
			}
			if len(sum.Failed) == 0 {
				t.Fatalf("%d seeds, %v simulated, and nobody noticed", sum.Seeds, sum.Simulated)
			}
			t.Logf("caught by seed %d after %d seeds in %v: %v", sum.Failed[0].Scenario.Seed, sum.Seeds, sum.Elapsed,
				sum.Failed[0].Violation)
		})
	}
}

// slow are bugs that the swarm takes long to find: in one run they took most of the time of all. The gate leaves them
// out.
var slow = []string{
	"take an older assignment",
	"execute events of a switch that has departed",
	"lose the timers at failover",
	"keep at the end of a leadership what was sent and not committed",
	"take what is below the marker for answered",
	"take each session that comes with a switch for out of sync",
	"take commands of who is not master",
	"write a row whose version is not that of the condition",
	"take what arrives from two groups for one move",
	"execute a late copy of a request whose answer was acknowledged",
}

// begins has the seed that each of these bugs begins with, because lower ones do not find it. After a change of a core
// another seed may be the first that finds a bug: the test then takes longer, and with -v it prints that seed.
var begins = map[string]uint64{
	"execute a request again that was answered":                      91,
	"move one cell of an actor that has many":                        19,
	"execute a late copy of a request whose answer was acknowledged": 366,

	"answer calls that are executed and not committed": 67,
	"send a call again that may have been executed":    227,

	"drop what is for a switch that the directory does not know yet":      19,
	"do not say that commands of another group are void":                  51,
	"execute commands of another group for an epoch that has ended":       91,
	"forget at takeover what another group has not acknowledged":          111,
	"leave the items for other groups out of snapshots":                   15,
	"leave the watermark of an idle stream out of snapshots":              35,
	"keep at the end of a leadership what was received and not committed": 83,
	"keep at the end of a leadership what was sent and not committed":     15,
	"take what is below the marker for answered":                          531,
	"take a switch for a leader that was deposed":                         353,
	"refuse a switch for an epoch that the session has not heard of":      60,
	"send a switch what an earlier incarnation was to do":                 97,
	"do not ask again what is not answered":                               51,
	"send commands again in the next epoch":                               117,
	"keep a claim at a follower when the leader changes":                  36,
	"claim on all paths in one generation":                                95,
	"replace the marker of an epoch before its end is logged":             45,
	"claim out of sync":                                      96,
	"undo the oldest first":                                  44,
	"take commands of who is not master":                     209,
	"complete before the switch has acknowledged":            28,
	"take the log of a leader that was deposed for lost":     24,
	"acknowledge events that are executed and not committed": 64,
	"leave the commands out of snapshots":                    13,
	"do not believe the marker":                              15,
	"forget at takeover what the host has done":              15,
	"forget events that are sent":                            9,
	"be done with a request before its answer is told":       9,
	"acknowledge at a follower what the leader has executed": 10,
	"begin an epoch by the clock alone":                      5,
	"number an event as the one before it":                   7,
	"forget what is not complete at failover":                6,

	"lose the timers at failover":            39,
	"acknowledge in a minority":              14,
	"keep what handlers write in a minority": 14,

	"depart before everything is copied":                           15,
	"leave behind what was copied when a move is called off":       79,
	"depart without a new version":                                 3,
	"keep the timers of an actor that departs":                     3,
	"keep the cells of an actor that departs":                      3,
	"number the items of an idle stream from 1 again after a move": 3,
	"do not send what has changed since it was copied":             7,
	"leave out of snapshots who has moved":                         3,
	"leave what has arrived in part out of snapshots":              15,
	"take what arrives from two groups for one move":               15,
	"take an older assignment":                                     310,

	"end a call that is answered again when it is late":              19,
	"leave behind the commands of a switch that departs":             79,
	"leave out more commands of a switch that departs than are done": 79,
	"claim in the same generation after a move":                      99,
	"take each session that comes with a switch for out of sync":     59,
	"execute events of a switch that has departed":                   51,
	"keep the timers of an actor at a switch that departs":           55,
	"execute events of an epoch that is forgotten":                   8,
	"forget a switch that is up":                                     163,
	"keep what applications have at a switch that is forgotten":      8,
	"do not tell an agent which epochs are forgotten":                8,

	"do not send again what another group may have lost":            7,
	"kandoo: let a flow enter before the last switch has confirmed": 5,

	"execute duplicates": 7,

	"pass commands twice": 7,
}

// scenarios has a stored scenario for bugs that what the seeds draw takes too long to find. It is run with many seeds.
var scenarios = map[string]string{
	"drop what is for a switch that the directory does not know yet": "testdata/directory-behind.json",
	"acknowledge at a follower by number":                            "testdata/proxy-late-standby.json",
	"claim on all paths in one generation":                           "testdata/proxy-late-claim.json",
	"take the log of a leader that was deposed for lost":             "testdata/deposed-leader.json",
	"claim out of sync what a follower holds":                        "testdata/stock-two-of-three.json",
	"forget the session of a leader beside its proxy":                "testdata/stock-two-of-three.json",
	"keep a claim at a follower when the leader changes":             "testdata/proxy-kept-claim.json",
	"take what is below the marker for answered":                     "testdata/stock-answer-twice.json",
	"take an older assignment":                                       "testdata/older-assignment.json",
	"pass by what is on its way on a stream":                         "testdata/stream-not-empty.json",
	"do not go on with a move of the last leader":                    "testdata/move-of-last-leader.json",
	"pass commands without a number of who is not master":            "testdata/minority-cut-off.json",
	"claim a switch that was forgotten below an earlier claim":       "testdata/forgotten-claim.json",

	"do not notice that a replica differs":   "testdata/damaged-state.json",
	"compare without what applications have": "testdata/damaged-state.json",
	"name nobody who differs":                "testdata/damaged-state.json",
	"take a snapshot before the comparison":  "testdata/damaged-state.json",

	"queue: put what is repeated":                                 "testdata/suite-queue.json",
	"queue: take the next for a repeated request":                 "testdata/suite-queue.json",
	"queue: keep the timer of what is acknowledged":               "testdata/suite-queue.json",
	"tenants: do not wait for the other switches":                 "testdata/suite-tenants.json",
	"tenants: leave what is not wanted any more":                  "testdata/suite-tenants.json",
	"tenants: send to many on all links":                          "testdata/suite-tenants.json",
	"path: let frames enter before the last switch has confirmed": "testdata/suite-path.json",
	"path: remove a path everywhere at once":                      "testdata/suite-path.json",

	"firewall: use a list that is not complete":                     "testdata/suite-firewall.json",
	"firewall: install a list where the one in use is":              "testdata/suite-firewall.json",
	"router: forward by any prefix":                                 "testdata/suite-router.json",
	"router: forward a block in which there is a longer prefix":     "testdata/suite-router.json",
	"router: answer for each host of a subnet":                      "testdata/suite-router.json",
	"monitor: tell of what is above a threshold each time":          "testdata/suite-monitor.json",
	"kandoo: let a flow enter before the last switch has confirmed": "testdata/suite-kandoo.json",
	"kandoo: compare the first reply to a leader with nothing":      "testdata/suite-kandoo.json",
}

// run runs the swarm with a bug. died is the message of its panic, if it panicked.
func run(t *testing.T, swarm, bug string, args ...string) (sum Summary, died string) {
	t.Helper()
	cmd := exec.Command(swarm, args...)
	// One seed at a time: bugs are tested side by side, and what runs beside the seed that finds one is wasted.
	cmd.Env = append(os.Environ(), mutation.Env+"="+bug, "GOMAXPROCS=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		if bytes.HasPrefix(said.Bytes(), []byte("panic: ")) {
			return sum, said.String()
		}
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	if err := json.Unmarshal(out, &sum); err != nil {
		t.Fatal(err)
	}
	return sum, ""
}

// A disk that skips fsync is a fault of the environment that nothing survives. A loss of power shows it.
func TestMutantsSkippedFsync(t *testing.T) {
	for seed := range uint64(*mutantSeeds) {
		sc := NewScenario(seed + 1)
		sc.Fsync, sc.LyingDisks, sc.RealDisk = true, true, false
		for i := range sc.Faults {
			if sc.Faults[i].Kind == KillController {
				sc.Faults[i].Kind = PowerOff
			}
		}
		if r := Run(sc); r.Violation != nil {
			t.Logf("caught after %d seeds: %v", seed+1, r.Violation)
			return
		}
	}
	t.Errorf("%d seeds, and nobody noticed", *mutantSeeds)
}
