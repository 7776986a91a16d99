package shells

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 60, "how many seeds TestSwarm runs")
	from  = flag.Uint64("from", 1, "the first of them")
)

// A run makes no progress if goroutines wait for each other's locks, because synctest waits for them as well.
var stuckAfter = flag.Duration("stuck", 20*time.Second, "how long, in real time, a run may make no progress")

func TestSwarm(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	var events, commands, items, moves, switchMoves, terms, simulated atomic.Int64
	began := time.Now()
	var failed atomic.Bool // later failures add little
	t.Run("seeds", func(t *testing.T) {
		for i := range n {
			seed := *from + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if failed.Load() {
					t.Skip("another seed has failed")
				}
				defer func() { failed.Store(failed.Load() || t.Failed()) }()
				r := runSeed(t, seed)
				events.Add(int64(r.Events))
				commands.Add(int64(r.Commands))
				items.Add(int64(r.Items))
				moves.Add(int64(r.Moves))
				switchMoves.Add(int64(r.SwitchMoves))
				terms.Add(int64(r.Terms))
				simulated.Add(int64(r.Simulated))
			})
		}
	})
	t.Logf("%d seeds, %d leaders, %d events, %d commands, %d items between groups, %d moves of actors and %d of "+
		"switches; %v simulated in %v", n,
		terms.Load(), events.Load(), commands.Load(), items.Load(), moves.Load(), switchMoves.Load(),
		time.Duration(simulated.Load()).Round(time.Second), time.Since(began).Round(time.Second))
	few := min(events.Load(), commands.Load()) == 0 || terms.Load() < int64(n)
	few = few || n >= 10 && items.Load() == 0                         // several groups
	few = few || n > 10 && min(moves.Load(), switchMoves.Load()) == 0 // ten short runs may have none
	if few && !t.Failed() {
		t.Errorf("nothing much happened")
	}
}

func runSeed(t *testing.T, seed uint64) (r Result) {
	var alive atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := int64(-1); ; {
			select {
			case <-stop:
				return
			case <-time.After(*stuckAfter):
			}
			if now := alive.Load(); now == last {
				panic(fmt.Sprintf("seed %d makes no progress: goroutines wait for locks of each other", seed))
			} else {
				last = now
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	sc := NewScenario(seed)
	synctest.Test(t, func(t *testing.T) {
		r = Run(sc, func() { alive.Add(1) })
		if r.Violation != "" {
			t.Errorf("%v%v", sc, r)
		}
	})
	return r
}
