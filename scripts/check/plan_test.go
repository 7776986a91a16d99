package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository moves into the root of the repository.
func repository(t *testing.T) *tree {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	found, err := findTree()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eachOf returns the steps of the gate or of test-all.
func eachOf(t *testing.T, found *tree, full bool) []step {
	t.Helper()
	steps, err := plan(found, full, nil)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// has says whether a step runs the tests of a package: all of them, or with what another step runs that the first
// skips. A short run counts for the tests that are the same then.
func (s step) has(p pkg, others []step) bool {
	if !s.tests || !slices.Contains(s.args, "./"+p.path) {
		return false
	}
	return !slices.ContainsFunc(s.args, func(a string) bool {
		skipped, skips := strings.CutPrefix(a, "-skip=")
		elsewhere := slices.ContainsFunc(others, func(o step) bool {
			return slices.Contains(o.args, "-run="+skipped) && slices.Contains(o.args, "./"+p.path)
		})
		return strings.HasPrefix(a, "-run") || strings.HasPrefix(a, "-tags") || skips && !elsewhere
	})
}

// hasLong says whether a step runs the tests of a package that do less in a short run.
func (s step) hasLong(p pkg, others []step) bool {
	if slices.Contains(s.args, "-short") {
		return false
	}
	return s.has(p, others) || slices.Contains(s.args, "./"+p.path) && slices.Contains(s.args, p.longTests())
}

// Nothing is lost between the gate and test-all: both run all tests of each package, the gate with the race detector
// those that start goroutines, and test-all each step of the gate.
func TestEveryPackageIsInAPart(t *testing.T) {
	found := repository(t)
	tests := 0
	var all []step
	for _, full := range []bool{false, true} {
		steps := eachOf(t, found, full)
		for _, p := range found.packages {
			runs := slices.ContainsFunc(steps, func(s step) bool { return s.has(p, steps) })
			if !runs {
				t.Errorf("all=%v: no step runs all tests of %s", full, p.path)
			}
			long := slices.ContainsFunc(steps, func(s step) bool { return s.hasLong(p, steps) })
			if len(p.shorter) > 0 && !long {
				t.Errorf("all=%v: %s runs only with -short, and %q do less then", full, p.path, p.shorter)
			}
			race := slices.ContainsFunc(steps, func(s step) bool {
				return slices.Contains(s.args, "-race") && slices.Contains(s.args, "./"+p.path)
			})
			if p.concurrent && !race {
				t.Errorf("all=%v: %s starts goroutines, and does not run with the race detector", full, p.path)
			}
			tests++
		}
		all = append(all, steps...)
	}
	if tests < 100 {
		t.Errorf("only %d packages have tests in both; have they been found?", tests)
	}
	for _, target := range found.targets {
		if !slices.ContainsFunc(all, func(s step) bool {
			return slices.Contains(s.args, "-fuzz=^"+target.name+"$") && slices.Contains(s.args, "./"+target.pkg)
		}) {
			t.Errorf("no step fuzzes %s of %s", target.name, target.pkg)
		}
	}
	if len(found.targets) < 50 {
		t.Errorf("%d fuzz targets; have they been found?", len(found.targets))
	}
}

// A package that has another name now would not be timed any more.
func TestNamedPackagesExist(t *testing.T) {
	for _, dir := range slices.Concat(inRealTime, first) {
		if _, err := os.Stat(filepath.Join("..", "..", dir)); err != nil {
			t.Errorf("%v: say in plan.go what it is called now", err)
		}
	}
}

// A test that has another name now would not be run by a step that chooses tests by name, and nobody would notice.
func TestNamedTestsExist(t *testing.T) {
	found := repository(t)
	all := map[string]string{} // the tests of each package, by its argument
	for _, p := range append(found.mutated, found.packages...) {
		files, err := filepath.Glob(filepath.Join(p.path, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			code, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all["./"+p.path] += string(code)
		}
	}
	for _, full := range []bool{false, true} {
		for _, s := range eachOf(t, found, full) {
			s.namesTests(t, all)
		}
	}
}

// namesTests checks that each package of a step has each test that the step names.
func (s step) namesTests(t *testing.T, all map[string]string) {
	for _, a := range s.args {
		names, chosen := strings.CutPrefix(a, "-run=^Test")
		if !chosen {
			continue
		}
		names, _, _ = strings.Cut(names, "/")
		for name := range strings.SplitSeq(strings.Trim(names, "()$"), "|") {
			name = "func Test" + strings.TrimSuffix(name, "$")
			for _, p := range s.args {
				if strings.HasPrefix(p, "./") && !strings.Contains(all[p], name) {
					t.Errorf("%s: %s has no %s", s.name, p, name)
				}
			}
		}
	}
}

// Every build tag is linted, and only those that are known.
func TestTags(t *testing.T) {
	found := repository(t)
	for _, want := range []string{"./internal/crash", "./lab/sim"} {
		if !slices.Contains(found.tagged, want) {
			t.Errorf("%s is not among those with build tags: %q", want, found.tagged)
		}
	}
	for _, want := range []string{"lab/sim", "stream"} {
		if !slices.ContainsFunc(found.mutated, func(p pkg) bool { return p.path == want }) {
			t.Errorf("%s is not among those with seeded bugs: %v", want, found.mutated)
		}
	}
}

// What fills runs at idle priority, and only where something else follows.
func TestFilling(t *testing.T) {
	found := repository(t)
	for _, c := range []struct {
		parts []string
		want  int
	}{{nil, 5}, {[]string{"lint"}, 0}, {[]string{"mutants"}, 0}, {[]string{"mutants", "e2e"}, 1}} {
		steps, err := plan(found, false, c.parts)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range steps {
			if s.fills != (s.args[0] == "chrt") {
				t.Errorf("%v: %s fills: %t", c.parts, s, s.fills)
			}
			if s.fills {
				n++
			}
		}
		if n != c.want || steps[len(steps)-1].fills || steps[len(steps)-1].beside {
			t.Errorf("%v: %d steps fill, want %d, and the last one is waited for", c.parts, n, c.want)
		}
	}
}

func TestPartsByName(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, c := range []struct{ args, want, not string }{
		{"-n test lint", "staticcheck", "go test"},
		{"-n test mutants", "-tags=mutants", "gofmt"},
		{"-n test e2e", "./lab/e2e", "HOLDFAST_MATRIX"},
		{"-n all e2e", "HOLDFAST_MATRIX=all", "./agent"},
		{"-n test fuzz", "-fuzz=", "gofmt"},
		{"-n all lint graphs", "-graphs=100", "-fuzz"},
	} {
		var out strings.Builder
		if err := run(strings.Fields(c.args), &out); err != nil {
			t.Errorf("check %s: %v", c.args, err)
		}
		if said := out.String(); !strings.Contains(said, c.want) || strings.Contains(said, c.not) {
			t.Errorf("check %s: want %q and no %q in\n%s", c.args, c.want, c.not, said)
		}
	}
	if err := run([]string{"-n", "all", "nonsense"}, os.Stdout); err == nil ||
		!strings.Contains(err.Error(), `no part "nonsense"`) {
		t.Errorf("an unknown part: %v", err)
	}
}
