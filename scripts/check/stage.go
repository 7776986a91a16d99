package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stage runs one step and prints one line: how it ended, which, how long it took, and how long processors worked for
// it, which does not depend on what else they do. What a failed step said comes before the line.
func stage(out io.Writer, name string, step func() (string, error)) error {
	began, worked := time.Now(), processorTime()
	said, err := step()
	took := fmt.Sprintf("(%.1f s, processors %.1f s)", time.Since(began).Seconds(),
		(processorTime() - worked).Seconds())
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

// processorTime is how long processors worked for commands that have ended.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// command is one with more environment.
func command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// output runs a command and returns its standard output, and if it failed all that it printed. What a command that
// succeeds says beside its output is left out: on a new machine the go command names each module that it downloads.
func output(env []string, args ...string) (string, error) {
	cmd := command(env, args...)
	var out, aside bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &aside
	if err := cmd.Run(); err != nil {
		return out.String() + aside.String(), err
	}
	return out.String(), nil
}
