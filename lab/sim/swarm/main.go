// Command swarm runs seeds of the simulator until one breaks something, and prints what it did as JSON. It is what
// TestMutants builds for each seeded bug: `holdfast sim` without the rest of holdfast, which takes twice the time to
// build.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/lab/sim"
)

// most is how much processor time a search may take. The time that passes would be no measure: seeded bugs run beside
// other tests, and get what these leave of the processors.
const most = 3 * time.Minute

func main() {
	from := flag.Uint64("from", 1, "the first `seed`")
	seeds := flag.Int("seeds", 1000, "how many `N` seeds to run, for three minutes of processor time at most")
	file := flag.String("scenario", "", "a stored scenario, as JSON `file`, to run with each seed")
	flag.Parse()
	debug.SetGCPercent(400) // as in holdfast sim
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sw := sim.Swarm{From: *from, Seeds: *seeds, Progress: func(sim.Summary) {
		if used() >= most {
			cancel()
		}
	}}
	if *file != "" {
		b, err := os.ReadFile(*file)
		exitOn(err)
		exitOn(json.Unmarshal(b, &sw.Scenario))
		exitOn(sw.Scenario.Validate())
	}
	exitOn(json.NewEncoder(os.Stdout).Encode(sw.Run(ctx)))
}

// used is the processor time that this process has taken.
func used() time.Duration {
	var u unix.Rusage
	exitOn(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
