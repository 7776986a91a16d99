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
)

var mutantSeeds = flag.Int("patience", 1000, "how many seeds a mutant may survive")

// The swarm finds each of them. It is told that the code is broken, not where.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name := range begins {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			t.Errorf("there is a seed to begin with for %q, and no such bug", name)
		}
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel() // while one is linked, on one processor, another runs
			cmd := exec.Command(m.build(t, root), "-from", strconv.FormatUint(max(1, begins[m.name]), 10), "-seeds",
				strconv.Itoa(*mutantSeeds))
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, said.Bytes())
			}
			var sum Summary
			if err := json.Unmarshal(out, &sum); err != nil {
				t.Fatal(err)
			}
			if len(sum.Failed) == 0 {
				t.Fatalf("%d seeds, %v simulated, and nobody noticed", sum.Seeds, sum.Simulated)
			}
			t.Logf("caught by seed %d after %d seeds in %v: %v", sum.Failed[0].Scenario.Seed, sum.Seeds, sum.Elapsed,
				sum.Failed[0].Violation)
		})
	}
}

// A disk that skips fsync is no bug of ours, and nothing survives it: losing power shows it.
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

// build makes a swarm with the bug in it.
func (m mutant) build(t *testing.T, root string) string {
	t.Helper()
	source, code := m.source(t, root)
	dir := t.TempDir()
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"),
		filepath.Join(dir, "swarm")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(strings.Replace(code, m.before, m.after, 1)),
		overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./lab/sim/swarm")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
