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
	flag.Parse()
	debug.SetGCPercent(400) // as in holdfast sim
	sum := sim.Swarm{From: *from, Seeds: *seeds, Time: 3 * time.Minute}.Run(context.Background())
	if err := json.NewEncoder(os.Stdout).Encode(sum); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
