package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts tests over several runs of `go test`. A test that ran twice counts
// once: failed if it failed once, skipped if it never ran to its end. The zero value is ready. Two runs may go on at
// the same time.
type tally struct {
	mu      sync.Mutex // guards results, and what is printed
	results map[id]result
}

// id names a test, or with Test "" what went wrong outside any test of a package.
type id struct{ pkg, test string }

type result struct {
	action  string // pass, skip or fail
	output  string
	elapsed float64 // in seconds
}

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // in seconds
}

// run runs `go test -json …` and prints the closing line of every package, and all that failed
// tests printed. It returns the processor time.
func (t *tally) run(out io.Writer, env, args []string) (time.Duration, error) {
	cmd := command(env, args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err = t.read(stdout, out)
	if failed := cmd.Wait(); failed != nil {
		err = fmt.Errorf("go test: %w", failed)
	}
	return worked(cmd), err
}

// read takes the events of one run.
func (t *tally) read(in io.Reader, out io.Writer) error {
	running := map[id]*strings.Builder{} // what unfinished tests and packages printed
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the results of go test: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("go test said %q: %w", line, err)
		}
		t.event(e, running, out)
	}
}

func (t *tally) event(e event, running map[id]*strings.Builder, out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results == nil {
		t.results = map[id]result{}
	}
	test := id{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "start", "run":
		running[test] = &strings.Builder{}
	case "output":
		if b := running[test]; b != nil {
			b.WriteString(e.Output)
		}
	case "pass", "skip", "fail":
		said := ""
		if b := running[test]; b != nil {
			said = b.String()
		}
		delete(running, test)
		if e.Test != "" {
			t.note(test, result{e.Action, said, e.Elapsed}, out)
		} else {
			t.closePackage(e, said, running, out)
		}
	}
}

// closePackage prints the closing line of a package, and all of its output if it failed.
// Tests that had not ended (the process died) have failed.
func (t *tally) closePackage(e event, said string, running map[id]*strings.Builder, out io.Writer) {
	blamed := false
	for test, b := range running {
		if test.pkg == e.Package {
			t.note(test, result{"fail", b.String(), 0}, out)
			delete(running, test)
		}
	}
	for test, r := range t.results {
		blamed = blamed || test.pkg == e.Package && r.action == "fail"
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	switch {
	case e.Action == "fail" && !blamed: // it did not build, or failed outside its tests
		t.note(id{e.Package, ""}, result{"fail", said, e.Elapsed}, out)
	case strings.Contains(said, "[no test files]"):
	default:
		fmt.Fprintln(out, lines[len(lines)-1])
	}
}

// note keeps the result that counts, and prints what a failed test said.
func (t *tally) note(test id, r result, out io.Writer) {
	if r.action == "fail" {
		fmt.Fprint(out, r.output)
	}
	rank := []string{"skip", "pass", "fail"}
	if old, ok := t.results[test]; !ok || slices.Index(rank, r.action) > slices.Index(rank, old.action) {
		t.results[test] = r
	}
}

// skips lists the skipped tests, each with its reason.
func (t *tally) skips() []string {
	var list []string
	for _, test := range t.tests() {
		r := t.results[test]
		if r.action != "skip" {
			continue
		}
		reason := "no reason given"
		for line := range strings.Lines(r.output) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
				reason = line
			}
		}
		list = append(list, fmt.Sprintf("%s.%s: %s", test.pkg, test.test, reason))
	}
	return list
}

// message matches a line that a test said with its file and line, which may be in another file than that of the test.
var message = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// failures lists the failed tests, each with the first lines that it said, since logs may follow and be long.
func (t *tally) failures() (list []string) {
	for _, test := range t.tests() {
		r := t.results[test]
		if r.action != "fail" {
			continue
		}
		list = append(list, test.pkg+"."+test.test)
		said := 0
		for line := range strings.Lines(r.output) {
			if said < 3 && message.MatchString(line) {
				said++
				line = strings.TrimSpace(line)
				list = append(list, "  "+line[:min(len(line), 400)])
			}
		}
	}
	return list
}

// tests returns all tests, in order.
func (t *tally) tests() []id {
	return slices.SortedFunc(maps.Keys(t.results), func(a, b id) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.test, b.test))
	})
}

// slowest lists the n tests that took the longest, without those that only wait for their subtests.
func (t *tally) slowest(n int) (list []string) {
	parents := map[id]bool{}
	for test := range t.results {
		if i := strings.LastIndexByte(test.test, '/'); i >= 0 {
			parents[id{test.pkg, test.test[:i]}] = true
		}
	}
	tests := slices.SortedFunc(maps.Keys(t.results), func(a, b id) int {
		return cmp.Or(cmp.Compare(t.results[b].elapsed, t.results[a].elapsed), strings.Compare(a.test, b.test))
	})
	for _, test := range tests {
		if !parents[test] && len(list) < n {
			list = append(list, fmt.Sprintf("%.1f s  %s.%s", t.results[test].elapsed, test.pkg, test.test))
		}
	}
	return list
}

// String is the closing line.
func (t *tally) String() string {
	n := map[string]int{}
	for _, r := range t.results {
		n[r.action]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n["pass"], n["fail"], n["skip"])
}
