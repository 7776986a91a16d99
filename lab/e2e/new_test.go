package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNew makes a module and runs its tests, one of which kills a leader. HOLDFAST_MATRIX=all runs its demo, too.
func TestNew(t *testing.T) {
	notInShort(t)
	t.Parallel()
	dir := t.TempDir()
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(dir, plain, "new", "hello")
	hello := filepath.Join(dir, "hello")
	run(hello, "go", "test", "./...")
	if everything {
		if out := run(hello, "go", "run", ".", "demo"); !strings.Contains(out, "failover 3") {
			t.Errorf("the demo did not say that it killed three leaders:\n%s", out)
		}
	}
	if _, err := os.Stat(filepath.Join(hello, "data")); err == nil {
		t.Error("the tests have made a folder for controllers")
	}
}
