package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/sim"
)

func TestSimSeeds(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), strings.Fields("sim --from 1 --seeds 2 --json")...)
	var sum sim.Summary
	if err := json.Unmarshal([]byte(stdout), &sum); err != nil {
		t.Fatalf("%v: %q", err, stdout)
	}
	if code != 0 || sum.Seeds != 2 || sum.Commands == 0 || len(sum.Failed) > 0 {
		t.Errorf("exit code %d, said %q: %+v", code, stderr, sum)
	}
}

// A disk that skips fsync loses acknowledged data in a power failure. The command reports the violation, and fails.
func TestSimThatBreaks(t *testing.T) {
	for seed := range uint64(100) {
		sc := sim.NewScenario(seed + 1)
		sc.Fsync, sc.LyingDisks, sc.RealDisk = true, true, false
		for i := range sc.Faults {
			if sc.Faults[i].Kind == sim.KillController {
				sc.Faults[i].Kind = sim.PowerOff
			}
		}
		if sim.Run(sc).Violation == nil {
			continue
		}
		b, err := json.Marshal(sc)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "scenario.json")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t.Context(), "sim", "--scenario", file)
		if code == 0 || !strings.Contains(stdout, "what happened last") || !strings.Contains(stderr, "seed ") {
			t.Errorf("exit code %d, printed %q, said %q", code, stdout, stderr)
		}
		return
	}
	t.Error("no seed broke")
}
