// Command figures measures what the figures and tables of the four papers show, and draws a page with ours beside
// theirs:
//
//	go run ./lab/figures              # some hours
//	go run ./lab/figures --quick      # about 15 minutes
//	go run ./lab/figures --draw       # draw again from the reports that are there
//
// It runs `holdfast bench`, which has all the measuring, and knows which figure of which report stands beside what. Run
// it on a machine that does nothing else: the page says what else the machine did.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	quick, draw bool
	out, only   string
	binary      string
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "measure less of each: about 15 minutes in all")
	flag.BoolVar(&o.draw, "draw", false, "measure nothing: draw the reports that are there")
	flag.StringVar(&o.out, "out", "build/figures", "the folder of the page and of the reports")
	flag.StringVar(&o.only, "only", "", "measure only what begins so, as in: failover")
	flag.StringVar(&o.binary, "binary", "bin/holdfast", "the holdfast binary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run measures and draws. A benchmark that fails is on the page, with its error, and run returns that.
func (o options) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(o.out, "reports"), 0o755); err != nil {
		return err
	}
	var failed []error
	if !o.draw {
		failed = o.measure(ctx)
	}
	page, err := o.page()
	if err != nil {
		return err
	}
	file := filepath.Join(o.out, "index.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return err
	}
	fmt.Println("the page is", file)
	return errors.Join(failed...)
}

// measure runs all benchmarks one after the other.
func (o options) measure(ctx context.Context) (failed []error) {
	began := time.Now()
	for i, r := range runs {
		args := r.args
		if o.quick {
			args = r.quick
		}
		if args == "" || !strings.HasPrefix(r.name, o.only) {
			continue
		}
		fmt.Printf("%5.0f s  %2d of %d  holdfast bench %s\n", time.Since(began).Seconds(), i+1, len(runs), args)
		if err := o.bench(ctx, r, args); err != nil {
			fmt.Println("        ", err)
			failed = append(failed, fmt.Errorf("holdfast bench %s: %w", args, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// patience is how long a benchmark may take.
const patience = 2 * time.Hour

// saved is a report as it is kept: what was run, and when.
type saved struct {
	Args  string    `json:"args"`
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // in place of the figures

	Figures map[string]float64 `json:"figures,omitempty"`
	Setup   map[string]any     `json:"setup,omitempty"`
}

// bench runs one benchmark and keeps its report, also if it fails.
func (o options) bench(ctx context.Context, r run, args string) error {
	s := saved{Args: args, At: time.Now()}
	err := o.report(ctx, r, &s)
	if err != nil {
		s.Error = err.Error()
	}
	b, failed := json.MarshalIndent(s, "", "  ")
	if failed != nil {
		return failed
	}
	return errors.Join(err, os.WriteFile(o.file(r), append(b, '\n'), 0o644))
}

func (o options) report(ctx context.Context, r run, s *saved) error {
	if r.root && os.Getuid() != 0 {
		return errors.New("it needs root, for network namespaces")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.binary, append(append([]string{"bench"}, strings.Fields(s.Args)...), "--json")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends what it has started
	cmd.WaitDelay = time.Minute
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	err := cmd.Run()
	if out.Len() > 0 { // also with an error: a bound does not hold
		return errors.Join(json.Unmarshal(out.Bytes(), s), lastLine(err, says.String()))
	}
	return lastLine(err, says.String())
}

// lastLine adds to the error of a program the last line that it has written.
func lastLine(err error, says string) error {
	if err == nil {
		return nil
	}
	says = strings.TrimSpace(says)
	return fmt.Errorf("%w: %s", err, says[strings.LastIndexByte(says, '\n')+1:])
}

func (o options) file(r run) string { return filepath.Join(o.out, "reports", r.name+".json") }
