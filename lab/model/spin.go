package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed agent.pml stock.pml streams.pml moves.pml
var models embed.FS

// checker runs spin, and the verifiers that it generates, in a temporary folder.
type checker struct {
	dir      string
	progress io.Writer
}

var errMissing = errors.New("spin and a C compiler are needed: on Debian, apt-get install spin gcc libc6-dev")

func newChecker(progress io.Writer) (*checker, error) {
	for _, tool := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %w", errMissing, err)
		}
	}
	dir, err := os.MkdirTemp("", "holdfast-model-")
	return &checker{dir, progress}, err
}

func (c *checker) close() { os.RemoveAll(c.dir) }

// result is what came of checking one variant.
type result struct {
	Name    string   `json:"name"`
	Broken  string   `json:"broken,omitempty"` // the property that does not hold
	Problem string   `json:"problem,omitempty"`
	Steps   []string `json:"steps,omitempty"` // to where it breaks
	States  int      `json:"states"`
	Depth   int      `json:"depth"`
	Seconds float64  `json:"seconds"` // processor time of the search
	MiB     float64  `json:"mib"`
}

func (r result) String() string {
	verdict := "holds"
	if r.Broken != "" {
		verdict = "refuted: " + r.Broken
	}
	state := "ok  "
	if r.Problem != "" {
		state, verdict = "FAIL", r.Problem+"; it "+verdict
	}
	return fmt.Sprintf("%s %-34s %9d states  depth %3d  %6.1f s  %5.0f MiB  %s", state, r.Name, r.States, r.Depth,
		r.Seconds, r.MiB, verdict)
}

// check searches all states of a variant; where one is to be refuted, breadth first and to the
// first error, which makes the counterexample a shortest one.
func (c *checker) check(ctx context.Context, v variant) (result, error) {
	r := result{Name: v.name}
	source, err := models.ReadFile(v.model)
	if err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, v.model), source, 0o644); err != nil {
		return r, err
	}
	os.Remove(filepath.Join(c.dir, v.model+".trail"))
	if _, err := c.output(ctx, "spin", append(v.defines(), "-a", v.model)...); err != nil {
		return r, err
	}
	compile, search := []string{"-O2", "-w", "-DSAFETY", "-DNOFAIR"}, []string{"-m100000"}
	switch {
	case v.liveness:
		// NFAIR: for up to 14 processes
		compile, search = []string{"-O2", "-w", "-DNFAIR=4"}, []string{"-a", "-f", "-m1000000"}
	case v.refuted != "":
		compile[0] = "-O0" // it takes longer to compile than to search
		compile = append(compile, "-DBFS")
		search = []string{"-w18"} // small tables, for few states
	case v.quick:
		compile[0] = "-O1" // with -O2 it takes longer to compile than to search
	}
	memory := 7000
	if v.large {
		memory = 16000
	}
	compile = append(compile, fmt.Sprintf("-DMEMLIM=%d", memory), "-o", "pan", "pan.c")
	if _, err := c.output(ctx, "cc", compile...); err != nil {
		return r, err
	}
	said, took, err := c.search(ctx, v.name, search)
	if err != nil {
		return r, err
	}
	r.Seconds = took.Seconds()
	errs := r.parse(said)
	if errs > 0 {
		if err := c.replay(ctx, v, &r); err != nil {
			return r, err
		}
	}
	r.judge(v, said)
	return r, nil
}

// search runs the verifier. It returns what it said in the end, and the processor time that it took, which other
// load does not change much.
func (c *checker) search(ctx context.Context, name string, args []string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, "./pan", args...)
	cmd.Dir = c.dir
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "Depth=") { // once for a million states
			if f := progressLine.FindStringSubmatch(line); f != nil {
				if n, _ := strconv.ParseFloat(f[1], 64); n >= 1e6 { // breadth first says it at each depth
					fmt.Fprintf(c.progress, "     %s: %.0f million states, %s MiB\n", name, n/1e6, f[2])
				}
			}
			continue
		}
		said.WriteString(line + "\n")
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil // what it said tells
	}
	return said.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

var (
	progressLine = regexp.MustCompile(`States=\s*(\S+).*Memory=\s*(\d+)`)
	depthErrors  = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	states       = regexp.MustCompile(`(?m)^\s*(\d+)\s+states, stored`)
	memory       = regexp.MustCompile(`(?m)^\s*([\d.]+)\s+total actual memory`)
	incomplete   = regexp.MustCompile(
		`max search depth too small|out of memory|MEMLIM|hash array resize failed|Interrupted|Search not completed`)
)

func (r *result) parse(said string) (errs int) {
	errs = -1
	if f := depthErrors.FindStringSubmatch(said); f != nil {
		r.Depth, _ = strconv.Atoi(f[1])
		errs, _ = strconv.Atoi(f[2])
	}
	if f := states.FindStringSubmatch(said); f != nil {
		r.States, _ = strconv.Atoi(f[1])
	}
	if f := memory.FindStringSubmatch(said); f != nil {
		r.MiB, _ = strconv.ParseFloat(f[1], 64)
	}
	if errs < 0 {
		r.Problem = "the verifier did not end: " + lastLine(said)
	}
	return errs
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// replay follows the verifier's trail, and takes down what the model says on the way.
func (c *checker) replay(ctx context.Context, v variant, r *result) error {
	out, err := c.output(ctx, "spin", append(v.defines(), "-t", v.model)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if step, ok := strings.CutPrefix(line, "> "); ok {
			r.Steps = append(r.Steps, step)
		}
		if property, ok := strings.CutPrefix(line, "! "); ok {
			r.Broken = property
			return nil
		}
	}
	r.Broken = "liveness: it goes on for ever without getting done"
	return nil
}

// judge says what is wrong with a result.
func (r *result) judge(v variant, said string) {
	switch {
	case r.Problem != "":
	case v.refuted == "" && r.Broken != "":
		r.Problem = "it must hold: see steps with -json"
	case v.refuted == "" && incomplete.MatchString(said):
		r.Problem = "the search was not exhaustive: " + incomplete.FindString(said)
	case v.refuted != "" && r.Broken == "":
		r.Problem = "it lacks a mechanism, and nothing breaks"
	case v.refuted != "" && !strings.HasPrefix(r.Broken, v.refuted):
		r.Problem = "it was to break " + v.refuted
	}
}

func (c *checker) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, both.String())
	}
	return both.String(), nil
}
