package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/failover"
)

// TestTrialIsPatient stops the agents just before the traffic ends, as a busy machine may do: for a while nothing
// changes and the controllers know of no work, but packets are in transit. It stops all agents that it finds, so no
// other test runs in parallel.
func TestTrialIsPatient(t *testing.T) {
	if testing.Short() {
		t.Skip("is about measuring, and takes a while")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	stopped := 0
	r, err := failover.Run(ctx, failover.Config{Binary: plain, Between: 500 * time.Millisecond,
		PingInterval: 90 * time.Millisecond,
		Progress: func(share float64, _ string) {
			if share < 0.7 || stopped > 0 {
				return
			}
			agents := children(t, "agent")
			stopped = len(agents)
			for _, pid := range agents {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
			time.AfterFunc(1500*time.Millisecond, func() {
				for _, pid := range agents {
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
			})
		}})
	if err != nil {
		t.Fatal(err)
	}
	if stopped == 0 || !r.Exact() || r.CommandsExecuted != r.CommandsIssued {
		t.Errorf("%d agents were stopped: %+v", stopped, r)
	}
}

// TestBusyLoops wants no change of the leader with 1,024 switches that send all the time, beside 16 processes that use
// all the processor time that they get. It takes the processors from all else, so it has a step of its own, and
// HOLDFAST_BUSY_SECONDS says how long it loads each of its four clusters.
func TestBusyLoops(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("HOLDFAST_BUSY_SECONDS"))
	if err != nil {
		t.Skip("no test can run beside it; HOLDFAST_BUSY_SECONDS=20 runs it")
	}
	for _, processors := range []string{"1", "2"} {
		t.Run("GOMAXPROCS="+processors, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", processors)
			workloads := []string{bench.Steady, bench.Learning}
			b := bench.Throughput{Binary: plain, Workloads: workloads, Switches: []int{1024}, Replicas: []int{3},
				Durability: []string{"memory"}, Window: 4, Seconds: seconds, Rounds: 1, Load: 16}
			if err := b.Validate(); err != nil {
				t.Fatal(err)
			}
			r, err := b.Run(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r.Figures)
			for _, workload := range workloads {
				figure := func(name string) float64 { return r.Figures[name+"_"+workload+"_sw1024_r3_memory"] }
				if figure("answers_per_s") == 0 {
					t.Errorf("%s: nothing was answered", workload)
				}
				for _, name := range []string{"term_changes", "unanswered", "repeated_answers"} {
					if n := figure(name); n != 0 {
						t.Errorf("%s: %v %s", workload, n, name)
					}
				}
			}
		})
	}
}

// children returns the processes that this one has started with a subcommand of holdfast.
func children(t *testing.T, subcommand string) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		args, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		ours := bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid()))
		if err == nil && ours && slices.Contains(strings.Split(string(args), "\x00"), subcommand) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f))) // digits
			pids = append(pids, pid)
		}
	}
	return pids
}
