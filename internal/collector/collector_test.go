package collector

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 30 << 20: 200, 128 << 20: 175, 200 << 20: 125, 256<<20 - 1: 100,
		500 << 20: 50, 8 << 30: 50} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// TestTune lets the heap grow and shrink.
func TestTune(t *testing.T) {
	t.Setenv("GOGC", "")
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
	await.Until(t, "the collector to run sooner", func() bool { runtime.GC(); return now() == 75 })
	runtime.KeepAlive(large)
	large = nil
	await.Until(t, "the collector to run later", func() bool { runtime.GC(); return now() == most })
}
