package collector

import (
	"math"
	"runtime"
	"runtime/debug"
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
	for live, want := range map[uint64]int64{0: math.MaxInt64, 255 << 20: math.MaxInt64, 256 << 20: 576 << 20,
		512 << 20: 832 << 20, 1152 << 20: 1536 << 20} {
		if got := limit(live); got != want {
			t.Errorf("%d MiB: %d MiB, want %d", live>>20, got>>20, want>>20)
		}
	}
	for live := uint64(firm); live < 16<<30; live += 100 << 20 {
		if goal := live * uint64(100+percent(live)) / 100; uint64(limit(live)) <= goal {
			t.Errorf("%d MiB: the limit is %d MiB, but the heap may grow to %d", live>>20, limit(live)>>20, goal>>20)
		}
	}
}

// TestTune lets the heap grow and shrink.
func TestTune(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	Tune()
	now := func() int { // there is no other way to read it
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	if p := now(); p != most {
		t.Errorf("%d at first, want %d", p, most)
	}
	large := make([]byte, 300<<20)
	await.Until(t, "the collector to run sooner", func() bool { runtime.GC(); return now() == 80 })
	await.Until(t, "a memory limit", func() bool { return debug.SetMemoryLimit(-1) == 640<<20 })
	runtime.KeepAlive(large)
	large = nil
	await.Until(t, "the collector to run later", func() bool { runtime.GC(); return now() == most })
	await.Until(t, "no memory limit", func() bool { return debug.SetMemoryLimit(-1) == math.MaxInt64 })
}
