//go:build mutants

package consensus

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutantTests are the tests that notice the seeded bugs.
const mutantTests = "Starv|FalseAlarm|FailureRaises|OwnLateness|Lateness|SilentLeader|Transfer$"

// The tests of this package fail with each bug, and pass without.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(t.TempDir(), "consensus.test")
	const module = "github.com/holdfast-sdn/holdfast"
	if err := mutation.BuildTest(root, module, "./consensus", tests, mutants); err != nil {
		t.Fatal(err)
	}
	run := func(bug string) (string, error) {
		cmd := exec.Command(tests, "-test.run", mutantTests)
		cmd.Env = append(os.Environ(), mutation.Env+"="+bug)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(""); err != nil {
		t.Fatalf("without any bug: %v\n%s", err, out)
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			out, err := run(m.Name)
			if err == nil {
				t.Fatal("nobody noticed")
			}
			t.Log(out)
		})
	}
}
