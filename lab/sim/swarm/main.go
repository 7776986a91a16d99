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

	"github.com/holdfast-sdn/holdfast/lab/sim"
)

func main() {
	from := flag.Uint64("from", 1, "the first `seed`")
	seeds := flag.Int("seeds", 1000, "how many `N` seeds to run, for three minutes at most")
	file := flag.String("scenario", "", "a stored scenario, as JSON `file`, to run with each seed")
	flag.Parse()
	debug.SetGCPercent(400) // as in holdfast sim
	sw := sim.Swarm{From: *from, Seeds: *seeds, Time: 3 * time.Minute}
	if *file != "" {
		b, err := os.ReadFile(*file)
		exitOn(err)
		exitOn(json.Unmarshal(b, &sw.Scenario))
		exitOn(sw.Scenario.Validate())
	}
	exitOn(json.NewEncoder(os.Stdout).Encode(sw.Run(context.Background())))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
