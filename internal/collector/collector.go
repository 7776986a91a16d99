// Package collector says how much memory a process may use beyond what it needs, before Go's garbage collector runs. A
// fixed GOGC is either too low for a small heap, since the collector then runs often, or too high for a large one,
// which triples; and what was freed stays with the process for minutes. It also makes room for large allocations. It
// knows no bounds: those are of who allocates.
package collector

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
)

// Of what is in use after a collection.
const (
	// spare is what a heap may grow by, unless one of the following says otherwise.
	spare = 256 << 20
	// most and least are that in per cent. A larger heap would no longer fit into the caches of processors.
	most, least = 200, 25
)

const (
	large      = 4 << 20 // bytes: an allocation below that is one of many
	maxPercent = 1 << 20 // the most that is added for what is expected: GOGC has 32 bits
)

// From a heap of so many bytes on, the process gives back what is more than the heap may grow to and half of firm, or
// what limit says if that is more: a large heap has holes, such as snapshots that were freed, of which half as much
// again was seen.
const firm = 256 << 20

// tuned is of this process; nil without Tune.
var tuned atomic.Pointer[tuner]

// Tune sets the pace of the collector now, and again after each collection. It does nothing if GOGC or GOMEMLIMIT is
// set. It is to be called once.
func Tune() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	t := newTuner()
	tuned.Store(t)
	t.arm()
}

// tuner is used by the goroutine that runs finalizers, and by those that expect something.
type tuner struct {
	mu       sync.Mutex // guards the fields below, and setting the pace
	percent  int
	limit    int64
	expected []*expectation
}

// expectation is a large allocation that no collection has found in use yet.
type expectation struct {
	bytes uint64
	until uint64 // the number of the first collection that finds it; 0: it was not allocated yet
}

func newTuner() *tuner {
	debug.SetGCPercent(most)
	return &tuner{percent: most, limit: math.MaxInt64}
}

// collected is unreachable from the start, so its finalizer runs after each collection.
type collected struct{ *tuner }

func (t *tuner) arm() {
	runtime.SetFinalizer(&collected{t}, func(*collected) {
		t.mu.Lock()
		t.tune()
		t.mu.Unlock()
		t.arm()
	})
}

// Expect lets the heap grow by so many bytes more until the next collection, for an allocation of that size. Otherwise
// a large one makes the heap larger at once than it may grow to. Then every goroutine that allocates, such as one that
// sends heartbeats, has to do a large part of a collection first. The caller calls allocated after the allocation.
// Expect also helps while a collection runs. It does nothing for less than large, or without Tune.
func Expect(bytes int) (allocated func()) {
	t := tuned.Load()
	if t == nil || bytes < large {
		return func() {}
	}
	return t.expect(bytes)
}

func (t *tuner) expect(bytes int) (allocated func()) {
	e := &expectation{bytes: uint64(bytes)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = append(t.expected, e)
	t.tune()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		e.until = measure().collections + 1
	}
}

// memory is that of this process, in bytes.
type memory struct {
	live uint64 // in use at the end of the last collection
	held uint64 // that the process has, and would have to give back for a lower limit
	// other is what of held is neither allocated nor free for objects of any size, such as stacks and the space between
	// objects. What a collection has freed counts as allocated until it is swept.
	other uint64

	collections uint64 // how many there have been
}

func measure() memory {
	names := []string{"/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/total:bytes",
		"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes", "/gc/cycles/total:gc-cycles"}
	s := make([]metrics.Sample, len(names))
	for i, name := range names {
		s[i].Name = name
	}
	metrics.Read(s)
	v := func(i int) uint64 { return s[i].Value.Uint64() }
	live, objects, held, free, collections := v(0), v(1), v(2)-v(3), v(4), v(5)
	return memory{live: live, held: held, other: held - min(held, objects+free), collections: collections}
}

// tune sets the pace. The caller has the lock.
func (t *tuner) tune() {
	m := measure()
	more := uint64(0)
	t.expected = slices.DeleteFunc(t.expected, func(e *expectation) bool {
		return e.until > 0 && e.until <= m.collections
	})
	for _, e := range t.expected {
		more += e.bytes
	}
	p := percent(m.live)
	if more > 0 {
		p += int(min(100*more/max(m.live, 4<<20)+1, maxPercent)) // Go takes a smaller heap for one of 4 MiB
	}
	if p != t.percent {
		t.percent = p
		debug.SetGCPercent(p)
	}
	if l := limit(m, p); l != t.limit {
		t.limit = l
		debug.SetMemoryLimit(l)
	}
}

// percent is GOGC for so many bytes in use, in steps, so that it stays the same for most collections.
func percent(live uint64) int {
	const step = 10
	return max(least, min(most, int(100*spare/(live+1))/step*step))
}

// limit is the memory limit if GOGC is p, in steps. Go lets the heap grow to 97 % of what other memory leaves of the
// limit, which has to be at least what p allows. The limit is also at least what the process holds: below that Go would
// collect at once. What is held falls a little below the limit, and so both fall from one collection to the next.
func limit(m memory, p int) int64 {
	const step = firm / 16
	if m.live < firm {
		return math.MaxInt64
	}
	goal := m.live * uint64(100+p) / 100
	need := max(goal+firm/2, (goal+m.other)*104/100, m.held)
	return int64((need + step - 1) / step * step)
}
