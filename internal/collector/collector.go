// Package collector says how much memory a process may use beyond what it needs, before Go's garbage collector runs. A
// fixed GOGC is either too low for a small heap, since the collector then runs often, or too high for a large one,
// which triples. It measures nothing, and knows no bounds: those are of who allocates.
package collector

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Of what is in use after a collection.
const (
	// spare is what a heap may grow by, unless one of the following says otherwise.
	spare = 256 << 20
	// most and least are that in per cent. A larger heap would no longer fit into the caches of processors.
	most, least = 200, 50
)

// Tune sets the pace of the collector now, and again after each collection. It does nothing if GOGC is set. It is to be
// called once.
func Tune() {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := &tuner{percent: most}
	debug.SetGCPercent(most)
	t.arm()
}

// tuner is used by the goroutine that runs finalizers only.
type tuner struct{ percent int }

// collected is unreachable from the start, so its finalizer runs after each collection.
type collected struct{ *tuner }

func (t *tuner) arm() {
	runtime.SetFinalizer(&collected{t}, func(*collected) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if p := percent(live[0].Value.Uint64()); p != t.percent {
			t.percent = p
			debug.SetGCPercent(p)
		}
		t.arm()
	})
}

// percent is GOGC for so many bytes in use. It has few values, because each change stops the process for a moment.
func percent(live uint64) int {
	const step = 25
	return max(least, min(most, int(100*spare/(live+1))/step*step))
}
