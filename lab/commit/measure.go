package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// Group is a group to measure.
type Group struct {
	Command  []string // runs Run with the Config that follows as JSON, until its input ends
	Members  int
	Fsync    bool
	Warmup   time.Duration
	Duration time.Duration
}

// Measure starts the members, waits for the result of the one that leads, and ends them.
func Measure(ctx context.Context, g Group) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.Warmup+g.Duration+time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "holdfast-commit-")
	if err != nil {
		return r, fmt.Errorf("folder for the logs: %w", err)
	}
	defer os.RemoveAll(dir)
	addresses, err := cluster.FreeAddresses("127.0.0.1", g.Members)
	if err != nil {
		return r, err
	}
	results := make(chan answer, g.Members)
	for i := range g.Members {
		end, err := g.start(Config{ID: uint64(i + 1), Addresses: addresses, Fsync: g.Fsync, Warmup: g.Warmup,
			Duration: g.Duration, Dir: filepath.Join(dir, strconv.Itoa(i+1))}, results)
		if err != nil {
			return r, err
		}
		defer end()
	}
	select {
	case a := <-results:
		return a.result, a.err
	case <-ctx.Done():
		return r, fmt.Errorf("measure a bare commit: %w", ctx.Err())
	}
}

// answer is what a member found, or why it ended.
type answer struct {
	result Result
	err    error
}

// start runs a member; end ends it, and waits for it.
func (g Group) start(cfg Config, results chan<- answer) (end func(), err error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(g.Command[0], append(g.Command[1:len(g.Command):len(g.Command)], string(text))...)
	var printed bytes.Buffer
	cmd.Stderr = &printed
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	err = lifeline.Start(cmd, func() { // ends with the process
		defer close(ended)
		var r Result
		err := json.NewDecoder(out).Decode(&r)
		if err == nil {
			results <- answer{result: r}
		}
		if waited := cmd.Wait(); err != nil { // it did not lead, or failed
			results <- answer{err: fmt.Errorf("member %d: %w\n%s", cfg.ID, errors.Join(err, waited), printed.String())}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start a member: %w", err)
	}
	return func() { _ = in.Close(); <-ended }, nil
}
