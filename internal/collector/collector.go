// Package collector says how much memory a process may use beyond what it needs, before Go's garbage collector runs. A
// fixed GOGC is either too low for a small heap, since the collector then runs often, or too high for a large one,
// which triples; and what was freed stays with the process for minutes. It measures nothing, and knows no bounds: those
// are of who allocates.
package collector

import (
	"math"
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
	most, least = 200, 25
)

// From a heap of so many bytes on, the process gives back what is more than the heap may grow to and half of firm: a
// large heap has holes, such as snapshots that were freed, of which half as much again was seen.
const firm = 256 << 20

// Tune sets the pace of the collector now, and again after each collection. It does nothing if GOGC or GOMEMLIMIT is
// set. It is to be called once.
func Tune() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	t := &tuner{percent: most, limit: math.MaxInt64}
	debug.SetGCPercent(most)
	t.arm()
}

// tuner is used by the goroutine that runs finalizers only.
type tuner struct {
	percent int
	limit   int64
}

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
		if l := limit(live[0].Value.Uint64()); l != t.limit {
			t.limit = l
			debug.SetMemoryLimit(l)
		}
		t.arm()
	})
}

// percent is GOGC for so many bytes in use. It has few values, because each change stops the process for a moment.
func percent(live uint64) int {
	const step = 10
	return max(least, min(most, int(100*spare/(live+1))/step*step))
}

// limit is the memory limit for so many bytes in use, in steps for the same reason.
func limit(live uint64) int64 {
	const step = firm / 4
	if live < firm {
		return math.MaxInt64
	}
	goal := live * uint64(100+percent(live)) / 100
	return int64((goal+firm/2)/step) * step
}
