package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module writes the files of a small module and moves into it.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

const mixed = `package good
import "testing"
func TestPass(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Log("not shown") }) }
func TestShort(t *testing.T) { if testing.Short() { t.Skip("long") } }
func TestSkip(t *testing.T) { t.Skip("no switch here") }
`

func TestTally(t *testing.T) {
	module(t, map[string]string{
		"good/a_test.go": mixed,
		"bad/a_test.go": `package bad
import "testing"
func TestFail(t *testing.T) { t.Error("the reason") }
func TestFine(t *testing.T) {}
`,
		"dies/a_test.go": `package dies
import ("os"; "testing")
func TestExit(t *testing.T) { os.Exit(3) }
`,
		"broken/a_test.go": "package broken\nvar x int = \"text\"\n",
		"silent/a_test.go": `package silent
import ("os"; "testing")
func TestMain(m *testing.M) { m.Run(); os.Exit(1) }
func TestFine(t *testing.T) {}
`,
		"none/a.go": "package none\n",
	})
	var tests tally
	var out strings.Builder
	if _, err := tests.run(&out, nil, []string{"go", "test", "-json", "./..."}); err == nil {
		t.Error("failing tests give no error")
	}
	// Passed: Pass, Pass/sub, Short, and Fine of bad and silent. Failed: Fail, Exit, and the packages broken and
	// silent.
	if got, want := tests.String(), "5 passed, 4 failed, 1 skipped"; got != want {
		t.Errorf("closing line %q, want %q", got, want)
	}
	if got, want := tests.skips(), []string{"example.org/m/good.TestSkip: a_test.go:5: no switch here"}; !slices.Equal(
		got, want) {
		t.Errorf("skips %q, want %q", got, want)
	}
	if got, want := tests.failures(), []string{"example.org/m/bad.TestFail", "  a_test.go:3: the reason",
		"example.org/m/broken.", "example.org/m/dies.TestExit", "example.org/m/silent."}; !slices.Equal(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
	for _, want := range []string{"ok  \texample.org/m/good\t", "the reason", "cannot use",
		"FAIL\texample.org/m/dies\t"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, noise := range []string{"not shown", "no test files"} {
		if strings.Contains(out.String(), noise) {
			t.Errorf("%q in\n%s", noise, out.String())
		}
	}
}

// A test that a second, shorter run skips has passed; one that it fails has failed.
func TestTallyOfTwoRuns(t *testing.T) {
	module(t, map[string]string{"good/a_test.go": mixed})
	var tests tally
	var out strings.Builder
	for _, args := range [][]string{{"./..."}, {"-short", "./..."}} {
		if _, err := tests.run(&out, nil, append([]string{"go", "test", "-json"}, args...)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := tests.String(), "3 passed, 0 failed, 1 skipped"; got != want {
		t.Errorf("closing line %q, want %q", got, want)
	}
	tests.event(event{Action: "fail", Package: "example.org/m/good", Test: "TestPass"}, nil, &out)
	if got, want := tests.String(), "2 passed, 1 failed, 1 skipped"; got != want {
		t.Errorf("closing line %q, want %q", got, want)
	}
}

func TestSlowest(t *testing.T) {
	var tests tally
	for test, elapsed := range map[string]float64{"TestA": 9, "TestA/one": 8, "TestA/two": 1, "TestB": 5, "TestC": 0} {
		tests.event(event{Action: "pass", Package: "p", Test: test, Elapsed: elapsed}, nil, io.Discard)
	}
	if got, want := tests.slowest(3), []string{"8.0 s  p.TestA/one", "5.0 s  p.TestB", "1.0 s  p.TestA/two"}; !slices.Equal(
		got, want) {
		t.Errorf("slowest %q, want %q", got, want)
	}
}

func TestStage(t *testing.T) {
	t.Chdir(t.TempDir())
	var out strings.Builder
	if err := stage(&out, "good", func() (string, time.Duration, error) { return output(nil, "go", "version") }); err != nil {
		t.Error(err)
	}
	if err := stage(&out, "bad", func() (string, time.Duration, error) {
		return output(nil, "go", "nonsense")
	}); err == nil || !strings.HasSuffix(err.Error(), "bad: exit status 2") {
		t.Errorf("error %v", err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) < 3 || !strings.HasPrefix(got[0], "ok    good  (") || !strings.Contains(got[1], "unknown command") ||
		!strings.HasPrefix(got[len(got)-1], "FAIL  bad  (") || !strings.HasSuffix(got[len(got)-1], "): exit status 2") {
		t.Errorf("printed %q", got)
	}
}

// What a command says beside its output is no part of it, unless it fails.
func TestOutput(t *testing.T) {
	const both = "echo out; echo aside >&2; "
	if said, _, err := output(nil, "sh", "-c", both); err != nil || said != "out\n" {
		t.Errorf("%q, %v", said, err)
	}
	if said, _, err := output(nil, "sh", "-c", both+"exit 3"); err == nil || said != "out\naside\n" {
		t.Errorf("%q, %v", said, err)
	}
}

// The next step begins with one that has it beside it, and waits for both. What fills runs beside all that follows, and
// what it finds counts.
func TestStepsSideBySide(t *testing.T) {
	dir := t.TempDir()
	meet := func(own, other string) []string { // each waits for the other
		return []string{"sh", "-c", "touch " + own + "; until [ -e " + other + " ]; do sleep 0.01; done"}
	}
	t.Chdir(dir)
	var out strings.Builder
	err := gate([]step{
		{name: "all the time", args: meet("filling", "last"), fills: true},
		{name: "fills and fails", args: []string{"false"}, fills: true},
		{name: "one", args: meet("one", "two"), beside: true},
		{name: "two", args: meet("two", "one")},
		{name: "after both", args: []string{"ls", "one", "two"}},
		{name: "last", args: meet("last", "filling")},
	}, &out)
	if err == nil || !strings.Contains(err.Error(), "fills and fails: exit status 1") {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"all the time", "one", "two", "after both", "last"} {
		if !strings.Contains(out.String(), "ok    "+name+"  (") {
			t.Errorf("%s is not ok in\n%s", name, out.String())
		}
	}
}
