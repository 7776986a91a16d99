package collector

import (
	"bytes"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 30 << 20: 200, 128 << 20: 190, 200 << 20: 120, 256<<20 - 1: 100,
		500 << 20: 50, 8 << 30: 25} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

func TestLimit(t *testing.T) {
	for live, want := range map[uint64]int64{0: math.MaxInt64, 255 << 20: math.MaxInt64, 256 << 20: 624 << 20,
		512 << 20: 848 << 20, 1152 << 20: 1568 << 20} {
		if got := limit(memory{live: live, held: live}, percent(live)); got != want {
			t.Errorf("%d MiB: %d MiB, want %d", live>>20, got>>20, want>>20)
		}
	}
	for live := uint64(firm); live < 16<<30; live += 100 << 20 {
		for _, other := range []uint64{0, 100 << 20, live / 2} {
			for held := live + other; held < 3*live; held += 100 << 20 {
				for _, p := range []int{least, percent(live), 500} {
					l := uint64(limit(memory{live: live, other: other, held: held}, p))
					goal := live * uint64(100+p) / 100
					if l < held || (l-other)*97/100 < goal || l > max(held, goal+firm/2, (goal+other)*105/100)+firm/16 {
						t.Fatalf("%d%% of %d MiB, held are %d, of which %d are for no object: the limit is %d MiB", p,
							live>>20, held>>20, other>>20, l>>20)
					}
				}
			}
		}
	}
}

// tune sets the pace, and at the end what it was.
func tune(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before, limited := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetGCPercent(before); debug.SetMemoryLimit(limited) })
	if tuned.Load() == nil {
		Tune()
	}
	runtime.GC()
	again()
}

// again sets the pace as after a collection, whatever it was, and returns it.
func again() (percent int, limit int64) {
	t := tuned.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.percent, t.limit = 0, 0
	t.tune()
	return t.percent, t.limit
}

// TestTune lets the heap grow and shrink.
func TestTune(t *testing.T) {
	tune(t)
	now := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	if p := now(); p != most {
		t.Errorf("%d at first, want %d", p, most)
	}
	large := make([]byte, 300<<20)
	await.Until(t, "the collector to run sooner", func() bool { runtime.GC(); return now() == 80 })
	await.Until(t, "a memory limit", func() bool {
		l := debug.SetMemoryLimit(-1)
		return l >= 640<<20 && l < 2<<30
	})
	runtime.KeepAlive(large)
	large = nil
	await.Until(t, "the collector to run later", func() bool { runtime.GC(); return now() == most })
	await.Until(t, "no memory limit", func() bool { return debug.SetMemoryLimit(-1) == math.MaxInt64 })
}

// A large allocation that is expected begins no collection, and nothing else may make the heap larger. What was
// expected is forgotten when a collection has found it.
func TestExpect(t *testing.T) {
	tune(t)
	filled := bytes.Repeat([]byte{1}, 300<<20)
	for range 2 { // the second is begun after what the first one had to finish
		runtime.GC()
	}
	quiet, limit := again()
	first := measure().collections

	const size = 400 << 20
	allocated := Expect(size)
	// After a collection that has not found it.
	if p, l := again(); p < quiet+100*size/(310<<20) || l < limit+size-firm/2 {
		t.Errorf("%d%% and at most %d MiB, before %d%% and %d", p, l>>20, quiet, limit>>20)
	}
	grown := make([]byte, size)
	allocated()
	if now := measure().collections; now != first {
		t.Errorf("%d collections", now-first)
	}
	runtime.GC()
	p, _ := again()
	if live := measure().live; p != percent(live) || live < size {
		t.Errorf("%d%% with %d MiB in use", p, live>>20)
	}
	runtime.KeepAlive(filled)
	runtime.KeepAlive(grown)

	Expect(large - 1)
	if after, _ := again(); after != p {
		t.Errorf("%d%% for a small allocation, before %d%%", after, p)
	}
}

// Space between objects is of no use for larger ones.
func TestMeasure(t *testing.T) {
	small := make([][]byte, 200_000)
	for i := range small {
		small[i] = make([]byte, 512)
	}
	for i := range small {
		if i%4 > 0 {
			small[i] = nil
		}
	}
	runtime.GC()
	runtime.GC()
	const gone = 200_000 * 3 / 4 * 512
	if m := measure(); m.other < gone*9/10 || m.held < m.other+m.live || m.live < gone/3 {
		t.Errorf("%d KiB in use, %d for no object, of %d", m.live>>10, m.other>>10, m.held>>10)
	}
	runtime.KeepAlive(small)
}
