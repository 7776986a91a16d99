//go:build mutants

package shells

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

var mutantSeeds = flag.Int("patience", 100, "how many seeds a mutant may survive")

// The swarm fails, or does not end, with each bug, and passes without.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(t.TempDir(), "shells.test")
	if err := mutation.BuildTest(root, "github.com/holdfast-sdn/holdfast", "./lab/shells", tests, mutants); err != nil {
		t.Fatal(err)
	}
	run := func(bug string, seeds int) (string, error) {
		cmd := exec.Command(tests, "-test.run=^TestSwarm$", "-test.failfast", "-test.timeout=5m",
			fmt.Sprintf("-seeds=%d", seeds), "-stuck=5s")
		cmd.Env = append(os.Environ(), mutation.Env+"="+bug)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Run("none", func(t *testing.T) { // so that a failure is due to the bug, and not to the way it is inserted
		t.Parallel()
		if out, err := run("", 5); err != nil {
			t.Errorf("without any bug: %v\n%s", err, out)
		}
	})
	for _, m := range mutants {
		t.Run(m.TestName(), func(t *testing.T) {
			t.Parallel() // some wait until a run counts as stuck
			out, err := run(m.Name, *mutantSeeds)
			if err == nil {
				t.Fatalf("%d seeds, and nobody noticed", *mutantSeeds)
			}
			t.Logf("caught: %.300s", reason.FindString(out))
		})
	}
}

// reason matches the line that says what was wrong.
var reason = regexp.MustCompile(`(?m)^( +at [0-9.µm]+s: |panic: ).*$`)
