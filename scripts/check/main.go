// Command check is the gate that every change passes: `make test` runs it, and so do `make lint`, `make test-all` and
// `make fuzz`. It prints one line for each stage, with the time that passed and that of the processors, and ends with a
// count of the tests. It is no part of Holdfast itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(os.Stderr, "check:", err)
		}
		os.Exit(1)
	}
}

// errSaid is an error about which a stage has said all.
var errSaid = errors.New("a stage has failed")

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	dry := flags.Bool("n", false, "print the commands and run none of them")
	flags.Usage = func() { usage(flags.Output()) }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errSaid
	}
	args = flags.Args()
	if len(args) == 0 || args[0] != "test" && args[0] != "all" {
		usage(os.Stderr)
		return errSaid
	}
	m, err := findTree()
	if err != nil {
		return err
	}
	steps, err := plan(m, args[0] == "all", args[1:])
	if err != nil {
		return fmt.Errorf("%w; `go run ./scripts/check -h` lists them", err)
	}
	if *dry {
		for _, s := range steps {
			fmt.Fprintln(out, s)
		}
		return nil
	}
	// Compilers and most tests collect garbage less often: to compile our packages takes 7 % less processor time.
	os.Setenv("GOGC", "400")
	if err := stage(out, "modules", modules); err != nil {
		return err
	}
	return gate(steps, out)
}

func usage(out io.Writer) {
	fmt.Fprintf(out, "usage: check [-n] test|all [PART]...\n\n"+
		"test is the gate, all is every combination. Without a PART all of it runs. -n prints the commands only.\n\n")
	for _, p := range parts {
		where := "test, all"
		if p.gate == nil {
			where = "all"
		}
		fmt.Fprintf(out, "  %-9s %-10s %s\n", p.name, where, p.what)
	}
}

// gate runs the steps. What tests need is installed meanwhile: lint needs nothing of it but the C compiler.
func gate(steps []step, out io.Writer) error {
	out = &shared{to: out}
	t := tally{}
	ready := func() error { return nil }
	if slices.ContainsFunc(steps, step.needsMore) {
		ready = sync.OnceValue(install(out))
	}
	var all, together sync.WaitGroup // all steps that run; those that the next one waits for
	var mu sync.Mutex                // guards errs
	var errs []error
	for _, s := range steps {
		if s.needsMore() || !compiler() { // one that appears while the go command runs changes what it builds
			if err := ready(); err != nil {
				all.Wait()
				return err
			}
		}
		run := func() {
			err := stage(out, s.name, func() (string, time.Duration, error) { return t.step(s, out) })
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
		if s.fills {
			all.Go(run)
			continue
		}
		together.Go(run)
		if !s.beside {
			together.Wait()
		}
	}
	all.Wait()
	for _, s := range t.skips() {
		fmt.Fprintln(out, "skipped:", s)
	}
	for _, s := range t.slowest(20) {
		fmt.Fprintln(out, "slow:", s)
	}
	for _, s := range t.failures() {
		fmt.Fprintln(out, "failed:", s)
	}
	if len(t.results) > 0 {
		fmt.Fprintln(out, t.String())
	}
	return errors.Join(errs...)
}

// modules downloads what steps would download otherwise, where a connection that fails would fail the step.
func modules() (said string, worked time.Duration, err error) {
	for range 3 {
		if said, worked, err = output(nil, "go", "mod", "download"); err == nil {
			break
		}
		time.Sleep(5 * time.Second)
	}
	return said, worked, err
}

// step runs a step, and counts its tests.
func (t *tally) step(s step, out io.Writer) (string, time.Duration, error) {
	if s.tests {
		worked, err := t.run(out, s.env, s.args)
		return "", worked, err
	}
	said, worked, err := output(s.env, s.args...)
	if err == nil && s.name == "gofmt" && said != "" {
		err = errors.New("not formatted: run `gofmt -w` on these")
	}
	return said, worked, err
}

// needsMore says whether a step needs more than Go.
func (s step) needsMore() bool {
	return s.tests || slices.Contains(s.args, "./lab/model") || slices.Contains(s.args, venv)
}

// install begins to install what tests need, and returns what waits for it.
func install(out io.Writer) (wait func() error) {
	requireEverything(out)
	done := make(chan error, 1)
	go func() {
		done <- stage(out, "what the tests need", func() (string, time.Duration, error) {
			return output(nil, "scripts/install-test-deps")
		})
	}()
	return func() error { return <-done }
}

// compiler says whether there is a C compiler and its headers.
func compiler() bool {
	_, noCompiler := exec.LookPath("gcc")
	_, noHeaders := os.Stat("/usr/include/stdlib.h")
	return noCompiler == nil && noHeaders == nil
}

// requireEverything makes tests fail, not skip, when an oracle or a switch is missing.
func requireEverything(out io.Writer) {
	python, err := filepath.Abs(venv)
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
