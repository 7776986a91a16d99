package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// mininetTrial is a network of mininet with a cluster of three controllers, and what happens to it.
type mininetTrial struct {
	Topology string `json:"topology"` // a name and its sizes, as mn takes them; also "fattree,4"
	Way      string `json:"way"`      // that switches connect: to an agent, to each controller, or to one follower
	Apps     string `json:"apps"`
	Kills    int    `json:"kills"` // of leaders, one after the other, while hosts ping
	Cut      bool   `json:"cut"`   // a link between switches is cut after that
}

func (m mininetTrial) String() string { return fmt.Sprintf("%s %s %s", m.Topology, m.Way, m.Apps) }

// guarantee is what the status says of all switches. One that knows a single address loses what that follower has not
// passed on when the follower dies.
func (m mininetTrial) guarantee() string {
	if m.Way == "one" {
		return "at-most-once"
	}
	return "exactly-once"
}

// mininetResult is what testdata/mininet.py writes.
type mininetResult struct {
	DroppedBefore float64 `json:"dropped_before"` // percentage, of one ping between all pairs of hosts
	DroppedAfter  float64 `json:"dropped_after"`
	Killed        []string
	Pings         []mininetPings // while leaders are killed
	PingsOfCut    []mininetPings `json:"pings_of_cut"`
	Guarantees    []string
	Switches      int
}

// mininetPings are those from one host to another.
type mininetPings struct {
	Name     string
	Answered int
	Lost     []int // sequence numbers of pings without an answer before the last one with an answer
	Repeated int
}

// check reports whether pings are lost, beyond a number that may be, or answered twice. Of those that began late, on a
// busy machine, there are few.
func (p mininetPings) check(t *testing.T, mayLose int) {
	t.Helper()
	if len(p.Lost) > mayLose || p.Repeated > 0 || p.Answered < mininetRate/4 {
		t.Errorf("%s: %d pings were answered, %v lost, %d repeated", p.Name, p.Answered, p.Lost, p.Repeated)
	}
}

// mininetTrials are what HOLDFAST_MATRIX=all runs; without it, those in the gate. With application hub each packet
// takes the control path, so a lost or repeated event is a lost or repeated ping.
var mininetTrials = []struct {
	mininetTrial
	gate bool
}{
	{mininetTrial{"linear,4", "one", "hub", 1, false}, true},
	{mininetTrial{"linear,4", "agent", "hub", 3, false}, false},
	{mininetTrial{"single,3", "agent", "hub", 3, false}, false},
	{mininetTrial{"single,3", "each", "hub", 3, false}, false},
	{mininetTrial{"linear,4", "each", "hub", 3, false}, false},
	{mininetTrial{"linear,4", "each", "learning", 3, false}, false},
	{mininetTrial{"tree,2", "agent", "learning", 3, false}, false},
	{mininetTrial{"tree,2", "each", "hub", 3, false}, false},
	{mininetTrial{"tree,2", "one", "hub", 3, false}, false},
	{mininetTrial{"torus,3,3", "agent", "recovery", 2, true}, false},
	{mininetTrial{"torus,3,3", "each", "recovery", 2, true}, false},
	{mininetTrial{"torus,3,3", "one", "recovery", 2, true}, false},
	{mininetTrial{"fattree,4", "agent", "recovery", 2, true}, false},
	{mininetTrial{"fattree,4", "each", "recovery", 2, true}, false},
}

// mininetRate is the number of pings in a second from one host to another, and mininetOutage how many of them may be
// lost when a link is cut: those of the time in which switches detect it, at most 2 s on a busy machine.
const (
	mininetRate   = 20
	mininetOutage = 2 * mininetRate
)

// TestMininet runs networks of mininet: hosts ping each other while leaders are killed. No ping is lost or answered
// twice, except those on a link that is cut.
func TestMininet(t *testing.T) {
	notInShort(t)
	needMininet(t)
	t.Parallel()
	if everything {
		t.Run("mn", mininetCommand)
	}
	for _, trial := range mininetTrials {
		if !trial.gate && !everything {
			continue
		}
		t.Run(trial.String(), func(t *testing.T) {
			var got mininetResult
			runMininet(t, trial.mininetTrial, &got)
			t.Logf("%+v", got)
			if got.DroppedBefore != 0 || got.DroppedAfter != 0 {
				t.Errorf("of pings between all hosts, %v %% were dropped, and %v %% after the faults",
					got.DroppedBefore, got.DroppedAfter)
			}
			if len(got.Killed) != trial.Kills {
				t.Errorf("killed %v, not %d leaders", got.Killed, trial.Kills)
			}
			if want := []string{trial.guarantee()}; !slices.Equal(got.Guarantees, want) {
				t.Errorf("the guarantees of %d switches are %q, not %q", got.Switches, got.Guarantees, want)
			}
			if len(got.Pings) != 2 || trial.Cut && len(got.PingsOfCut) != 2 {
				t.Errorf("the pings are %v, and %v during a cut", got.Pings, got.PingsOfCut)
			}
			for _, p := range got.Pings {
				p.check(t, 0)
			}
			for _, p := range got.PingsOfCut {
				p.check(t, mininetOutage)
			}
		})
	}
}

// mininetCommand runs mn as a user does, with the address of each controller in turn, and with all three.
func mininetCommand(t *testing.T) {
	var results []string
	runMininet(t, "mn", &results)
	if len(results) != 4 {
		t.Fatalf("mn ran 4 times, and printed %q", results)
	}
	for _, r := range results {
		if !strings.Contains(r, " 0% dropped ") {
			t.Error(r)
		}
	}
}

// needMininet skips the test, or fails it where nothing may be missing.
func needMininet(t *testing.T) {
	t.Helper()
	needOVS(t)
	for _, c := range []struct{ command, pkg string }{{"mn", "mininet"}, {"ping", "iputils-ping"}} {
		if _, err := exec.LookPath(c.command); err != nil {
			const text = "%s is not installed: apt-get install %s"
			if os.Getenv(netlab.RequireEnv) == "1" {
				t.Fatalf(text, c.command, c.pkg)
			}
			t.Skipf(text, c.command, c.pkg)
		}
	}
}

// runMininet runs testdata/mininet.py on a private machine: with namespaces of its own for the network, processes and
// mounts, and an Open vSwitch of its own. These end with the test, whatever mininet leaves behind.
func runMininet(t *testing.T, trial, result any) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mininet-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	// All files are in dir, because the private machine has another /tmp.
	check(t, os.CopyFS(filepath.Join(dir, "holdfast"), os.DirFS("../../python/holdfast")))
	copyFile(t, "testdata/mininet.py", filepath.Join(dir, "trial.py"))
	copyFile(t, "testdata/mininet.sh", filepath.Join(dir, "machine.sh"))
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	copyFile(t, plain, filepath.Join(dir, "bin", "holdfast"))

	options, err := json.Marshal(trial)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	defer cancel()
	// mn is a program of the Python of the system, which has mininet.
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", filepath.Join(dir, "machine.sh"), dir, "/usr/bin/python3", "/mnt/trial.py", string(options))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "HOLDFAST=/mnt/bin/holdfast")
	ended := make(chan error, 1)
	check(t, lifeline.Start(cmd, func() { ended <- cmd.Wait() }))
	if err := <-ended; err != nil {
		t.Fatalf("%s: %v\n%s", options, err, out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	check(t, err)
	check(t, json.Unmarshal(text, result))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	check(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	check(t, err)
	_, err = io.Copy(out, in)
	check(t, err)
	check(t, out.Close())
}
