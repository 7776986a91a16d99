// Command check is the gate that every change passes: `make lint`, `make test` and `make fuzz` run
// it. It prints one line for each stage and ends with a count of the tests. It is no part
// of Holdfast itself.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	gates := map[string]func(io.Writer) error{"lint": lint, "test": test, "fuzz": fuzz}
	if len(os.Args) != 2 || gates[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: check lint|test|fuzz")
		os.Exit(2)
	}
	if err := gates[os.Args[1]](os.Stdout); err != nil { // its stage has said so
		os.Exit(1)
	}
}

func lint(out io.Writer) error {
	return errors.Join(
		stage(out, "gofmt", gofmt),
		stage(out, "go vet", command("go", "vet", "./...")),
		stage(out, "go vet, crash points and mutants", command("go", "vet", "-tags", "crashpoints,mutants", "./...")),
		stage(out, "staticcheck", command("go", "tool", "staticcheck", "./...")))
}

func gofmt() (string, error) {
	bad, err := output("gofmt", "-l", ".")
	if err == nil && bad != "" {
		err = errors.New("not formatted: run `gofmt -w` on these")
	}
	return bad, err
}

// test runs everything: what the tests need, lint, all tests, again with the race
// detector those of the packages that start goroutines, and the simulator on code with seeded bugs. It tests one
// package at a time (-p=1): failovers are timed in milliseconds, and would fail beside another package's load.
func test(out io.Writer) error {
	if err := stage(out, "what the tests need", command("scripts/install-test-deps")); err != nil {
		return err
	}
	requireEverything(out)
	var t tally
	errs := []error{lint(out)}
	errs = append(errs, stage(out, "tests", func() (string, error) {
		return "", t.run(out, "-p=1", "-count=1", "-timeout=15m", "./...")
	}))
	errs = append(errs, stage(out, "tests with the race detector", func() (string, error) {
		packages, err := concurrent()
		if err != nil || len(packages) == 0 {
			return "", err
		}
		return "", t.run(out, append([]string{"-p=1", "-race", "-short", "-count=1", "-timeout=15m"}, packages...)...)
	}))
	errs = append(errs, stage(out, "the simulator finds each seeded bug", func() (string, error) {
		return "", t.run(out, "-tags=mutants", "-run=^TestMutants", "-count=1", "-timeout=15m", "./lab/sim")
	}))
	for _, s := range t.skips() {
		fmt.Fprintln(out, "skipped:", s)
	}
	fmt.Fprintln(out, t.String())
	return errors.Join(errs...)
}

// requireEverything makes tests fail, not skip, when an oracle or a switch is missing.
func requireEverything(out io.Writer) {
	python, err := filepath.Abs(".venv/bin/python")
	if err != nil {
		panic(err) // the working folder is gone
	}
	os.Setenv("HOLDFAST_PYTHON", python)
	os.Setenv("HOLDFAST_REQUIRE_ORACLES", "1")
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin") // where ovs-vswitchd and tc are
	if os.Geteuid() != 0 {
		fmt.Fprintln(out, "not root: tests that need network namespaces are skipped")
		return
	}
	os.Setenv("HOLDFAST_REQUIRE_OVS", "1")
}

// concurrent returns the packages that start goroutines: those whose tests look for leaked ones.
func concurrent() ([]string, error) {
	list, err := output("go", "list", "-f", `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`,
		"./...")
	if err != nil {
		return nil, err
	}
	var packages []string
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); strings.Contains(line, " go.uber.org/goleak") {
			packages = append(packages, f[0])
		}
	}
	return packages, nil
}

// fuzz runs each fuzz target for a few seconds.
func fuzz(out io.Writer) error {
	var list string
	err := stage(out, "find the fuzz targets", func() (_ string, err error) {
		list, err = output("go", "test", "-list", "^Fuzz", "./...")
		return list, err
	})
	if err != nil {
		return err
	}
	var targets []string
	for line := range strings.Lines(list) { // the targets of a package stand before its "ok" line
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "ok":
			for _, t := range targets {
				err = errors.Join(err, stage(out, "fuzz "+t+" of "+f[1],
					command("go", "test", "-run=^$", "-fuzz=^"+t+"$", "-fuzztime=5s", f[1])))
			}
			targets = nil
		case len(f) == 1:
			targets = append(targets, f[0])
		}
	}
	return err
}

// stage runs one step and prints one line: how it ended, which, how long it took. What a failed
// step said comes before the line.
func stage(out io.Writer, name string, step func() (string, error)) error {
	began := time.Now()
	said, err := step()
	seconds := time.Since(began).Seconds()
	if err != nil {
		if said = strings.TrimSpace(said); said != "" {
			fmt.Fprintln(out, said)
		}
		fmt.Fprintf(out, "FAIL  %s  (%.1f s): %v\n", name, seconds, err)
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(out, "ok    %s  (%.1f s)\n", name, seconds)
	return nil
}

func command(name string, args ...string) func() (string, error) {
	return func() (string, error) { return output(name, args...) }
}

// output runs a command and returns all that it printed.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	return both.String(), err
}
