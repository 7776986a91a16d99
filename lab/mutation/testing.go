package mutation

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestName is the name of a bug's subtest.
func (b Bug) TestName() string { return strings.ReplaceAll(b.Name, " ", "-") }

// TestApply fails for each bug that can no longer be put into the module below root.
func TestApply(t *testing.T, root string, list []Bug) {
	for _, b := range list {
		t.Run(b.TestName(), func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.File)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Apply(string(code)); err != nil {
				t.Error(err)
			}
		})
	}
}

// repeats is how often tests that fail without a bug are run again.
const repeats = 2

// loop is how much processor time makes a run an endless loop. A bug may cause one, by chance in one run of ten. It is
// many times what the longest tests need, and not a time on the clock, of which runs at idle priority take any.
const loop = time.Minute

// Rapid are flags for tests of properties: the same cases in each run, so that chance does not decide whether a bug is
// found, and no search for the smallest one.
var Rapid = []string{"-rapid.seed=1", "-rapid.shrinktime=0s", "-rapid.nofailfile"}

// TestNoticed builds the tests of a package of the module below root, and runs those that args, the flags of a test,
// choose: they must pass without a bug, and fail with each. The quick ones run first: only a bug that none of them
// notices costs the time of the others.
func TestNoticed(t *testing.T, root, module, pkg string, list []Bug, args ...string) {
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(t.TempDir(), "package.test")
	if err := BuildTest(root, module, pkg, tests, list); err != nil {
		t.Fatal(err)
	}
	limited := fmt.Sprintf(`ulimit -t %d; exec "$@"`, int(loop.Seconds()))
	run := func(bug string, more ...string) (string, error) {
		cmd := exec.Command("sh", slices.Concat([]string{"-c", limited, "sh", tests, "-test.failfast"}, more, args)...)
		cmd.Env = append(os.Environ(), Env+"="+bug)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	var quick, slow string
	t.Run("none", func(t *testing.T) { // so that a failure is due to the bug, and not to the way it is inserted
		out, err := run("", "-test.v")
		for range repeats {
			if err != nil { // the gate runs these at idle priority: it may have got no processor
				out, err = run("", "-test.v")
			}
		}
		if err != nil {
			t.Errorf("without any bug: %v\n%s", err, out)
		}
		quick, slow = bySpeed(out)
	})
	for _, b := range list {
		t.Run(b.TestName(), func(t *testing.T) {
			t.Parallel()
			out, err := run(b.Name, "-test.skip", slow)
			if err == nil {
				out, err = run(b.Name, "-test.skip", quick)
			}
			if err == nil {
				t.Fatal("nobody noticed")
			}
			t.Log(out)
		})
	}
}

// passed matches what a test without parents says at its end.
var passed = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\d+\.\d+)s\)$`)

// bySpeed returns patterns of the names of tests that took little of the time of all, and of the others, given what
// they said with -test.v. A pattern of no names matches none.
func bySpeed(out string) (quick, slow string) {
	took := map[string]float64{}
	all := 0.0
	for _, m := range passed.FindAllStringSubmatch(out, -1) {
		took[m[1]], _ = strconv.ParseFloat(m[2], 64) // the pattern admits only numbers
		all += took[m[1]]
	}
	var names [2][]string
	for _, name := range slices.Sorted(maps.Keys(took)) {
		i := 0
		if took[name] > all/10 {
			i = 1
		}
		names[i] = append(names[i], name)
	}
	pattern := func(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }
	return pattern(names[0]), pattern(names[1])
}
