package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// stage runs one step and prints one line: how it ended, which, how long it took, and how long processors worked for
// it, which does not depend on what else they do. What a failed step said comes before the line.
func stage(out io.Writer, name string, step func() (said string, worked time.Duration, err error)) error {
	began := time.Now()
	said, worked, err := step()
	took := fmt.Sprintf("(%.1f s, processors %.1f s)", time.Since(began).Seconds(), worked.Seconds())
	if err == nil {
		fmt.Fprintf(out, "ok    %s  %s\n", name, took)
		return nil
	}
	if said = strings.TrimSpace(said); said != "" {
		said += "\n"
	}
	fmt.Fprintf(out, "%sFAIL  %s  %s: %v\n", said, name, took, err)
	return fmt.Errorf("%w: %s: %w", errSaid, name, err)
}

// shared is a writer for steps that run at the same time.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// command is one with more environment.
func command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// worked is how long processors worked for a command that has ended, and for those that it started.
func worked(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil {
		return 0
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// output runs a command and returns its standard output, and if it failed all that it printed. What a command that
// succeeds says beside its output is left out: on a new machine the go command names each module that it downloads.
func output(env []string, args ...string) (string, time.Duration, error) {
	cmd := command(env, args...)
	var out, aside bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &aside
	if err := cmd.Run(); err != nil {
		return out.String() + aside.String(), worked(cmd), err
	}
	return out.String(), worked(cmd), nil
}
